package command

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/mesh"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// meshProgress shows the progress of a mesh: on a terminal all the time, otherwise now and then.
type meshProgress struct {
	mu          sync.Mutex
	w           io.Writer
	every       bool // each pair is shown
	pass        string
	shown       bool // a line is there that the next one replaces
	began, told time.Time
	done, of    int
	failed      int
	begun       bool // hosts are no longer awaited
	lines       int  // of the launcher
}

// mostLauncher is how many lines of a launcher are shown while hosts are awaited.
const mostLauncher = 100

// mostFailures is how many pairs that fail are shown at once.
const mostFailures = 50

const reachPass = "reach: "

// seldom is the time between lines where nobody may be looking.
const seldom = 30 * time.Second

func (p *meshProgress) hooks(c *mesh.Config) {
	c.Awaited = func(said string) { p.await(said, false) }
	p.told = time.Now().Add(5*time.Second - seldom)
	c.Begun = func(pass string, _, pairs int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.begun = true
		if p.pass = pass; pass != "" {
			p.pass += ": "
		}
		p.began, p.told, p.of, p.done = time.Now(), time.Now(), pairs, 0
	}
	c.Start = p.tell
	c.Done = func(list []mesh.PairResult) {
		p.done++
		for i := range list {
			if r := &list[i]; r.Error != "" && !r.Skipped {
				p.fail(r)
			}
		}
	}
	c.Dark = func(d mesh.DarkNIC) { p.say(errors.New(d.String())) }
	c.Split = func(s mesh.Split) { p.say(errors.New(s.String())) }
	c.Lost = func(h mesh.LostHost) { p.say(errors.New(h.String())) }
	c.Stranger = func(from net.Addr, why error) { p.say(fmt.Errorf("%v is left out: %w", from, why)) }
}

// fail shows a pair that failed, unless many have. Those of the first pass are tried again, or their NIC is dark.
func (p *meshProgress) fail(r *mesh.PairResult) {
	if p.pass == reachPass {
		return
	}
	if p.failed++; p.failed <= mostFailures {
		from, to := r.Ends()
		p.say(fmt.Errorf("%s > %s: %s", from, to, r.Error))
	} else if p.failed == mostFailures+1 {
		p.say(errors.New("more pairs fail; all are in the JSON object"))
	}
}

// await shows what the mesh waits for. News are shown at once.
func (p *meshProgress) await(said string, news bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.every {
		p.replace(said)
	} else if news || time.Since(p.told) >= seldom {
		p.told = time.Now()
		fmt.Fprintf(p.w, "rdmaperf: %s\n", printable.Message(said))
	}
}

// launcher shows a line of the launcher while hosts are awaited, and reports whether it did.
func (p *meshProgress) launcher(line string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lines++; p.begun || p.lines > mostLauncher {
		return false
	}
	p.leave()
	say(p.w, fmt.Errorf("launcher: %s", line))
	return true
}

// tell shows the pair that begins, and how long the rest takes.
func (p *meshProgress) tell(from, to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.every && time.Since(p.told) < seldom {
		return
	}
	p.told = time.Now()
	line := fmt.Sprintf("%s%d of %d pairs, %s > %s", p.pass, p.done, p.of, printable.Name(from), printable.Name(to))
	if spent := time.Since(p.began).Seconds(); p.done > 0 {
		line += fmt.Sprintf(", about %.0f s left", spent/float64(p.done)*float64(p.of-p.done))
	}
	if !p.every {
		fmt.Fprintf(p.w, "rdmaperf: %s\n", line)
		return
	}
	p.replace(line)
}

// replace shows a line that the next one replaces.
func (p *meshProgress) replace(line string) {
	fmt.Fprintf(p.w, "\r%s\x1b[K", printable.Message(line))
	p.shown = true
}

func (p *meshProgress) say(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave()
	say(p.w, err)
}

// end is the end of the mesh.
func (p *meshProgress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = true
	p.leave()
}

// leave leaves the line of the progress.
func (p *meshProgress) leave() {
	if p.shown {
		fmt.Fprintln(p.w)
	}
	p.shown = false
}
