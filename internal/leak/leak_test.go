package leak

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
)

// enable switches tracking on for a test.
func enable(t *testing.T) {
	t.Helper()
	old := enabled
	t.Cleanup(func() { enabled = old })
	Enable()
}

func TestDisabled(t *testing.T) {
	old := enabled
	t.Cleanup(func() { enabled = old })
	enabled = false
	r := Track("thing")
	if r != nil || Enabled() {
		t.Fatal("tracked although disabled")
	}
	r.Done()
	r.Collected()
	if n := testing.AllocsPerRun(100, func() { Track("thing").Done() }); n != 0 {
		t.Errorf("costs %v allocations", n)
	}
}

func TestOpen(t *testing.T) {
	enable(t)
	if list := Open(); len(list) != 0 {
		t.Fatalf("open before: %v", list)
	}
	a, b := Track("first of fake0"), maker()
	list := Open()
	if len(list) != 2 {
		t.Fatalf("open: %v", list)
	}
	a.Done()
	list = Open()
	if len(list) != 1 || !strings.HasPrefix(list[0], "second of fake0") || !strings.Contains(list[0], "leak.maker") {
		t.Errorf("open: %v", list)
	}
	b.Done()
	b.Done()
	if list := Open(); len(list) != 0 {
		t.Errorf("open after: %v", list)
	}
}

func maker() *Record { return Track("second of fake0") }

func TestCollected(t *testing.T) {
	enable(t)
	closed, lost := Track("closed thing"), Track("lost thing")
	closed.Done()
	out := stderr(t, func() {
		closed.Collected()
		lost.Collected()
	})
	lost.Done()
	if strings.Contains(out, "closed thing") || !strings.Contains(out, "lost thing was never closed") ||
		!strings.Contains(out, "TestCollected") {
		t.Errorf("reported %q", out)
	}
}

func TestConcurrent(t *testing.T) {
	enable(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				r := Track("thing")
				Open()
				r.Done()
			}
		})
	}
	wg.Wait()
	if list := Open(); len(list) != 0 {
		t.Errorf("%d open", len(list))
	}
}

// stderr returns what f writes to standard error.
func stderr(t *testing.T, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	old := os.Stderr
	os.Stderr = w
	defer func() { os.Stderr = old }()
	var buf bytes.Buffer
	done := make(chan error)
	go func() { _, err := io.Copy(&buf, r); done <- err }()
	f()
	_ = w.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return buf.String()
}
