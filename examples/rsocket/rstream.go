package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/pureverbs/pureverbs/examples/program"
)

// rstream sends bytes over an rsocket, back and forth, and measures how fast they go, with itself or with the stock
// rstream, as server or as client.
//
//	rsocket rstream -T verify                  # on one host: waits
//	rsocket rstream -T verify -s HOST          # on the other
//
// On the stream, after 16 bytes each way:
//
//	client                               server
//	-C transfers of -S bytes       ──►
//	                               ◄──   as many
//	and that -I times
//
// With -T verify the bytes count up, in either direction, from the first one on.
func rstream(ctx context.Context, o *options, out io.Writer) (err error) {
	defer program.Catch(&err)
	c := program.Must(dial(ctx, o, out))
	defer program.Close(c, &err)
	s := &stream{rw: c, verify: o.verify}
	program.Check(s.greet(o.Server != ""))
	b := make([]byte, o.size)
	return o.play(out, func(send bool, _ byte) error {
		for n := range o.count {
			if err := s.transfer(send, b); err != nil {
				return fmt.Errorf("transfer %d: %w", n, err)
			}
		}
		return nil
	})
}

// play takes turns, which are numbered, until each side has sent -I times. The client begins.
func (o *options) play(out io.Writer, turn func(send bool, number byte) error) error {
	client := o.Server != ""
	start := time.Now()
	for i := range o.iterations {
		for n, send := range []bool{client, !client} {
			if err := turn(send, byte(2*i+n)); err != nil {
				return fmt.Errorf("iteration %d: %w", i, err)
			}
		}
	}
	report(out, 2*o.iterations*o.count, o.size, time.Since(start), program.Checked(o.verify))
	return nil
}

// report prints how long transfers took.
func report(out io.Writer, transfers, size int, took time.Duration, note string) {
	s := max(took.Seconds(), 1e-9)
	fmt.Fprintf(out, "%d transfers of %d bytes in %.3f s: %.2f Gb/s, %.2f µs each%s\n", transfers, size, s,
		float64(transfers)*float64(size)*8/s/1e9, s*1e6/float64(transfers), note)
}

// stream sends and receives: what is above an rsocket need not know what it is.
type stream struct {
	rw             io.ReadWriter
	verify         bool
	sent, received counter
}

// greet sends 16 bytes each way, after which both sides are there.
func (s *stream) greet(client bool) error {
	for _, send := range []bool{client, !client} {
		if err := s.transfer(send, make([]byte, 16)); err != nil {
			return fmt.Errorf("the first 16 bytes: %w", err)
		}
	}
	return nil
}

// transfer sends b, or receives it.
func (s *stream) transfer(send bool, b []byte) error {
	if send {
		if s.verify {
			s.sent.fill(b)
		}
		_, err := s.rw.Write(b)
		return err
	}
	_, err := io.ReadFull(s.rw, b)
	if err == nil && s.verify {
		err = s.received.check(b)
	}
	return err
}

// counter is the next of bytes that count up, in which the stock programs' -T verify finds mistakes.
type counter byte

// fill makes b the next bytes.
func (c *counter) fill(b []byte) {
	for i := range b {
		b[i] = byte(*c)
		*c++
	}
}

// check checks every byte of b.
func (c *counter) check(b []byte) error {
	want := make([]byte, len(b))
	c.fill(want)
	if err := program.Compare(b, want); err != nil {
		return fmt.Errorf("%w (has the peer -T verify?)", err)
	}
	return nil
}
