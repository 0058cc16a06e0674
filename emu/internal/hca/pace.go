//go:build linux

package hca

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Pace is an entry of the adapter's table of rates, which queues name by its index. It has no effect here. C: struct
// mlx5_rl_entry, set_pp_rate_limit_context.
type Pace struct {
	Context *Context
	Handle  uint32
	entry   *paceEntry
}

// paceEntry is shared by the handles of one context that ask for the same.
type paceEntry struct {
	owner     *Context
	index     uint16
	limit     []byte
	dedicated bool
	refs      int
}

const (
	// PaceSize is the most bytes of what is asked for. The first word is the rate in kbit/s.
	PaceSize = 48
	MaxPaces = 127
	MaxPace  = 100_000_000 // kbit/s
)

// AllocPace makes an entry, or another handle of one; a dedicated one is shared with nobody.
func (c *Context) AllocPace(limit []byte, dedicated bool) (*Pace, unix.Errno) {
	var full [PaceSize]byte
	copy(full[:], limit)
	if rate := binary.BigEndian.Uint32(full[:]); rate == 0 || rate > MaxPace {
		return nil, unix.EINVAL
	}
	free := -1
	d := c.Device
	for i, e := range d.paces {
		switch {
		case e == nil:
			if free < 0 {
				free = i
			}
		case !dedicated && !e.dedicated && e.owner == c && bytes.Equal(e.limit, full[:]):
			e.refs++
			return c.addPace(e), 0
		}
	}
	if free < 0 {
		return nil, unix.ENOSPC
	}
	d.paces[free] = &paceEntry{owner: c, index: uint16(free + 1), limit: full[:], dedicated: dedicated, refs: 1}
	return c.addPace(d.paces[free]), 0
}

func (c *Context) addPace(e *paceEntry) *Pace {
	p := &Pace{Context: c, entry: e}
	p.Handle = c.add(p)
	return p
}

// Index is the number that queues name.
func (p *Pace) Index() uint16 { return p.entry.index }

// FreePace gives a handle back.
func (c *Context) FreePace(handle uint32) unix.Errno {
	p, e := find[*Pace](c, handle)
	if e != 0 {
		return e
	}
	if p.entry.refs--; p.entry.refs == 0 {
		c.Device.paces[p.entry.index-1] = nil
	}
	delete(c.objects, handle)
	return 0
}
