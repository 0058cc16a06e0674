//go:build linux

package hca

import (
	"bytes"
	"slices"

	"golang.org/x/sys/unix"
)

// FlowType is the kind of a steering rule, with the kernel's numbers.
type FlowType uint32

// Kinds of rules.
const (
	FlowNormal     FlowType = iota // what its matches say
	FlowAllDefault                 // what no normal rule takes
	FlowMCDefault                  // the multicast of it
	FlowSniffer                    // a copy of all that a port sends and receives
)

// FlowMatch compares headers of one kind with a value. Value and Mask have the fields of the kernel's filter.
type FlowMatch struct {
	Spec        uint32 // IB_FLOW_SPEC_*, with its bit for inner headers
	Value, Mask []byte
}

// FlowInit is what a rule is made of.
type FlowInit struct {
	QP       uint32 // handle
	Type     FlowType
	Priority uint16
	Port     uint8
	DontTrap bool
	Egress   bool
	Matches  []FlowMatch
	Tag      uint32
	Tagged   bool
	Drop     bool
	Counters uint32         // handle; 0: none
	Points   []CounterPoint // of the counters, if no rule has told them yet
}

// Flow is a steering rule.
type Flow struct {
	Held
	FlowInit
	To       *QP
	Changes  []*FrameAction // of the frame, before it is delivered or sent
	Count    *FrameCounter  // of a counters object, or by DevX; or nil
	Miss     bool           // the frame goes to the defaults
	Param    *Param         // what a rule of a matcher compares, or nil
	priority int            // of all rules of the device; the least comes first
}

// flows are the rules of a device in the order in which they are looked at.
type flows struct{ list []*Flow }

var flowPart = newPart[flows]()

func (d *Device) flows() *flows { return flowPart.of(&d.parts) }

// Specs of rules. C: enum ib_flow_spec_type.
const (
	SpecEth    = 0x20
	SpecIPv4   = 0x30
	SpecIPv6   = 0x31
	SpecESP    = 0x34
	SpecTCP    = 0x40
	SpecUDP    = 0x41
	SpecVXLAN  = 0x50
	SpecGRE    = 0x51
	SpecMPLS   = 0x60
	SpecInner  = 0x100
	SpecTag    = 0x1000
	SpecDrop   = 0x1001
	SpecHandle = 0x1002
	SpecCount  = 0x1003
)

const (
	maxFlowTag  = 1<<24 - 1
	flowsOfPort = 1 << 16 // a bound of this emulator's, on memory
)

// CreateFlow adds a rule.
func CreateFlow(c *Context, i *FlowInit) (*Flow, unix.Errno) {
	qp, e := FindQP(c, i.QP)
	if e != 0 {
		return nil, e
	}
	f := &Flow{Held: c.held(rankRule, "flow"), FlowInit: *i, To: qp}
	defaults := i.Type == FlowAllDefault || i.Type == FlowMCDefault
	switch {
	case qp.Type != RawPacket, // of UD only those over another QP's number, which there are none of
		i.Type > FlowSniffer, c.Device.port(i.Port) == nil:
		return nil, unix.EINVAL
	case i.Priority > maxFlowPriority:
		return nil, unix.ENOMEM
	case defaults && i.Tagged, i.Type != FlowNormal && (i.DontTrap || i.Egress), i.Tag > maxFlowTag:
		return nil, unix.EINVAL
	case len(c.Device.flows().list) >= flowsOfPort:
		return nil, unix.ENOMEM
	}
	for k := range f.Matches {
		for n, mask := range f.Matches[k].Mask {
			f.Matches[k].Value[n] &= mask
		}
	}
	if e := c.Device.flows().settle(f); e != 0 {
		return nil, e
	}
	if i.Counters != 0 {
		o, e := Find[*FlowCounters](c, i.Counters)
		if e != 0 {
			return nil, e
		}
		if e = o.bind(i.Points); e != 0 {
			return nil, e
		}
		f.Count = &o.FrameCounter
		f.Use(o)
	}
	f.insert(c)
	return f, 0
}

// settle gives a rule its place among the others. A rule with the matches of another adds a receiver; what else is done
// with the frames must agree.
func (t *flows) settle(f *Flow) unix.Errno {
	f.priority = f.place()
	for _, o := range t.list {
		if o.Same(f) && (o.Tag != f.Tag || o.Tagged != f.Tagged || o.Drop != f.Drop || o.DontTrap != f.DontTrap ||
			o.Miss != f.Miss || !slices.Equal(o.Changes, f.Changes)) {
			return unix.EEXIST
		}
	}
	return 0
}

// insert puts a rule where its priority has it.
func (t *flows) insert(f *Flow) {
	at, _ := slices.BinarySearchFunc(t.list, f.priority+1, func(o *Flow, p int) int { return o.priority - p })
	t.list = slices.Insert(t.list, at, f)
}

func (t *flows) remove(f *Flow) {
	t.list = slices.DeleteFunc(t.list, func(o *Flow) bool { return o == f })
}

// insert adds a rule that is settled.
func (f *Flow) insert(c *Context) {
	all := c.Device.flows()
	all.insert(f)
	if f.To != nil {
		f.Use(f.To)
	}
	f.life.end = func() { all.remove(f) }
	c.add(f)
}

func (f *Flow) place() int {
	switch {
	case f.Type == FlowSniffer:
		return -1
	case f.Type != FlowNormal:
		return defaultsPriority
	case !f.DontTrap && f.multicastOnly():
		return mcastPriority
	case f.DontTrap:
		return 2 * int(f.Priority)
	}
	return 2*int(f.Priority) + 1
}

// multicastOnly reports whether a rule is for a multicast address. C: flow_is_multicast_only.
func (f *Flow) multicastOnly() bool {
	if f.Egress {
		return false
	}
	if f.Param != nil {
		return f.Param.multicast()
	}
	if len(f.Matches) == 0 {
		return false
	}
	m := &f.Matches[0]
	return m.Spec == SpecEth && m.Value[0]&1 != 0 && m.Mask[0]&1 != 0
}

// Same reports whether two rules are about the same frames, in one table.
func (f *Flow) Same(o *Flow) bool {
	return f.Type == o.Type && f.Port == o.Port && f.Egress == o.Egress && f.priority == o.priority &&
		f.Param.same(o.Param) &&
		slices.EqualFunc(f.Matches, o.Matches, func(a, b FlowMatch) bool {
			return a.Spec == b.Spec && bytes.Equal(a.Mask, b.Mask) && bytes.Equal(a.Value, b.Value)
		})
}

// Matches reports whether headers, in the order of the filter's fields, are what the match wants.
func (m *FlowMatch) Matches(headers []byte) bool {
	return len(headers) >= len(m.Mask) && masked(headers, m.Mask, m.Value)
}

// Sniffs reports whether the rule is for a copy.
func (f *Flow) Sniffs() bool { return f.Type == FlowSniffer }

// Default reports whether the rule is for what no other takes.
func (f *Flow) Default() bool { return f.priority == defaultsPriority }

// Table returns what orders the rules; of those with one number only the first that matches is looked at, and others
// with the same matches.
func (f *Flow) Table() int { return f.priority }

// Hit counts a frame of n bytes.
func (f *Flow) Hit(n int) {
	if f.Count != nil {
		f.Count.Packets++
		f.Count.Bytes += uint64(n)
	}
}

// Flows returns the rules of a device in the order in which they are looked at.
func (d *Device) Flows() []*Flow { return d.flows().list }
