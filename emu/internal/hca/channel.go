//go:build linux

package hca

import "github.com/pureverbs/pureverbs/emu/internal/guest"

// Pipes are event files of one kind, by their names, as the program's descriptors have them.
type Pipes map[string]*guest.Pipe

// Keep has p among pipes of the context until the program has closed its end.
func (c *Context) Keep(all Pipes, p *guest.Pipe) {
	all[p.Name()] = p
	p.OnClose(func() {
		c.Device.Fabric.Lock()
		defer c.Device.Fabric.Unlock()
		if all[p.Name()] == p {
			delete(all, p.Name())
		}
	})
}

// hangUp closes what the program reads completion events and answers from.
func (c *Context) hangUp() {
	for _, all := range []Pipes{c.Channels, c.Answers} {
		for _, p := range all {
			p.Close()
		}
	}
}
