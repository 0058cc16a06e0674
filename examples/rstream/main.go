// Rstream sends bytes over an rsocket, back and forth, and measures how fast they go, with itself or with the stock
// rstream, as server or as client.
//
//	rstream -T verify                # on one host: waits
//	rstream -T verify -s HOST        # on the other
//
// On the stream, after 16 bytes each way:
//
//	client                               server
//	-C transfers of -S bytes       ──►
//	                               ◄──   as many
//	and that -I times
//
// With -T verify the bytes count up, in either direction, from the first one on.
package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/pureverbs/pureverbs/examples/internal/cm"
	"github.com/pureverbs/pureverbs/examples/internal/pingpong"
	"github.com/pureverbs/pureverbs/examples/internal/rs"
)

func main() { cm.Main("rstream", run) }

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o, err := rs.ParseStream("rstream", args)
	if err != nil {
		return err
	}
	c, err := rs.Connect(ctx, &o.Options, out)
	if err != nil {
		return err
	}
	defer pingpong.Close(c, &err)
	client := o.Server != ""
	s := &stream{rw: c, verify: o.Verify, buf: make([]byte, max(16, o.Size))}
	for _, send := range []bool{client, !client} { // both are there
		if err := s.transfer(send, 16); err != nil {
			return fmt.Errorf("the first 16 bytes: %w", err)
		}
	}
	start := time.Now()
	for i := range o.Iterations {
		for _, send := range []bool{client, !client} {
			for n := range o.Count {
				if err := s.transfer(send, o.Size); err != nil {
					return fmt.Errorf("iteration %d, transfer %d: %w", i, n, err)
				}
			}
		}
	}
	o.Report(out, time.Since(start))
	return nil
}

// stream sends and receives: what is above an rsocket need not know what it is.
type stream struct {
	rw             io.ReadWriter
	buf            []byte
	verify         bool
	sent, received rs.Count
}

// transfer sends n bytes, or receives them.
func (s *stream) transfer(send bool, n int) error {
	b := s.buf[:n]
	if send {
		if s.verify {
			s.sent.Fill(b)
		}
		_, err := s.rw.Write(b)
		return err
	}
	if _, err := io.ReadFull(s.rw, b); err != nil {
		return err
	}
	if s.verify {
		return s.received.Check(b)
	}
	return nil
}
