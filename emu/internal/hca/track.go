//go:build linux

package hca

import (
	"maps"
	"slices"
)

// Tracked calls do for each object of the device that a kernel keeps account of, in order: those that verbs made, and
// not those that carry out an object of DevX.
func (d *Device) Tracked(do func(c *Context, o any)) {
	for _, id := range slices.Sorted(maps.Keys(d.Contexts)) {
		c := d.Contexts[id]
		inner := map[uint32]bool{}
		for _, o := range c.objects {
			if o, ok := o.(*DevxObject); ok {
				inner[o.Inner] = true
			}
		}
		for _, h := range c.Handles() {
			if !inner[h] {
				do(c, c.objects[h])
			}
		}
	}
}

// Uses returns how many objects are of the protection domain.
func (p *PD) Uses() int { return p.refs }

// Uses returns how many queues complete here.
func (q *CQ) Uses() int { return q.refs }
