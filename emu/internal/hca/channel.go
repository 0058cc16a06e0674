//go:build linux

package hca

import "github.com/pureverbs/pureverbs/emu/internal/guest"

// CompChannel is the event file that completions are announced on.
type CompChannel struct{ Pipe *guest.Pipe }

// CreateChannel makes a completion channel of a pipe. It is gone when the program has closed its end.
func (c *Context) CreateChannel(p *guest.Pipe) *CompChannel {
	ch := &CompChannel{Pipe: p}
	keep(c, c.channels, p, ch)
	return ch
}

// Channel returns the completion channel of a name, as the program's descriptor has it, or nil.
func (c *Context) Channel(name string) *CompChannel { return c.channels[name] }

// AddAnswers makes a pipe known that the answers of asynchronous queries go to. It is gone when the program has closed
// its end.
func (c *Context) AddAnswers(p *guest.Pipe) { keep(c, c.answers, p, p) }

// Answers returns the pipe of a name, as the program's descriptor has it, or nil.
func (c *Context) Answers(name string) *guest.Pipe { return c.answers[name] }

// keep has v by the name of its pipe until the program closes it.
func keep[T comparable](c *Context, all map[string]T, p *guest.Pipe, v T) {
	all[p.Name()] = v
	p.OnClose(func() {
		c.Device.Fabric.Lock()
		defer c.Device.Fabric.Unlock()
		if all[p.Name()] == v {
			delete(all, p.Name())
		}
	})
}

// hangUp closes what the program reads completion events and answers from.
func (c *Context) hangUp() {
	for _, ch := range c.channels {
		ch.Pipe.Close()
	}
	for _, p := range c.answers {
		p.Close()
	}
}
