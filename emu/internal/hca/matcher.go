//go:build linux

package hca

import (
	"bytes"
	"slices"

	"golang.org/x/sys/unix"
)

// Table is a kind of table of rules, with the kernel's numbers.
type Table uint64

// The tables. Only the first two are there: RoCE is not steered, and there is no e-switch.
const (
	TableRx Table = iota
	TableTx
	TableFDB
	TableRDMARx
	TableRDMATx
	lastTable = TableRDMATx
)

// MatchSize is the size of the fields that a matcher compares, in the device's layout: outer headers, tunnels, inner
// headers, MPLS and registers, TCP and ICMP, 64 bytes each.
const MatchSize = 5 * matchPart

const matchPart = 64

// MatcherInit is what a matcher is made of.
type MatcherInit struct {
	Mask     []byte
	Criteria uint8 // a bit for each part of Mask
	Priority uint16
	Table    Table
}

// Matcher says what rules compare.
type Matcher struct {
	MatcherInit
	Handle uint32
	flows  int
}

// CreateMatcher makes a matcher. That it makes sense is looked at with its rules.
func (c *Context) CreateMatcher(i *MatcherInit) (*Matcher, unix.Errno) {
	if i.Table > lastTable || i.Table == TableFDB {
		return nil, unix.EINVAL
	}
	m := &Matcher{MatcherInit: *i}
	m.Handle = c.add(m)
	return m, 0
}

// DestroyMatcher frees a matcher without rules.
func (c *Context) DestroyMatcher(handle uint32) unix.Errno {
	m, e := find[*Matcher](c, handle)
	switch {
	case e != 0:
		return e
	case m.flows > 0 && !c.Dead:
		return unix.EBUSY
	}
	delete(c.objects, handle)
	return 0
}

// check reports whether the device can compare a value.
func (m *Matcher) check(value, comparable []byte) unix.Errno {
	if m.Criteria >= 1<<(MatchSize/matchPart) {
		return unix.EINVAL
	}
	for i, mask := range m.Mask {
		if mask == 0 {
			continue
		}
		if i >= MatchSize || m.Criteria>>(i/matchPart)&1 == 0 || mask&^comparable[i] != 0 {
			return unix.EINVAL
		}
	}
	for i, v := range value {
		if v != 0 && (i >= len(m.Mask) || v&^m.Mask[i] != 0) {
			return unix.EINVAL
		}
	}
	return 0
}

// MatcherFlowInit is what a rule of a matcher is made of.
type MatcherFlowInit struct {
	Matcher uint32 // handle
	Value   []byte
	QP      uint32 // handle
	HasQP   bool
	TIR     uint32 // handle of an object of DevX; 0: none
	Drop    bool
	Miss    bool
	Tag     uint32
	Tagged  bool
	Changes []uint32 // handles
	Count   uint32   // handle of a flow counter of DevX; 0: none
	Offset  uint32   // in its bulk
}

// FrameCounter is one counter of frames that was made by DevX.
type FrameCounter struct {
	Packets, Bytes uint64
	Flows          int // that count in it
}

// CreateMatcherFlow adds a rule of a matcher. comparable has a bit for each that the device can compare.
func (c *Context) CreateMatcherFlow(i *MatcherFlowInit, comparable []byte) (*Flow, unix.Errno) {
	m, e := find[*Matcher](c, i.Matcher)
	if e != 0 {
		return nil, e
	}
	f := &Flow{Context: c, By: m, Miss: i.Miss}
	f.FlowInit = FlowInit{Priority: m.Priority, Port: 1, Egress: m.Table == TableTx, Tag: i.Tag, Tagged: i.Tagged,
		Drop: i.Drop}
	if i.HasQP {
		if f.To, e = c.QP(i.QP); e != 0 {
			return nil, e
		}
	}
	if i.TIR != 0 {
		if f.tir, e = find[*DevxObject](c, i.TIR); e != 0 {
			return nil, e
		}
		if f.tir.Queue == nil || i.HasQP {
			return nil, unix.EINVAL
		}
		f.To, i.HasQP = f.tir.Queue, true
	}
	switch {
	case i.Drop && i.Miss, i.HasQP && (i.Drop || i.Miss), i.Tag > maxFlowTag:
		return nil, unix.EINVAL
	case m.Table > TableTx:
		return nil, unix.EOPNOTSUPP
	case f.To != nil && f.To.Type != RawPacket && f.tir == nil, f.Egress && i.HasQP,
		!f.Egress && !i.HasQP && !i.Drop && !i.Miss:
		return nil, unix.EINVAL
	case f.Egress && i.Miss:
		return nil, unix.EOPNOTSUPP
	case m.Priority > maxFlowPriority, len(c.Device.flows) >= flowsOfPort:
		return nil, unix.ENOMEM
	}
	for _, h := range i.Changes {
		a, e := find[*FrameAction](c, h)
		if e != 0 {
			return nil, e
		}
		if a.Table != m.Table || slices.ContainsFunc(f.Changes, func(o *FrameAction) bool {
			return (o.Header == nil) == (a.Header == nil)
		}) {
			return nil, unix.EINVAL
		}
		f.Changes = append(f.Changes, a)
	}
	if i.Count != 0 {
		o, e := find[*DevxObject](c, i.Count)
		if e != 0 {
			return nil, e
		}
		if uint64(i.Offset) >= uint64(len(o.Counters)) {
			return nil, unix.EINVAL
		}
		f.Count = &o.Counters[i.Offset]
	}
	if e := m.check(i.Value, comparable); e != 0 {
		return nil, e
	}
	f.Value, f.mask = make([]byte, MatchSize), make([]byte, MatchSize)
	copy(f.Value, i.Value)
	copy(f.mask, m.Mask)
	if e := f.settle(); e != 0 {
		return nil, e
	}
	c.insertFlow(f)
	m.flows++
	if f.tir != nil {
		f.tir.flows++
	}
	if f.Count != nil {
		f.Count.Flows++
	}
	for _, a := range f.Changes {
		a.flows++
	}
	return f, 0
}

