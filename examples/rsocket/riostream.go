package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

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
func riostream(args []string) (task, error) {
	o, err := parseStream("riostream", args)
	o.ioMaps = 1
	return func(ctx context.Context, out io.Writer) error { return writeMemory(ctx, o, out) }, err
}

func writeMemory(ctx context.Context, o *streamOptions, out io.Writer) (err error) {
	s, err := connect(ctx, &o.options, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	m := &memory{o: o, s: s, bytes: make([]byte, o.size)}
	m.bytes[o.size-1] = 0xff // not the first number
	if m.mapped, err = s.Map(m.bytes, rsocket.ProtWrite, 0); err != nil {
		return err
	}
	client := o.server != ""
	if err := greet(s, client); err != nil {
		return fmt.Errorf("the first 16 bytes: %w", err)
	}
	start := time.Now()
	for i := range o.iterations {
		for turn, write := range []bool{client, !client} {
			number := byte(2*i + turn)
			if write {
				err = m.write(number)
			} else {
				err = m.wait(ctx, number)
			}
			if err != nil {
				return fmt.Errorf("iteration %d: %w", i, err)
			}
		}
	}
	o.report(out, time.Since(start))
	return m.mapped.Unmap()
}

// greet sends 16 bytes each way. The library sends where the mapped memory is in front of them.
func greet(s io.ReadWriter, client bool) error {
	b := make([]byte, 16)
	if client {
		if _, err := s.Write(b); err != nil {
			return err
		}
	}
	_, err := io.ReadFull(s, b)
	if !client && err == nil {
		_, err = s.Write(b)
	}
	return err
}

// memory is where the peer writes to, and what is written to the peer's memory.
type memory struct {
	o               *streamOptions
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
	deadline := time.Now().Add(m.o.timeout)
	for n := 1; m.mapped.Load(m.o.size-1) != number; n++ {
		if n%1024 != 0 {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := m.s.isConnected(); err != nil && m.mapped.Load(m.o.size-1) != number {
			return err
		}
		if time.Now().After(deadline) {
			return silence(m.o.timeout)
		}
	}
	if m.o.verify {
		return m.filled.check(m.bytes[:m.o.size-1])
	}
	return nil
}
