package layer

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/rdma"
)

// copyPipe is a stream whose copies are timed: the receiver's between the stream's blocks and a buffer, and the
// sender's between a buffer and as many bytes as a stream has under way. So copying is measured in the memory, and with
// the caches, that a stream has.
type copyPipe struct {
	bytePipe
	s     *rdma.Stream
	at    int              // in the buffer
	under []byte           // bytes that would be under way
	next  int              // in under
	times *measure.Latency // of the largest copies: those of whole blocks
	block int              // bytes of these
	bytes int64            // all that was copied
}

func newCopyPipe(s *rdma.Stream) *copyPipe {
	return &copyPipe{bytePipe: bytePipe{s}, s: s, times: measure.NewLatency(), under: make([]byte, 32*copyBlock)}
}

// copyBlock is the size of a stream's large blocks.
const copyBlock = 256 << 10

// copied copies between a block and the next piece of a buffer.
func (c *copyPipe) copied(block, buf []byte, toBlock bool) {
	if c.at+len(block) > len(buf) {
		c.at = 0
	}
	piece := buf[c.at:min(c.at+len(block), len(buf))]
	c.at += len(piece)
	start := time.Now()
	if toBlock {
		copy(block, piece)
	} else {
		copy(piece, block)
	}
	took := time.Since(start)
	c.bytes += int64(len(piece))
	if len(piece) > c.block {
		c.block, c.times = len(piece), measure.NewLatency()
	}
	if len(piece) == c.block {
		c.times.Record(float64(took))
	}
}

// seconds returns the time that copying has taken: the mean of a block's, but for those that took so long that somebody
// else must have run in the middle.
func (c *copyPipe) seconds() float64 {
	if c.block == 0 {
		return 0
	}
	var sum, n float64
	long := math.Inf(1)
	if p := c.times.Summary().P50; p.Known() {
		long = interrupted * float64(p)
	}
	for _, b := range c.times.Buckets() {
		if b.FromNs < long {
			sum += (b.FromNs + b.ToNs) / 2 * float64(b.Count)
			n += float64(b.Count)
		}
	}
	return sum / n / 1e9 * float64(c.bytes) / float64(c.block)
}

// interrupted is how many times the median a copy may take.
const interrupted = 20

// reset forgets what was measured.
func (c *copyPipe) reset() { c.times, c.bytes = measure.NewLatency(), 0 }

// source reads like a file of some bytes. It copies to memory like that of the stream's blocks, and not to p, which
// the stream copies again.
type source struct {
	c    *copyPipe
	buf  []byte
	left int
}

func (s *source) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(len(p), s.left, len(s.buf), copyBlock)]
	if s.c.next+len(p) > len(s.c.under) {
		s.c.next = 0
	}
	s.c.copied(s.c.under[s.c.next:][:len(p)], s.buf, true)
	s.c.next += len(p)
	s.left -= len(p)
	return len(p), nil
}

// sink is written to until it has had some bytes.
type sink source

var errFull = errors.New("all has come")

func (s *sink) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		piece := rest[:min(len(rest), len(s.buf))]
		s.c.copied(piece, s.buf, false)
		rest = rest[len(piece):]
	}
	if s.left -= len(p); s.left <= 0 {
		return len(p), errFull
	}
	return len(p), nil
}

// sendCopy is send for a copyPipe.
func (w *work) sendCopy(_ context.Context, p pipe, buf []byte, n int) error {
	c := p.(*copyPipe)
	c.reset()
	for range n {
		if _, err := c.s.ReadFrom(&source{c, buf[:w.Size], w.Size}); err != nil {
			return err
		}
		w.moved.Add(1)
	}
	return nil
}

// receiveCopy is receive for a copyPipe.
func (w *work) receiveCopy(_ context.Context, p pipe, buf []byte, n int) error {
	c := p.(*copyPipe)
	c.reset()
	_, err := c.s.WriteTo(&sink{c, buf, n * w.Size})
	w.moved.Add(1)
	if errors.Is(err, errFull) {
		return nil
	}
	return cmp.Or(err, io.ErrUnexpectedEOF)
}
