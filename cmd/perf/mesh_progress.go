package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/mesh"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// meshProgress shows the progress of a mesh: on a terminal all the time, otherwise now and then.
type meshProgress struct {
	w           io.Writer
	every       bool // each pair is shown
	shown       bool // a line is there that the next one replaces
	began, told time.Time
	done, of    int
	failed      int
}

// mostFailures is how many pairs that fail are shown at once.
const mostFailures = 50

// seldom is the time between lines where nobody may be looking.
const seldom = 30 * time.Second

func (p *meshProgress) hooks(c *mesh.Config) {
	c.Begun = func(_, pairs int) { p.began, p.told, p.of, p.done = time.Now(), time.Now(), pairs, 0 }
	c.Start = p.tell
	c.Done = func(r mesh.PairResult) {
		p.done++
		if r.Error == "" || r.Skipped {
			return
		}
		if p.failed++; p.failed <= mostFailures {
			p.say(fmt.Errorf("%s > %s: %s", r.From, r.To, r.Error))
		} else if p.failed == mostFailures+1 {
			p.say(errors.New("more pairs fail; all are in the JSON object"))
		}
	}
	c.Lost = func(h mesh.LostHost) { p.say(errors.New(h.String())) }
	c.Stranger = func(from net.Addr, why error) { p.say(fmt.Errorf("%v is left out: %w", from, why)) }
}

// tell shows the pair that begins, and how long the rest takes.
func (p *meshProgress) tell(from, to string) {
	if !p.every && time.Since(p.told) < seldom {
		return
	}
	p.told = time.Now()
	line := fmt.Sprintf("%d of %d pairs, %s > %s", p.done, p.of, printable.Name(from), printable.Name(to))
	if spent := time.Since(p.began).Seconds(); p.done > 0 {
		line += fmt.Sprintf(", about %.0f s left", spent/float64(p.done)*float64(p.of-p.done))
	}
	if !p.every {
		fmt.Fprintf(p.w, "perf: %s\n", line)
		return
	}
	fmt.Fprintf(p.w, "\r%s\x1b[K", line)
	p.shown = true
}

func (p *meshProgress) say(err error) {
	p.end()
	say(p.w, err)
}

// end leaves the line of the progress.
func (p *meshProgress) end() {
	if p.shown {
		fmt.Fprintln(p.w)
	}
	p.shown = false
}
