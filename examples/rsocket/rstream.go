package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
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
func rstream(args []string) (task, error) {
	o, err := parseStream("rstream", args)
	return func(ctx context.Context, out io.Writer) error { return streamBytes(ctx, o, out) }, err
}

func streamBytes(ctx context.Context, o *streamOptions, out io.Writer) (err error) {
	c, err := connect(ctx, &o.options, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	client := o.server != ""
	s := &stream{rw: c, verify: o.verify, buf: make([]byte, max(16, o.size))}
	for _, send := range []bool{client, !client} { // both are there
		if err := s.transfer(send, 16); err != nil {
			return fmt.Errorf("the first 16 bytes: %w", err)
		}
	}
	start := time.Now()
	for i := range o.iterations {
		for _, send := range []bool{client, !client} {
			for n := range o.count {
				if err := s.transfer(send, o.size); err != nil {
					return fmt.Errorf("iteration %d, transfer %d: %w", i, n, err)
				}
			}
		}
	}
	o.report(out, time.Since(start))
	return nil
}

// stream sends and receives: what is above an rsocket need not know what it is.
type stream struct {
	rw             io.ReadWriter
	buf            []byte
	verify         bool
	sent, received counter
}

// transfer sends n bytes, or receives them.
func (s *stream) transfer(send bool, n int) error {
	b := s.buf[:n]
	if send {
		if s.verify {
			s.sent.fill(b)
		}
		_, err := s.rw.Write(b)
		return err
	}
	if _, err := io.ReadFull(s.rw, b); err != nil {
		return err
	}
	if s.verify {
		return s.received.check(b)
	}
	return nil
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
	for i, got := range b {
		if got != byte(*c) {
			return fmt.Errorf("byte %d is %#02x, want %#02x (has the peer -T verify?)", i, got, byte(*c))
		}
		*c++
	}
	return nil
}

// streamOptions are those of rstream and riostream.
type streamOptions struct {
	options
	iterations, count, size int
	verify                  bool
}

// parseStream reads the command line of rstream or riostream.
func parseStream(name string, args []string) (*streamOptions, error) {
	o := &streamOptions{}
	f := o.newFlags(fmt.Sprintf("rsocket %s [options]\nrsocket %[1]s -s HOST [options]\n", name), "7471")
	o.serverFlag(f)
	f.IntVarP(&o.iterations, "iterations", "I", 1, "`number` of times, the same on both sides")
	f.IntVarP(&o.count, "count", "C", 1000, "`number` of transfers each time, the same on both sides")
	f.IntVarP(&o.size, "size", "S", 1000, "`bytes` in a transfer, the same on both sides")
	words{
		"async":       func() { o.wait = async },
		"nonblocking": func() { o.wait = nonblocking },
		"blocking":    func() { o.wait = blocking },
		"verify":      func() { o.verify = true },
	}.add(f)
	err := o.parse(f, args, 0)
	return o, errors.Join(err,
		within("-I", o.iterations, 1, math.MaxInt32),
		within("-C", o.count, 1, math.MaxInt32),
		within("-S", o.size, 1, 1<<30))
}

// report prints how long the transfers took, both ways.
func (o *streamOptions) report(out io.Writer, took time.Duration) {
	note := ""
	if o.verify {
		note = ", every byte as it should be"
	}
	report(out, 2*o.iterations*o.count, o.size, took, note)
}

// report prints how long transfers took.
func report(out io.Writer, transfers, size int, took time.Duration, note string) {
	s := max(took.Seconds(), 1e-9)
	fmt.Fprintf(out, "%d transfers of %d bytes in %.3f s: %.2f Gb/s, %.2f µs each%s\n", transfers, size, s,
		float64(transfers)*float64(size)*8/s/1e9, s*1e6/float64(transfers), note)
}
