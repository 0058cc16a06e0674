package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/rdmacm/rsocket"
)

// udpong sends datagrams over an rsocket to a server, which counts them or sends them back. Datagrams of rsockets need
// InfiniBand, and may be lost. A question without a reply is asked again. Of datagrams that are only counted, the
// server reports how many have come.
func udpong(r *program.Run) {
	s := open(r, rsocket.Datagram).connected()
	if flags.Server == "" {
		s.serve()
		return
	}
	c := &client{socket: s}
	c.id = c.ask(login, control)[1]
	c.ask(begin, control)
	start := time.Now()
	for range flags.count {
		if flags.test["echo"] {
			c.ask(echo, flags.size)
		} else {
			program.Must(c.Write(c.question(data, flags.size)))
		}
	}
	count, note := flags.count, fmt.Sprintf("; %d have arrived", binary.BigEndian.Uint32(c.ask(end, control)[4:]))
	if flags.test["echo"] {
		count, note = 2*count, fmt.Sprintf("%s; %d questions were asked again", program.Checked(true), c.again)
	}
	report(r, count, flags.size, time.Since(start), note)
}

const (
	control = 16                     // bytes of a datagram that is neither data nor echo, and the least
	largest = 2024                   // what an rsocket can send by IPv6; by IPv4 it is a little more
	retry   = 200 * time.Millisecond // after which a datagram or its reply counts as lost
)

// The kind of a datagram is its first byte. Then come the number of the client, the number of the question, a byte
// that is not used, the count in four bytes, and anything else. All but data are sent back.
const (
	login = iota // gives the client its number
	begin        // counts from 0
	data
	echo
	end // brings the count
)

// serve replies until interrupted.
func (s *socket) serve() {
	var counts [256]uint32 // datagrams of each client
	var next byte          // client
	s.run.Serves = true
	for b := make([]byte, 2*largest); ; {
		m, from, err := s.recvFrom(s.run, b)
		program.Check(err)
		if len(m) < control {
			fmt.Fprintf(s.run, "%v: a datagram of %d bytes, want at least %d\n", from, len(m), control)
			continue
		}
		switch m[0] {
		case login:
			fmt.Fprintf(s.run, "client %d is %v\n", next, from)
			m[1] = next
			next++
		case begin:
			counts[m[1]] = 0
		case end:
			binary.BigEndian.PutUint32(m[4:], counts[m[1]])
		default:
			counts[m[1]]++
		}
		if m[0] != data && m[0] <= end {
			program.Check(s.until(rsocket.PollOut, func() error {
				_, err := s.SendTo(m, 0, from)
				return err
			}))
		}
	}
}

// recvFrom receives a datagram.
func (s *socket) recvFrom(ctx context.Context, b []byte) (m []byte, from netip.AddrPort, err error) {
	err = s.try(ctx, rsocket.PollIn, func() error {
		n, addr, err := s.RecvFrom(b, 0)
		m, from = b[:n], addr
		return err
	})
	return m, from, err
}

// client is not safe for concurrent use.
type client struct {
	*socket
	id     byte // as the server says
	number byte // of the next question
	again  int  // questions asked again
}

// question makes the next datagram.
func (c *client) question(op byte, size int) []byte {
	m := make([]byte, size)
	m[0], m[1], m[2] = op, c.id, c.number
	c.number++
	(&program.Messages{Size: size - control}).Fill(m[control:], int(c.number))
	return m
}

// ask sends a question until its reply comes, and drops replies to earlier ones.
func (c *client) ask(op byte, size int) []byte {
	ctx, cancel := flags.timeout.Context(c.run)
	defer cancel()
	q, b := c.question(op, size), make([]byte, 2*largest)
	for ; ; c.again++ {
		program.Must(c.Write(q))
		soon, cancel := context.WithTimeout(ctx, retry)
		m, _, err := c.recvFrom(soon, b)
		for err == nil && (len(m) < control || m[2] != q[2] || m[0] != q[0]) {
			m, _, err = c.recvFrom(soon, b)
		}
		cancel()
		if err != context.DeadlineExceeded { // that of soon: the cause of ctx is another
			program.Check(err)
			program.Ensure(bytes.Equal(m[8:], q[8:]), "another datagram came back than was sent")
			return m
		}
	}
}
