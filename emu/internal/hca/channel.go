//go:build linux

package hca

import "github.com/pureverbs/pureverbs/emu/internal/guest"

// CompChannel is the event file that completions are announced on.
type CompChannel struct {
	Context *Context
	Pipe    *guest.Pipe
	refs    int
}

// CreateChannel makes a completion channel of a pipe. It is gone when the program has closed its end.
func (c *Context) CreateChannel(p *guest.Pipe) *CompChannel {
	ch := &CompChannel{Context: c, Pipe: p}
	c.channels[p.Name()] = ch
	p.OnClose(func() {
		c.Device.Fabric.Lock()
		defer c.Device.Fabric.Unlock()
		if c.channels[p.Name()] == ch {
			delete(c.channels, p.Name())
		}
	})
	return ch
}

// Channel returns the completion channel of a name, as the program's descriptor has it, or nil.
func (c *Context) Channel(name string) *CompChannel { return c.channels[name] }

// AddAnswers makes a pipe known that the answers of asynchronous queries go to. It is gone when the program has closed
// its end.
func (c *Context) AddAnswers(p *guest.Pipe) {
	c.answers[p.Name()] = p
	p.OnClose(func() {
		c.Device.Fabric.Lock()
		defer c.Device.Fabric.Unlock()
		if c.answers[p.Name()] == p {
			delete(c.answers, p.Name())
		}
	})
}

// Answers returns the pipe of a name, as the program's descriptor has it, or nil.
func (c *Context) Answers(name string) *guest.Pipe { return c.answers[name] }
