//go:build linux

package hca

import (
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

// Context is one open device file, from open to release.
type Context struct {
	Device *Device
	ID     int
	PID    int       // thread group that opened it
	Mem    guest.Mem // its address space
	File   *guest.File
	Async  *guest.Pipe
	UARs   []*UAR // index = page index handed to the program; nil = free
	Ready  bool   // GET_CONTEXT was answered
	DevX   bool   // and asked for DevX
	Ends   bool   // its process ends by itself, not by a signal

	Registers  *Registers // nil for a library that allocates UARs
	CQEVersion uint8      // 0: a CQE says nothing of the user index, but has the SRQN of a receive

	objects  map[uint32]any // by handle
	channels map[string]*CompChannel
	answers  map[string]*guest.Pipe // of asynchronous queries
	dmPages  [dmPages]bool          // of the file's pages for device memory: those in use
	next     uint32
	Dead     bool
}

// Open makes a context for process pid, whose device file is f.
func (d *Device) Open(pid int, f *guest.File) *Context {
	d.Fabric.nextCtx++
	c := &Context{Device: d, ID: d.Fabric.nextCtx, PID: pid, Mem: guest.Mem{PID: pid}, File: f,
		CQEVersion: uint8(d.Config.CQEVersion), objects: map[uint32]any{}, channels: map[string]*CompChannel{},
		answers: map[string]*guest.Pipe{}}
	d.Contexts[c.ID] = c
	return c
}

// add gives an object a handle. 0 is never one.
func (c *Context) add(v any) uint32 {
	for {
		c.next++
		if _, used := c.objects[c.next]; !used && c.next != 0 {
			c.objects[c.next] = v
			return c.next
		}
	}
}

// Handles returns the handles of all objects, in order.
func (c *Context) Handles() []uint32 { return slices.Sorted(maps.Keys(c.objects)) }

// Object returns what a handle stands for, or nil.
func (c *Context) Object(handle uint32) any { return c.objects[handle] }

func find[T any](c *Context, handle uint32) (v T, e unix.Errno) {
	o, ok := c.objects[handle]
	if !ok {
		return v, unix.ENOENT
	}
	if v, ok = o.(T); !ok {
		return v, unix.EINVAL
	}
	return v, 0
}

// The objects of one kind by handle; EINVAL for a handle of another kind, ENOENT for one of nothing.
func (c *Context) PD(h uint32) (*PD, unix.Errno)    { return find[*PD](c, h) }
func (c *Context) Key(h uint32) (*MKey, unix.Errno) { return find[*MKey](c, h) }
func (c *Context) CQ(h uint32) (*CQ, unix.Errno)    { return find[*CQ](c, h) }
func (c *Context) SRQ(h uint32) (*SRQ, unix.Errno)  { return find[*SRQ](c, h) }
func (c *Context) AH(h uint32) (*AH, unix.Errno)    { return find[*AH](c, h) }

// QP also finds a QP that was opened by its number.
func (c *Context) QP(h uint32) (*QP, unix.Errno) {
	switch v := c.objects[h].(type) {
	case *QP:
		return v, 0
	case *OpenedQP:
		return v.qp, 0
	case nil:
		return nil, unix.ENOENT
	}
	return nil, unix.EINVAL
}

type order struct {
	rank int
	name string
}

// rank is the order in which a release destroys objects: those that use others come first.
func rank(v any) order {
	switch v := v.(type) {
	case *DevxObject:
		return order{v.rank(), v.Name}
	case *AH:
		return order{1, "AH"}
	case *Flow:
		return order{0, "flow"}
	case *FlowCounters:
		return order{1, "counters object"}
	case *Matcher:
		return order{1, "flow matcher"}
	case *FrameAction:
		return order{1, "flow action"}
	case *Anchor:
		return order{1, "steering anchor"}
	case *OpenedQP:
		return order{2, "opened QP"}
	case *QP:
		return order{3, "QP"}
	case *IndTable:
		return order{4, "indirection table"}
	case *WQ:
		return order{5, "WQ"}
	case *SRQ:
		return order{6, "SRQ"}
	case *CQ:
		return order{7, "CQ"}
	case *MKey:
		if v.Kind == KeyMW1 || v.Kind == KeyMW2 {
			return order{8, "MW"}
		}
		return order{9, "MR"}
	case *DM:
		return order{10, "DM"}
	case *XRCDRef:
		return order{11, "XRCD"}
	case *PD:
		return order{12, "PD"}
	case *UAR:
		return order{13, "UAR"}
	case *Umem:
		return order{14, "umem"}
	case *Pace:
		return order{14, "pace"}
	case *VAR:
		return order{14, "VAR"}
	case *DMAHandle:
		return order{10, "DMA handle"}
	}
	return order{15, "object"}
}

// Leaked counts what a program left undestroyed: "3 MRs", "1 QP". Doorbell pages are up to the library.
func (c *Context) Leaked() []string {
	count := map[order]int{}
	inner := map[uint32]bool{} // counted with the DevX object that they carry out
	for _, v := range c.objects {
		if o, ok := v.(*DevxObject); ok {
			inner[o.Inner] = true
		}
	}
	for h, v := range c.objects {
		if r := rank(v); r.name != "UAR" && !inner[h] {
			count[r]++
		}
	}
	var kinds []order
	for k := range count {
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, func(a, b order) int { return a.rank - b.rank })
	var all []string
	for _, k := range kinds {
		s := ""
		if count[k] > 1 {
			s = "s"
		}
		all = append(all, fmt.Sprintf("%d %s%s", count[k], k.name, s))
	}
	return all
}

// Release ends a context whose file is gone from the program. It destroys all that is left.
func (c *Context) Release() {
	if c.Dead {
		return
	}
	c.Dead = true
	type entry struct {
		h uint32
		v any
	}
	var all []entry
	for h, v := range c.objects {
		all = append(all, entry{h, v})
	}
	slices.SortFunc(all, func(a, b entry) int {
		if d := rank(a.v).rank - rank(b.v).rank; d != 0 {
			return d
		}
		return int(a.h) - int(b.h)
	})
	for _, e := range all {
		switch v := e.v.(type) {
		case *DevxObject:
			c.DestroyDevx(e.h)
		case *AH:
			c.DestroyAH(e.h)
		case *Flow:
			c.DestroyFlow(e.h)
		case *FlowCounters:
			c.DestroyCounters(e.h)
		case *Matcher:
			c.DestroyMatcher(e.h)
		case *FrameAction:
			c.DestroyFrameAction(e.h)
		case *Anchor:
			c.DestroyAnchor(e.h)
		case *QP, *OpenedQP:
			c.DestroyQP(e.h)
		case *IndTable:
			c.DestroyIndTable(e.h)
		case *WQ:
			c.DestroyWQ(e.h)
		case *SRQ:
			c.DestroySRQ(e.h)
		case *CQ:
			c.DestroyCQ(e.h)
		case *MKey:
			if v.Kind == KeyMW1 || v.Kind == KeyMW2 {
				c.DeallocMW(e.h)
			} else {
				v.refs = 0 // a window of another context cannot hold it: windows are of one PD
				c.DeregMR(e.h)
			}
		case *DM:
			c.FreeDM(e.h)
		case *XRCDRef:
			c.CloseXRCD(e.h)
		case *PD:
			v.refs = 0
			c.DeallocPD(e.h)
		case *UAR:
			c.FreeUAR(e.h)
		case *Umem:
			c.DeregUmem(e.h)
		case *Pace:
			c.FreePace(e.h)
		case *VAR:
			c.FreeVAR(e.h)
		case *DMAHandle:
			c.FreeDMAH(e.h)
		}
	}
	c.DropRegisters()
	for _, ch := range c.channels {
		ch.Pipe.Close()
	}
	for _, p := range c.answers {
		p.Close()
	}
	if c.Async != nil {
		c.Async.Close()
	}
	delete(c.Device.Contexts, c.ID)
}
