package agent

import (
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	maxRequest = 4 << 10 // bytes of JSON that an agent reads
	maxReply   = 1 << 20 // bytes of JSON that it sends
)

// StepLimit is the time in which the ends of a connection have to meet, and what one sends has to be received.
const StepLimit = 10 * time.Second

// Errors between the two ends.
var (
	// ErrToken means that the other end does not know the token.
	ErrToken = errors.New("the other end has a different token; give both ends the same")
	// ErrNoAgent means that something else listens there.
	ErrNoAgent = errors.New("no rdmaperf serve is listening there")
	// ErrVersion means that the agent's protocol is not this one.
	ErrVersion = errors.New("rdmaperf serve of another version; use the same release on all hosts")
	// ErrFrame means that a frame was too long, or not made by the other end.
	ErrFrame = errors.New("invalid frame")
)

// frames is a control connection whose ends have met.
type frames struct {
	net.Conn          // encrypted
	raw      net.Conn // closed without a word, for which another one may not listen
}

// Close ends the connection.
func (f *frames) Close() error { return f.raw.Close() }

// send writes one object.
func (f *frames) send(v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	f.SetWriteDeadline(time.Now().Add(StepLimit))
	_, err = f.Write(append(b, body...))
	return err
}

// receive reads one object of at most most bytes.
func (f *frames) receive(v any, most int) error {
	head := make([]byte, 4)
	if _, err := io.ReadFull(f, head); err != nil {
		return forged(err)
	}
	n := binary.BigEndian.Uint32(head)
	if n > uint32(most) {
		return fmt.Errorf("%w: %d bytes; allowed: %d", ErrFrame, n, most)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(f, body); err != nil {
		return forged(err)
	}
	return json.Unmarshal(body, v)
}

// forged returns ErrFrame for what the other end did not encrypt.
func forged(err error) error {
	var header tls.RecordHeaderError
	var op *net.OpError
	if errors.As(err, &header) || errors.As(err, &op) && op.Op == "local error" {
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	return err
}
