//go:build linux

package hca

import "golang.org/x/sys/unix"

// PD is a protection domain. C: struct ib_pd.
type PD struct {
	Held
	Num uint32 // PDN
}

type pds struct{ made, live int }

var pdPart = newPart[pds]()

const firstPD = 2

// AllocPD makes a protection domain.
func AllocPD(c *Context) (*PD, unix.Errno) {
	all := pdPart.of(&c.Device.parts)
	if all.live >= c.Device.Config.Limits.MaxPD {
		return nil, unix.ENOMEM
	}
	pd := &PD{c.held(rankPD, "PD"), uint32(firstPD+all.made) & 0xffffff}
	all.made++
	all.live++
	pd.life.end = func() { all.live-- }
	return added(c, pd)
}

// pdNumbered returns the context's protection domain with a number, or nil.
func pdNumbered(c *Context, num uint32) *PD {
	return Lookup(c, func(pd *PD) bool { return pd.Num == num })
}
