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
	Held
	entry *paceEntry
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

// paces is the table. An index counts from 1.
type paces [MaxPaces]*paceEntry

var pacePart = newPart[paces]()

// take finds an entry that owner shares with itself, or a free one.
func (t *paces) take(owner *Context, limit []byte, dedicated bool) *paceEntry {
	free := -1
	for i, e := range t {
		switch {
		case e == nil:
			if free < 0 {
				free = i
			}
		case !dedicated && !e.dedicated && e.owner == owner && bytes.Equal(e.limit, limit):
			e.refs++
			return e
		}
	}
	if free < 0 {
		return nil
	}
	t[free] = &paceEntry{owner: owner, index: uint16(free + 1), limit: limit, dedicated: dedicated, refs: 1}
	return t[free]
}

// drop gives an entry back.
func (t *paces) drop(e *paceEntry) {
	if e.refs--; e.refs == 0 {
		t[e.index-1] = nil
	}
}

// AllocPace makes an entry, or another handle of one; a dedicated one is shared with nobody.
func AllocPace(c *Context, limit []byte, dedicated bool) (*Pace, unix.Errno) {
	var full [PaceSize]byte
	copy(full[:], limit)
	if rate := binary.BigEndian.Uint32(full[:]); rate == 0 || rate > MaxPace {
		return nil, unix.EINVAL
	}
	all := pacePart.of(&c.Device.parts)
	e := all.take(c, full[:], dedicated)
	if e == nil {
		return nil, unix.ENOSPC
	}
	p := &Pace{c.held(rankPlain, "pace"), e}
	p.life.end = func() { all.drop(e) }
	return added(c, p)
}

// Index is the number that queues name.
func (p *Pace) Index() uint16 { return p.entry.index }
