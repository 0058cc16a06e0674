//go:build linux

package trace

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Options says how the lines look.
type Options struct {
	JSON bool // JSON lines
	Raw  bool // with the bytes of WQEs, CQEs and doorbells, in hexadecimal
	Off  bool // not started yet: [Trace.Set]
}

const (
	bufferSize = 4 << 20
	patience   = 2 * time.Second // how long a line waits for a reader that reads nothing
	farewell   = 5 * time.Second
)

// Trace writes lines. A goroutine of its own does the writing; callers wait only if bufferSize is full, and then not
// for long: what finds no room is dropped and counted. It is safe for concurrent use.
type Trace struct {
	raw      bool
	on       atomic.Bool
	w        io.Writer
	file     *os.File // what w is, if we opened it
	start    time.Time
	done     chan struct{}
	farewell time.Duration // how long Close waits for the reader

	mu      sync.Mutex
	cond    *sync.Cond
	buf     []byte // what is to be written
	line    line
	dropped uint64
	stalled bool // nothing was written for as long as patience: drop at once
	closed  bool
	err     error
}

// New returns a trace that writes to w.
func New(w io.Writer, o Options) *Trace {
	t := &Trace{raw: o.Raw, w: w, start: time.Now(), done: make(chan struct{}), farewell: farewell}
	t.cond = sync.NewCond(&t.mu)
	t.line.json = o.JSON
	t.on.Store(!o.Off)
	go t.write()
	return t
}

// Open returns a trace that goes to a file, or to stderr if that is "-".
func Open(file string, stderr io.Writer, o Options) (*Trace, error) {
	if file == "-" {
		return New(stderr, o), nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	t := New(f, o)
	t.file = f
	return t, nil
}

// Set starts or stops it.
func (t *Trace) Set(on bool) { t.on.Store(on) }

// On reports whether it is started. A nil Trace is not.
func (t *Trace) On() bool { return t != nil && t.on.Load() }

// Close writes what is left, and how many lines were lost, if any.
func (t *Trace) Close() error {
	t.mu.Lock()
	t.closed = true
	t.cond.Broadcast()
	t.mu.Unlock()
	select {
	case <-t.done:
		_ = t.file.Close() // of nil, it does nothing
	case <-time.After(t.farewell):
		return fmt.Errorf("trace: its reader took nothing for %v; the end is lost", t.farewell)
	}
	switch {
	case t.err != nil:
		return fmt.Errorf("trace: %w; %d lines lost", t.err, t.dropped)
	case t.dropped > 0:
		return fmt.Errorf("trace: %d lines lost: its reader was too slow", t.dropped)
	}
	return nil
}

func (t *Trace) write() {
	defer close(t.done)
	var out []byte
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		for len(t.buf) == 0 && !t.closed {
			t.cond.Wait()
		}
		if len(t.buf) == 0 {
			return
		}
		out, t.buf = t.buf, out[:0]
		t.mu.Unlock()
		_, err := t.w.Write(out)
		t.mu.Lock()
		if t.stalled = false; err != nil && t.err == nil {
			t.err = err
		}
		t.cond.Broadcast()
	}
}

// begin starts a line, lock taken, if the trace is started and there is room; end must follow then.
func (t *Trace) begin(pid int, device, kind string) *line {
	if !t.On() {
		return nil
	}
	t.mu.Lock()
	if len(t.buf) > bufferSize && !t.stalled && !t.closed {
		t.wait()
	}
	if t.closed || t.err != nil || len(t.buf) > bufferSize {
		t.dropped++
		t.mu.Unlock()
		return nil
	}
	l := &t.line
	l.b, l.in = t.buf, 0
	l.head(time.Since(t.start), pid, device, kind)
	return l
}

func (t *Trace) wait() {
	late := false
	timer := time.AfterFunc(patience, func() {
		t.mu.Lock()
		late = true
		t.cond.Broadcast()
		t.mu.Unlock()
	})
	defer timer.Stop()
	for len(t.buf) > bufferSize && !late && !t.closed {
		t.cond.Wait()
	}
	t.stalled = len(t.buf) > bufferSize
}

func (t *Trace) end() {
	t.line.finish()
	t.buf = t.line.b
	t.mu.Unlock()
	t.cond.Broadcast()
}
