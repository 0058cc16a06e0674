package agent

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

const (
	agentName  = "pureverbs-agent "
	greeting   = agentName + "1 "
	nonceLen   = 16
	maxRequest = 4 << 10 // bytes of JSON that an agent reads
	maxReply   = 1 << 20 // bytes of JSON that it sends
)

// Errors between the two ends.
var (
	// ErrToken means that the other end does not know the token.
	ErrToken = errors.New("the other end has a different token; give both ends the same")
	// ErrNoAgent means that something else listens there.
	ErrNoAgent = errors.New("no perf serve is listening there")
	// ErrVersion means that the agent's protocol is not this one.
	ErrVersion = errors.New("perf serve of another version; use the same release on all hosts")
	// ErrFrame means that a frame was too long, or not made by the other end.
	ErrFrame = errors.New("invalid frame")
)

// frames is a control connection. Its end is 'a' at the agent and 'c' at the client.
type frames struct {
	net.Conn
	key      []byte
	end      byte
	sent     uint64
	received uint64
}

func otherEnd(end byte) byte { return 'a' + 'c' - end }

// authenticate is the agent's part of the meeting.
func authenticate(c net.Conn, t Token) (*frames, error) {
	own := make([]byte, nonceLen)
	rand.Read(own)
	if _, err := fmt.Fprintf(c, "%s%x\n", greeting, own); err != nil {
		return nil, err
	}
	answer := make([]byte, nonceLen+sha256.Size)
	if _, err := io.ReadFull(c, answer); err != nil {
		return nil, err
	}
	peer := answer[:nonceLen]
	if !hmac.Equal(answer[nonceLen:], mac(t.secret, []byte("client"), own, peer)) {
		c.Write([]byte{'-'})
		return nil, ErrToken
	}
	if _, err := c.Write(append([]byte{'+'}, mac(t.secret, []byte("agent!"), own, peer)...)); err != nil {
		return nil, err
	}
	return &frames{Conn: c, key: mac(t.secret, []byte("frames"), own, peer), end: 'a'}, nil
}

// introduce is the client's part.
func introduce(c net.Conn, t Token) (*frames, error) {
	line := make([]byte, len(greeting)+2*nonceLen+1)
	if _, err := io.ReadFull(c, line); err != nil {
		return nil, err
	}
	text, ok := strings.CutPrefix(string(line), greeting)
	if !ok && strings.HasPrefix(text, agentName) {
		return nil, ErrVersion
	}
	peer, err := hex.DecodeString(strings.TrimSuffix(text, "\n"))
	if !ok || err != nil || len(peer) != nonceLen {
		return nil, ErrNoAgent
	}
	own := make([]byte, nonceLen)
	rand.Read(own)
	if _, err := c.Write(append(own, mac(t.secret, []byte("client"), peer, own)...)); err != nil {
		return nil, err
	}
	answer := make([]byte, 1+sha256.Size)
	if _, err := io.ReadFull(c, answer[:1]); err != nil {
		return nil, err
	}
	if answer[0] != '+' {
		return nil, ErrToken
	}
	if _, err := io.ReadFull(c, answer[1:]); err != nil {
		return nil, err
	}
	if !hmac.Equal(answer[1:], mac(t.secret, []byte("agent!"), peer, own)) {
		return nil, ErrToken
	}
	return &frames{Conn: c, key: mac(t.secret, []byte("frames"), peer, own), end: 'c'}, nil
}

func (f *frames) sign(end byte, number uint64, body []byte) []byte {
	return mac(f.key, []byte{end}, binary.BigEndian.AppendUint64(nil, number), body)
}

// send writes one object.
func (f *frames) send(v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	b = append(b, f.sign(f.end, f.sent, body)...)
	f.sent++
	f.SetWriteDeadline(time.Now().Add(stepLimit))
	_, err = f.Write(append(b, body...))
	return err
}

// receive reads one object of at most most bytes.
func (f *frames) receive(v any, most int) error {
	head := make([]byte, 4+sha256.Size)
	if _, err := io.ReadFull(f, head); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head)
	if n > uint32(most) {
		return fmt.Errorf("%w: %d bytes; allowed: %d", ErrFrame, n, most)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(f, body); err != nil {
		return err
	}
	if !hmac.Equal(head[4:], f.sign(otherEnd(f.end), f.received, body)) {
		return fmt.Errorf("%w: wrong signature", ErrFrame)
	}
	f.received++
	return json.Unmarshal(body, v)
}
