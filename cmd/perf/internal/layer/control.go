package layer

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
)

// protocolVersion is that of the lines below.
const protocolVersion = 1

// maxLine bounds a line of the peer.
const maxLine = 1 << 16

// order is the client's request: one run. Its Warm messages of each connection are not measured.
type order struct {
	Version  int     `json:"version"`
	Carrier  Carrier `json:"carrier"`
	Latency  bool    `json:"latency"`
	Size     int     `json:"size"`
	Conns    int     `json:"conns"`
	Messages int     `json:"messages"` // of each connection
	Warm     int     `json:"warm"`
}

func (o *order) check() error {
	switch {
	case o.Version != protocolVersion:
		return fmt.Errorf("the client speaks version %d, this server %d: give both ends the same rdmaperf", o.Version,
			protocolVersion)
	case o.Carrier != Stream && o.Carrier != Message && o.Carrier != Buffer && o.Carrier != TCP && !o.Carrier.raw() &&
		o.Carrier != Copy, o.Carrier == Copy && o.Latency:
		return fmt.Errorf("the client asks for %.20q, which this server does not have", string(o.Carrier))
	case o.Size < 1 || o.Size > maxSize, o.Conns < 1 || o.Conns > maxConns, o.Messages < 1 || o.Messages > maxMessages,
		o.Warm < 0 || o.Warm > maxMessages:
		return fmt.Errorf("client options out of range: %+v", *o)
	}
	return nil
}

// answer is a reply of the server: first where it listens, then that all connections are there, that the warm-up is
// over, and what the run has cost.
type answer struct {
	Address string  `json:"address,omitempty"`
	Usage   *Usage  `json:"usage,omitempty"`
	Memory  *Memory `json:"memory,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	Error   string  `json:"error,omitempty"`
}

// control is the exchange with the peer.
type control struct {
	conn net.Conn
	in   *bufio.Scanner
}

func newControl(c net.Conn) *control {
	in := bufio.NewScanner(c)
	in.Buffer(nil, maxLine)
	return &control{c, in}
}

func (c *control) send(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = c.conn.Write(append(line, '\n'))
	return err
}

// receive reads a line into v. At the end of what the peer sends it returns io.EOF.
func (c *control) receive(v any) error {
	if !c.in.Scan() {
		if err := c.in.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	if err := json.Unmarshal(c.in.Bytes(), v); err != nil {
		return fmt.Errorf("the peer is not rdmaperf stream or rdmaperf message: %w", err)
	}
	return nil
}

// answered reads a reply of the server.
func (c *control) answered() (a answer, err error) {
	if err := c.receive(&a); err != nil {
		if err == io.EOF {
			err = errors.New("the server closed the connection")
		}
		return a, err
	}
	if a.Error != "" {
		return a, fmt.Errorf("server: %s", a.Error)
	}
	return a, nil
}
