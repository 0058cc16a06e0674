package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/rdmacm/rsocket"
)

// rstream sends bytes over an rsocket, back and forth, and measures how fast they go. After 16 bytes each way the
// client sends -C transfers of -S bytes, and the server as many, and that -I times. With -T verify the bytes count up,
// in either direction, from the first one on.
func rstream(r *program.Run) {
	s := dial(r)
	s.verify()
	s.greet()
	b := make([]byte, flags.size)
	s.play(func(send bool, turn int) {
		for n := range flags.count {
			s.transfer(send, b, "iteration %d: transfer %d", turn/2, n)
		}
	})
}

// riostream writes into the memory of its peer over an rsocket, back and forth, and measures how fast that goes. Each
// side maps -S bytes, which the other learns of with 16 bytes on the stream. Then, -I times:
//
//	client                                    server
//	writes all of them, -C times        ──►
//	                                          waits until the last byte is the next number
//	                                    ◄──   writes all of them, -C times
//	waits until the last byte is the next number
//
// With -T verify the other bytes of the last write count up, in either direction.
func riostream(r *program.Run) {
	s := dial(r)
	b, last := make([]byte, flags.size), flags.size-1
	b[last] = 0xff // not the first number
	mapped := program.Must(s.Map(b, rsocket.ProtWrite, 0))
	s.greet() // the library sends where the mapped memory is in front of the first bytes
	s.verify()
	s.play(func(write bool, turn int) {
		defer program.Doing("iteration %d", turn/2)
		if !write {
			s.waitFor(mapped, last, byte(turn))
			program.Check(s.received.check(b[:last]))
			return
		}
		for range flags.count - 1 {
			s.writeAll(b)
		}
		s.sent.fill(b[:last])
		b[last] = byte(turn)
		s.writeAll(b)
	})
	program.Check(mapped.Unmap())
}

// writeAll writes all of b into the memory of the peer.
func (s *socket) writeAll(b []byte) {
	program.Must(s.all(b, rsocket.PollOut, func(rest []byte) (int, error) {
		n, err := s.WriteAt(rest, int64(len(b)-len(rest)), 0)
		program.Ensure(n > 0 || err != nil, "the peer has no memory mapped for %d bytes", len(b))
		return n, err
	}))
}

// waitFor waits until a byte of mapped memory is a number. Now and then it checks that the peer is still connected.
func (s *socket) waitFor(mapped *rsocket.IOMap, at int, number byte) {
	ctx, cancel := flags.timeout.Context(s.run)
	defer cancel()
	for n := 1; mapped.Load(at) != number; n++ {
		if n%1024 == 0 {
			_, err := s.RecvFlags(make([]byte, 1), rsocket.MsgPeek|rsocket.MsgDontWait)
			if !again(err) && mapped.Load(at) != number {
				program.Check(err)
			}
			program.Check(context.Cause(ctx))
		}
	}
}

// greet sends 16 bytes each way, after which both sides are there.
func (s *socket) greet() {
	client := flags.Server != ""
	s.transfer(client, make([]byte, 16), "the first 16 bytes")
	s.transfer(!client, make([]byte, 16), "the first 16 bytes")
}

// transfer sends b, or receives it.
func (s *socket) transfer(send bool, b []byte, what string, args ...any) {
	defer program.Doing(what, args...)
	if send {
		s.sent.fill(b)
		program.Must(s.Write(b))
	} else {
		program.Must(io.ReadFull(s, b))
		program.Check(s.received.check(b))
	}
}

// play takes turns until each side has sent -I times: two in each iteration. The client begins.
func (s *socket) play(take func(send bool, turn int)) {
	client, start := flags.Server != "", time.Now()
	for turn := range 2 * flags.iterations {
		take(client == (turn%2 == 0), turn)
	}
	report(s.run, 2*flags.iterations*flags.count, flags.size, time.Since(start), program.Checked(flags.test["verify"]))
}

// report prints how long transfers took.
func report(out io.Writer, transfers, size int, took time.Duration, note string) {
	s := max(took.Seconds(), 1e-9)
	fmt.Fprintf(out, "%d transfers of %d bytes in %.3f s: %.2f Gb/s, %.2f µs each%s\n", transfers, size, s,
		float64(transfers)*float64(size)*8/s/1e9, s*1e6/float64(transfers), note)
}

// counter is the next of bytes that count up, in which the stock programs' -T verify finds mistakes. Without -T verify
// there is none.
type counter byte

// verify begins to count.
func (s *socket) verify() {
	if flags.test["verify"] {
		s.sent, s.received = new(counter), new(counter)
	}
}

// fill makes b the next bytes.
func (c *counter) fill(b []byte) {
	for i := 0; c != nil && i < len(b); i++ {
		b[i] = byte(*c)
		*c++
	}
}

// check checks every byte of b.
func (c *counter) check(b []byte) error {
	if c == nil {
		return nil
	}
	err := program.Compare(b, c.fill)
	return program.Want(err == nil, "%w (has the peer -T verify?)", err)
}
