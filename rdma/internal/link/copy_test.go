package link

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/deadline"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// fakeCopied is an end of a connection in memory. What is written is read again, in frames.
type fakeCopied struct {
	bytes  []byte
	most   int
	ended  error // of a write, or of a read when nothing is left
	held   int   // frames that were not given back
	writes int
}

func (c *fakeCopied) FrameMost() int { return c.most }

func (c *fakeCopied) mayWrite(b turn.Bound) error { return errors.Join(b.Expired(), c.ended) }

func (c *fakeCopied) Write(b turn.Bound, p []byte) (int, error) {
	if err := c.mayWrite(b); err != nil {
		return 0, err
	}
	c.writes++
	c.bytes = append(c.bytes, p...)
	return len(p), nil
}

func (c *fakeCopied) takeFrame(b turn.Bound) (frame, error) {
	if err := b.Expired(); err != nil {
		return frame{}, err
	}
	if len(c.bytes) == 0 {
		return frame{}, c.ended
	}
	n := min(c.most, len(c.bytes))
	f := frame{b: &Block{Mem: make([]byte, Headroom+c.most)}, n: int32(n)}
	copy(f.b.Payload(), c.bytes)
	c.bytes = c.bytes[n:]
	c.held++
	return f, nil
}

func (c *fakeCopied) giveBack(frame) { c.held-- }

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestCopyRandom copies random bytes through readers and writers that take random pieces.
func TestCopyRandom(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		want := make([]byte, rnd.IntN(300_000))
		for i := range want {
			want[i] = byte(rnd.Uint32())
		}
		c := &fakeCopied{most: 1 << (10 + rnd.IntN(9))}
		src := bytes.NewReader(want)
		var r io.Reader = readerFunc(func(p []byte) (int, error) {
			if len(p) > c.most {
				t.Fatalf("seed %d: room for %d bytes, of a frame of %d", seed, len(p), c.most)
			}
			return src.Read(p[:rnd.IntN(len(p)+1)])
		})
		if rnd.IntN(2) == 0 {
			r = &io.LimitedReader{R: src, N: int64(len(want) + rnd.IntN(2)*1000)}
		}
		if n, err := CopyFrom(c, r, turn.Bound{}); n != int64(len(want)) || err != nil {
			t.Fatalf("seed %d: from: %d of %d bytes, %v", seed, n, len(want), err)
		}
		c.ended = io.EOF
		var got bytes.Buffer
		if n, err := CopyTo(c, &got, turn.Bound{}); n != int64(len(want)) || err != nil || c.held != 0 {
			t.Fatalf("seed %d: to: %d of %d bytes, %v, %d frames held", seed, n, len(want), err, c.held)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Fatalf("seed %d: other bytes", seed)
		}
	}
}

// TestCopyFillsFrames has a reader with more than the first buffer takes: whole frames are sent from then on.
func TestCopyFillsFrames(t *testing.T) {
	c := &fakeCopied{most: 256 << 10}
	if n, err := CopyFrom(c, io.LimitReader(readerFunc(func(p []byte) (int, error) { return len(p), nil }), 1<<20),
		turn.Bound{}); n != 1<<20 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if c.writes != 5 { // 32 KiB, three of 256 KiB, and the rest
		t.Errorf("1 MiB was sent by %d writes, want 5", c.writes)
	}
}

