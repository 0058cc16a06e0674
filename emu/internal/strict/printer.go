package strict

import (
	"io"
	"time"
)

// printer writes on its own goroutine, so that no holder of the fabric's lock waits for a full pipe.
type printer struct {
	lines chan string
	done  chan struct{}
}

func (p *printer) start(w io.Writer) {
	lines, done := make(chan string, maxTold*maxEntries+1), make(chan struct{})
	p.lines, p.done = lines, done
	go func() {
		defer close(done)
		for s := range lines {
			if _, err := io.WriteString(w, s); err != nil {
				continue // the report still counts
			}
		}
	}()
}

func (p *printer) print(s string) {
	select {
	case p.lines <- s:
	default: // finish was called before
	}
}

// finish waits until all is printed, but not for ever.
func (p *printer) finish() {
	if p.lines == nil {
		return
	}
	close(p.lines)
	p.lines = nil // a nil channel takes nothing: print drops
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
	}
}
