//go:build linux

package verbs

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

// readFile opens a pipe, gives the program its reading end, and attach the other one. The descriptor cannot be taken
// back, so nothing that can fail may be left for later.
func (c *call) readFile(open func(bool) (*guest.Pipe, *os.File, error), attach func(*call, *guest.Pipe)) (int,
	unix.Errno) {
	p, r, err := open(false)
	if err != nil {
		return 0, unix.EMFILE
	}
	defer r.Close()
	fd, err := c.who.install(int(r.Fd()))
	if err != nil {
		p.Close()
		return 0, unix.EMFILE
	}
	c.s.f.Lock()
	attach(c, p)
	c.s.f.Unlock()
	return fd, 0
}

// asyncFile makes p the file that events go to, if it is the first. The kernel lets others be named at creation of an
// object, which nobody does.
func (c *call) asyncFile(p *guest.Pipe) {
	if c.ctx.Async == nil {
		c.ctx.Async = p
	} else {
		c.s.spare[c.ctx] = append(c.s.spare[c.ctx], p)
	}
}

func asyncEventAlloc(c *call) unix.Errno {
	if e := first(c.do(ok), c.b.SetID(0, 0)); e != 0 {
		return e
	}
	fd, e := c.readFile(guest.NewPipe, (*call).asyncFile)
	return first(e, c.b.SetID(0, uint64(fd)))
}

func createCompChannel(c *call) unix.Errno {
	if e := first(c.do(ok), reply(c, uint32(0))); e != 0 {
		return e
	}
	fd, e := c.readFile(guest.NewPipe, func(c *call, p *guest.Pipe) { c.ctx.Keep(c.ctx.Channels, p) })
	return first(e, reply(c, uint32(fd)))
}
