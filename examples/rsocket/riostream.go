package main

import (
	"context"
	"errors"
	"io"
	"syscall"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/rdmacm/rsocket"
)

// riostream writes into the memory of its peer over an rsocket, back and forth, and measures how fast that goes, with
// itself or with the stock riostream, as server or as client.
//
//	rsocket riostream -T verify                  # on one host: waits
//	rsocket riostream -T verify -s HOST          # on the other
//
// Each side maps -S bytes, which the other learns of with 16 bytes on the stream. Then, -I times:
//
//	client                                    server
//	writes all of them, -C times        ──►
//	                                          waits until the last byte is the next number
//	                                    ◄──   writes all of them, -C times
//	waits until the last byte is the next number
//
// With -T verify the other bytes of the last write count up, in either direction.
func riostream(ctx context.Context, o *options, out io.Writer) (err error) {
	defer program.Catch(&err)
	s := program.Must(dial(ctx, o, out))
	defer program.Close(s, &err)
	m := &memory{o: o, s: s, bytes: make([]byte, o.size)}
	m.bytes[o.size-1] = 0xff // not the first number
	m.mapped = program.Must(s.Map(m.bytes, rsocket.ProtWrite, 0))
	// The library sends where the mapped memory is in front of the first bytes.
	program.Check((&stream{rw: s}).greet(o.Server != ""))
	program.Check(o.play(out, func(write bool, number byte) error {
		if write {
			return m.write(number)
		}
		return m.wait(ctx, number)
	}))
	return m.mapped.Unmap()
}

// memory is where the peer writes to, and what is written to the peer's memory.
type memory struct {
	o               *options
	s               *socket
	bytes           []byte
	mapped          *rsocket.IOMap
	written, filled counter // what this side has written, and the peer
}

// write writes all the bytes, -C times, the last time with a number at the end.
func (m *memory) write(number byte) error {
	for n := range m.o.count {
		if n == m.o.count-1 {
			if m.o.verify {
				m.written.fill(m.bytes[:m.o.size-1])
			}
			m.bytes[m.o.size-1] = number
		}
		if _, err := m.s.WriteAt(m.bytes, 0); err != nil {
			return err
		}
	}
	return nil
}

// wait waits until the last byte is a number. Now and then it checks that the peer is still connected.
func (m *memory) wait(ctx context.Context, number byte) error {
	ctx, cancel := m.o.timeout.Context(ctx)
	defer cancel()
	for n := 1; m.mapped.Load(m.o.size-1) != number; n++ {
		if n%1024 != 0 {
			continue
		}
		_, err := m.s.RecvFlags(make([]byte, 1), rsocket.MsgPeek|rsocket.MsgDontWait)
		if err != nil && !errors.Is(err, syscall.EAGAIN) && m.mapped.Load(m.o.size-1) != number {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if m.o.verify {
		return m.filled.check(m.bytes[:m.o.size-1])
	}
	return nil
}
