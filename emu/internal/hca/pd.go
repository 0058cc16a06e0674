//go:build linux

package hca

import "golang.org/x/sys/unix"

// PD is a protection domain. C: struct ib_pd.
type PD struct {
	Held
	Num  uint32 // PDN
	refs int
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
	pd := &PD{Num: uint32(firstPD+all.made) & 0xffffff}
	all.made++
	all.live++
	c.add(pd)
	return pd, 0
}

// Destroy destroys a protection domain that nothing uses.
func (pd *PD) Destroy() unix.Errno {
	if e := pd.busy(pd.refs); e != 0 {
		return e
	}
	pdPart.of(&pd.Context.Device.parts).live--
	pd.forget()
	return 0
}

func (*PD) order() order { return order{rankPD, "PD"} }

// Uses returns how many objects are of the protection domain.
func (pd *PD) Uses() int { return pd.refs }

// pdNumbered returns the context's protection domain with a number, or nil.
func pdNumbered(c *Context, num uint32) (found *PD) {
	each(c, func(pd *PD) bool {
		if pd.Num == num {
			found = pd
		}
		return found == nil
	})
	return found
}
