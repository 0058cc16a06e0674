//go:build linux

package hca

import (
	"fmt"
	"maps"
	"slices"
)

// inner returns the handles of objects that carry out an object of DevX.
func inner(c *Context) map[uint32]bool {
	in := map[uint32]bool{}
	for _, o := range c.objects {
		if x, ok := o.(*DevxObject); ok {
			in[x.Inner] = true
		}
	}
	return in
}

// Tracked calls do for each object of the device that a kernel keeps account of, in order: those that verbs made, and
// not those that carry out an object of DevX.
func (d *Device) Tracked(do func(c *Context, o any)) {
	for _, id := range slices.Sorted(maps.Keys(d.Contexts)) {
		c := d.Contexts[id]
		in := inner(c)
		for _, h := range c.Handles() {
			if !in[h] {
				do(c, c.objects[h])
			}
		}
	}
}

// Leaked counts what a program left undestroyed: "3 MRs", "1 QP". Doorbell pages are up to the library, and what
// carries out an object of DevX is counted with that.
func Leaked(c *Context) []string {
	count, in := map[order]int{}, inner(c)
	for h, o := range c.objects {
		if _, page := o.(*UAR); !page && !in[h] {
			count[o.Common().life.order]++
		}
	}
	var all []string
	for _, k := range slices.SortedFunc(maps.Keys(count), func(a, b order) int { return a.rank - b.rank }) {
		s := ""
		if count[k] > 1 {
			s = "s"
		}
		all = append(all, fmt.Sprintf("%d %s%s", count[k], k.name, s))
	}
	return all
}