// TestCopyCounts has readers and writers that return what they cannot mean.
func TestCopyCounts(t *testing.T) {
	var arg *ibv.ArgError
	for _, n := range []int{-1, copyBuffer + 1, 1 << 40} {
		c := &fakeCopied{most: copyBuffer}
		total, err := CopyFrom(c, readerFunc(func([]byte) (int, error) { return n, nil }), turn.Bound{})
		if !errors.As(err, &arg) || total != 0 || len(c.bytes) > 0 {
			t.Errorf("a Reader that returns %d: %d bytes, %v", n, total, err)
		}
		c = &fakeCopied{most: copyBuffer, bytes: []byte("hello"), ended: io.EOF}
		total, err = CopyTo(c, writerFunc(func([]byte) (int, error) { return n, nil }), turn.Bound{})
		if !errors.As(err, &arg) || total != 0 || c.held != 0 {
			t.Errorf("a Writer that returns %d: %d bytes, %v, %d frames held", n, total, err, c.held)
		}
	}
	c := &fakeCopied{most: copyBuffer, bytes: []byte("hello")}
	total, err := CopyTo(c, writerFunc(func([]byte) (int, error) { return 2, nil }), turn.Bound{})
	if total != 2 || err != io.ErrShortWrite || c.held != 0 {
		t.Errorf("a short write: %d bytes, %v", total, err)
	}
}

// TestCopyErrors has both sides end the copy, before it begins and after some bytes.
func TestCopyErrors(t *testing.T) {
	theirs, ours := errors.New("theirs"), errors.New("ours")
	var past deadline.Deadline
	past.Set(time.Unix(1, 0))
	never := readerFunc(func([]byte) (int, error) {
		t.Error("a Reader was asked although nothing can be sent")
		return 0, io.EOF
	})
	c := &fakeCopied{most: copyBuffer, ended: ours}
	if n, err := CopyFrom(c, never, turn.Bound{}); n != 0 || !errors.Is(err, ours) {
		t.Errorf("from, after the end: %d bytes, %v", n, err)
	}
	c = &fakeCopied{most: copyBuffer}
	if n, err := CopyFrom(c, never, turn.Bound{Deadline: &past}); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("from, after the deadline: %d bytes, %v", n, err)
	}
	var during deadline.Deadline
	n, err := CopyFrom(c, readerFunc(func(p []byte) (int, error) {
		during.Set(time.Unix(1, 0))
		return 7, nil
	}), turn.Bound{Deadline: &during})
	if n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || len(c.bytes) > 0 {
		t.Errorf("from, the deadline passes while the Reader runs: %d bytes, %v", n, err)
	}
	n, err = CopyFrom(c, io.MultiReader(strings.NewReader("hello"), readerFunc(func([]byte) (int, error) {
		return 0, theirs
	})), turn.Bound{})
	if n != 5 || err != theirs || string(c.bytes) != "hello" {
		t.Errorf("from, the Reader fails: %d bytes, %v", n, err)
	}
	n, err = CopyFrom(c, readerFunc(func(p []byte) (int, error) { return copy(p, "last"), theirs }), turn.Bound{})
	if n != 4 || err != theirs || string(c.bytes) != "hellolast" {
		t.Errorf("from, the Reader fails with bytes: %d, %v", n, err)
	}

	c = &fakeCopied{most: 4, bytes: []byte("0123456789"), ended: io.EOF}
	var to deadline.Deadline
	n, err = CopyTo(c, writerFunc(func(p []byte) (int, error) {
		to.Set(time.Unix(1, 0))
		return len(p), nil
	}), turn.Bound{Deadline: &to})
	if n != 4 || !errors.Is(err, os.ErrDeadlineExceeded) || string(c.bytes) != "456789" || c.held != 0 {
		t.Errorf("to, the deadline passes while the Writer runs: %d bytes, %v, %q left", n, err, c.bytes)
	}
	n, err = CopyTo(c, writerFunc(func(p []byte) (int, error) { return 1, theirs }), turn.Bound{})
	if n != 1 || err != theirs || c.held != 0 {
		t.Errorf("to, the Writer fails: %d bytes, %v", n, err)
	}
	func() {
		defer func() {
			if recover() == nil || c.held != 0 {
				t.Errorf("a Writer that panics: %d frames held", c.held)
			}
		}()
		_, _ = CopyTo(c, writerFunc(func([]byte) (int, error) { panic("theirs") }), turn.Bound{})
	}()
}