// MatchesParam reports whether a rule of a matcher is about a frame with these fields.
func (f *Flow) MatchesParam(fields []byte) bool {
	for i, mask := range f.mask {
		if fields[i]&mask != f.Value[i] {
			return false
		}
	}
	return true
}

// Places of fields in the outer headers.
const (
	paramDstMAC  = 8
	paramDstIPv4 = 60
)

// multicastParam reports whether a rule of a matcher is for a multicast address. C: raw_fs_is_multicast.
func (f *Flow) multicastParam() bool {
	multicastIP := func(b []byte) bool { return b[paramDstIPv4]&0xf0 == 0xe0 }
	return f.By.Criteria&1 != 0 && (f.Value[paramDstMAC]&f.mask[paramDstMAC]&1 != 0 ||
		multicastIP(f.Value) && multicastIP(f.mask))
}

// sameParam reports whether two rules are of matchers, and about the same frames.
func (f *Flow) sameParam(o *Flow) bool {
	return (f.By == nil) == (o.By == nil) && bytes.Equal(f.Value, o.Value) && bytes.Equal(f.mask, o.mask)
}

// FrameAction changes the frames of a rule: their headers, or the tunnel that they are in.
type FrameAction struct {
	Handle   uint32
	Table    Table
	Header   []HeaderChange // nil: it is a Reformat
	Reformat Reformat
	Data     []byte
	flows    int
}

// HeaderChange is one change of a field.
type HeaderChange struct {
	Kind        HeaderChangeKind
	Field, From uint16
	// Bits of each field, and how many.
	Offset, FromOffset, Length uint8
	Value                      uint32
}

// HeaderChangeKind is what a change does, with the device's numbers.
type HeaderChangeKind uint8

// The kinds.
const (
	HeaderSet  HeaderChangeKind = 1
	HeaderAdd  HeaderChangeKind = 2
	HeaderCopy HeaderChangeKind = 3
)

// Reformat is a way into or out of a tunnel, with the kernel's numbers.
type Reformat uint64

// The ways.
const (
	L2FromTunnel Reformat = iota
	L2ToTunnel
	L3FromTunnel
	L3ToTunnel
)

const maxHeaderChanges = 32

// CreateHeaderAction makes an action that changes headers. known tells the fields that the device can change.
func (c *Context) CreateHeaderAction(t Table, list []HeaderChange, known func(uint16) (width int)) (*FrameAction,
	unix.Errno) {
	switch {
	case t > lastTable:
		return nil, unix.EINVAL
	case t > TableTx, len(list) > maxHeaderChanges:
		return nil, unix.EOPNOTSUPP
	case len(list) == 0:
		return nil, unix.EINVAL
	}
	for _, h := range list {
		w := known(h.Field)
		bad := w == 0 || int(h.Offset)+int(h.Length) > w
		switch h.Kind {
		case HeaderSet, HeaderAdd:
		case HeaderCopy:
			bad = bad || int(h.FromOffset)+int(h.Length) > known(h.From)
		default:
			bad = true
		}
		if bad {
			return nil, unix.EINVAL
		}
	}
	a := &FrameAction{Table: t, Header: list}
	a.Handle = c.add(a)
	return a, 0
}

// CreateReformatAction makes an action about tunnels.
func (c *Context) CreateReformatAction(t Table, way Reformat, data []byte) (*FrameAction, unix.Errno) {
	switch {
	case t > lastTable, way > L3ToTunnel:
		return nil, unix.EINVAL
	case way == L2FromTunnel || way == L3FromTunnel:
		if t != TableRx {
			return nil, unix.EOPNOTSUPP
		}
	case t != TableTx:
		return nil, unix.EOPNOTSUPP
	}
	switch n := len(data); {
	case way == L2FromTunnel: // the kernel does not look
	case way == L3FromTunnel && n != 14 && n != 18, n < 14, n > 128:
		return nil, unix.EINVAL
	}
	a := &FrameAction{Table: t, Reformat: way, Data: data}
	a.Handle = c.add(a)
	return a, 0
}

// DestroyFrameAction frees an action that no rule has.
func (c *Context) DestroyFrameAction(handle uint32) unix.Errno {
	a, e := find[*FrameAction](c, handle)
	switch {
	case e != 0:
		return e
	case a.flows > 0 && !c.Dead:
		return unix.EBUSY
	}
	delete(c.objects, handle)
	return 0
}

// Anchor stands for a priority of the kernel's tables.
type Anchor struct{ Handle, ID uint32 }

// CreateAnchor makes an anchor. Those of one priority have one number.
func (c *Context) CreateAnchor(t Table, priority uint16) (*Anchor, unix.Errno) {
	switch {
	case t > lastTable:
		return nil, unix.EINVAL
	case t > TableTx:
		return nil, unix.EOPNOTSUPP
	case priority > maxFlowPriority:
		return nil, unix.ENOMEM
	}
	const firstTable = 0x100
	a := &Anchor{ID: firstTable + uint32(t)<<8 + uint32(priority)}
	a.Handle = c.add(a)
	return a, 0
}

// DestroyAnchor frees an anchor.
func (c *Context) DestroyAnchor(handle uint32) unix.Errno {
	if _, e := find[*Anchor](c, handle); e != 0 {
		return e
	}
	delete(c.objects, handle)
	return 0
}
