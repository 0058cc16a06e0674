//go:build linux

package hca

import (
	"slices"

	"golang.org/x/sys/unix"
)

// MatcherInit is what a matcher is made of.
type MatcherInit struct {
	Mask     []byte
	Criteria uint8 // a bit for each part of Mask
	Priority uint16
	Table    Table
}

// Matcher says what rules compare.
type Matcher struct {
	Held
	MatcherInit
}

// CreateMatcher makes a matcher. That it makes sense is looked at with its rules.
func CreateMatcher(c *Context, i *MatcherInit) (*Matcher, unix.Errno) {
	if i.Table > lastTable || i.Table == TableFDB {
		return nil, unix.EINVAL
	}
	return added(c, &Matcher{c.held(rankOfRule, "flow matcher"), *i})
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

// CreateMatcherFlow adds a rule of a matcher. comparable has a bit for each that the device can compare.
func CreateMatcherFlow(c *Context, i *MatcherFlowInit, comparable []byte) (*Flow, unix.Errno) {
	m, e := Find[*Matcher](c, i.Matcher)
	if e != 0 {
		return nil, e
	}
	f := &Flow{Held: c.held(rankRule, "flow"), Miss: i.Miss, FlowInit: FlowInit{Priority: m.Priority, Port: 1,
		Egress: m.Table == TableTx, Tag: i.Tag, Tagged: i.Tagged, Drop: i.Drop}}
	tir, e := f.lead(c, i)
	if e != 0 {
		return nil, e
	}
	if e := f.admit(c.Device, m, tir); e != 0 {
		return nil, e
	}
	if e := f.change(c, m.Table, i.Changes); e != 0 {
		return nil, e
	}
	uses := []Object{m}
	if i.Count != 0 {
		o, e := Find[*DevxObject](c, i.Count)
		if e != 0 {
			return nil, e
		}
		if uint64(i.Offset) >= uint64(len(o.Counters)) {
			return nil, unix.EINVAL
		}
		f.Count = &o.Counters[i.Offset]
		uses = append(uses, o)
	}
	if e := m.check(i.Value, comparable); e != 0 {
		return nil, e
	}
	f.Param = newParam(m.Criteria, i.Value, m.Mask)
	if e := c.Device.flows().settle(f); e != 0 {
		return nil, e
	}
	if tir != nil {
		uses = append(uses, tir)
	}
	for _, a := range f.Changes {
		uses = append(uses, a)
	}
	f.Use(uses...)
	f.insert(c)
	return f, 0
}

// lead finds where a rule leads to, and the TIR whose queue that is, if it is one's.
func (f *Flow) lead(c *Context, i *MatcherFlowInit) (tir *DevxObject, e unix.Errno) {
	if i.HasQP {
		if f.To, e = FindQP(c, i.QP); e != 0 {
			return nil, e
		}
	}
	if i.TIR == 0 {
		return nil, 0
	}
	if tir, e = Find[*DevxObject](c, i.TIR); e != 0 {
		return nil, e
	}
	if tir.Queue == nil || i.HasQP {
		return nil, unix.EINVAL
	}
	f.To = tir.Queue
	return tir, 0
}

// admit checks what a rule of a matcher does with frames.
func (f *Flow) admit(d *Device, m *Matcher, tir *DevxObject) unix.Errno {
	switch leads := f.To != nil; {
	case f.Drop && f.Miss, leads && (f.Drop || f.Miss), f.Tag > maxFlowTag:
		return unix.EINVAL
	case m.Table > TableTx:
		return unix.EOPNOTSUPP
	case leads && f.To.Type != RawPacket && tir == nil, f.Egress && leads, !f.Egress && !leads && !f.Drop && !f.Miss:
		return unix.EINVAL
	case f.Egress && f.Miss:
		return unix.EOPNOTSUPP
	case m.Priority > maxFlowPriority, len(d.flows().list) >= flowsOfPort:
		return unix.ENOMEM
	}
	return 0
}

// change adds the actions of a rule: one about headers at most, and one about tunnels.
func (f *Flow) change(c *Context, t Table, actions []uint32) unix.Errno {
	for _, h := range actions {
		a, e := Find[*FrameAction](c, h)
		if e != 0 {
			return e
		}
		if a.Table != t || slices.ContainsFunc(f.Changes, func(o *FrameAction) bool {
			return (o.Header == nil) == (a.Header == nil)
		}) {
			return unix.EINVAL
		}
		f.Changes = append(f.Changes, a)
	}
	return 0
}
