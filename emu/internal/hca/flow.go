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
	FlowInit
	Context  *Context
	Handle   uint32
	To       *QP
	Counter  *FlowCounters
	By       *Matcher       // of which it is, or nil
	tir      *DevxObject    // that To is the queue of, or nil
	Value    []byte         // what By's mask is compared with
	Changes  []*FrameAction // of the frame, before it is delivered or sent
	Count    *FrameCounter  // by DevX, or nil
	Miss     bool           // the frame goes to the defaults
	mask     []byte
	priority int // of all rules of the device; the least comes first
}

// Priorities of the tables, as mlx5_ib arranges them: two of the device for each of the program's, because a rule that
// does not trap goes before those that do; then rules for multicast alone; then the defaults.
const (
	maxFlowPriority  = 15
	mcastPriority    = 2 * (maxFlowPriority + 1)
	defaultsPriority = mcastPriority + 1

	specEth     = 0x20
	maxFlowTag  = 1<<24 - 1
	flowsOfPort = 1 << 16 // a bound of this emulator's, on memory
)

// CreateFlow adds a rule.
func (c *Context) CreateFlow(i *FlowInit) (*Flow, unix.Errno) {
	qp, e := c.QP(i.QP)
	if e != 0 {
		return nil, e
	}
	f := &Flow{FlowInit: *i, Context: c, To: qp}
	defaults := i.Type == FlowAllDefault || i.Type == FlowMCDefault
	switch {
	case qp.Type != RawPacket && qp.Type != UD:
		return nil, unix.EINVAL
	case qp.Type == UD: // only those over another QP's number, which there are none of
		return nil, unix.EINVAL
	case i.Type > FlowSniffer, c.Device.port(i.Port) == nil:
		return nil, unix.EINVAL
	case i.Priority > maxFlowPriority:
		return nil, unix.ENOMEM
	case defaults && (i.Egress || i.Tagged), i.Type != FlowNormal && i.DontTrap, i.Tag > maxFlowTag:
		return nil, unix.EINVAL
	case i.Egress && i.Type != FlowNormal:
		return nil, unix.EINVAL
	case len(c.Device.flows) >= flowsOfPort:
		return nil, unix.ENOMEM
	}
	for k := range f.Matches {
		for n, mask := range f.Matches[k].Mask {
			f.Matches[k].Value[n] &= mask
		}
	}
	if e := f.settle(); e != 0 {
		return nil, e
	}
	if i.Counters != 0 {
		if f.Counter, e = find[*FlowCounters](c, i.Counters); e != 0 {
			return nil, e
		}
		if e = f.Counter.bind(i.Points); e != 0 {
			return nil, e
		}
		f.Counter.flows++
	}
	c.insertFlow(f)
	return f, 0
}

// settle gives a rule its place among the others. A rule with the matches of another adds a receiver; what else is done
// with the frames must agree.
func (f *Flow) settle() unix.Errno {
	f.priority = f.rank()
	for _, o := range f.Context.Device.flows {
		if o.Same(f) && (o.Tag != f.Tag || o.Tagged != f.Tagged || o.Drop != f.Drop || o.DontTrap != f.DontTrap ||
			o.Miss != f.Miss || !slices.Equal(o.Changes, f.Changes)) {
			return unix.EEXIST
		}
	}
	return 0
}

// insertFlow puts a rule where its priority has it.
func (c *Context) insertFlow(f *Flow) {
	at := slices.IndexFunc(c.Device.flows, func(o *Flow) bool { return o.priority > f.priority })
	if at < 0 {
		at = len(c.Device.flows)
	}
	c.Device.flows = slices.Insert(c.Device.flows, at, f)
	if f.To != nil {
		f.To.flows++
	}
	f.Handle = c.add(f)
}

func (f *Flow) rank() int {
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
	if f.By != nil {
		return f.multicastParam()
	}
	if len(f.Matches) == 0 {
		return false
	}
	m := &f.Matches[0]
	return m.Spec == specEth && m.Value[0]&1 != 0 && m.Mask[0]&1 != 0
}

// Same reports whether two rules are about the same frames, in one table.
func (f *Flow) Same(o *Flow) bool {
	return f.Type == o.Type && f.Port == o.Port && f.Egress == o.Egress && f.priority == o.priority && f.sameParam(o) &&
		slices.EqualFunc(f.Matches, o.Matches, func(a, b FlowMatch) bool {
			return a.Spec == b.Spec && bytes.Equal(a.Mask, b.Mask) && bytes.Equal(a.Value, b.Value)
		})
}

// Matches reports whether headers, in the order of the filter's fields, are what the match wants.
func (m *FlowMatch) Matches(headers []byte) bool {
	if len(headers) < len(m.Mask) {
		return false
	}
	for i, mask := range m.Mask {
		if headers[i]&mask != m.Value[i] {
			return false
		}
	}
	return true
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
	if f.Counter != nil {
		f.Counter.Packets++
		f.Counter.Bytes += uint64(n)
	}
	if f.Count != nil {
		f.Count.Packets++
		f.Count.Bytes += uint64(n)
	}
}

// Flows returns the rules of a device in the order in which they are looked at.
func (d *Device) Flows() []*Flow { return d.flows }

// DestroyFlow removes a rule.
func (c *Context) DestroyFlow(handle uint32) unix.Errno {
	f, e := find[*Flow](c, handle)
	if e != 0 {
		return e
	}
	delete(c.objects, handle)
	d := c.Device
	d.flows = slices.DeleteFunc(d.flows, func(o *Flow) bool { return o == f })
	if f.To != nil {
		f.To.flows--
	}
	if f.By != nil {
		f.By.flows--
	}
	if f.tir != nil {
		f.tir.flows--
	}
	for _, a := range f.Changes {
		a.flows--
	}
	if f.Count != nil {
		f.Count.Flows--
	}
	if f.Counter != nil {
		f.Counter.flows--
	}
	return 0
}

// CounterPoint is what a place in the answer counts: packets or bytes.
type CounterPoint struct{ Description, Index uint32 }

// What a point counts. C: enum ib_counters_description.
const (
	CountPackets = 0
	CountBytes   = 1

	maxCounterIndex = 32 // C: MAX_COUNTERS_NUM
)

// FlowCounters counts what rules match.
type FlowCounters struct {
	Handle         uint32
	Packets, Bytes uint64
	points         []CounterPoint
	flows          int
}

// CreateCounters makes counters that nothing is bound to.
func (c *Context) CreateCounters() (*FlowCounters, unix.Errno) {
	o := &FlowCounters{}
	o.Handle = c.add(o)
	return o, 0
}

// bind takes the points that the first rule brings.
func (o *FlowCounters) bind(points []CounterPoint) unix.Errno {
	switch {
	case len(points) == 0 && len(o.points) == 0, len(points) > 0 && len(o.points) > 0:
		return unix.EINVAL
	case len(points) == 0:
		return 0
	}
	for _, p := range points {
		if p.Description > CountBytes || p.Index >= maxCounterIndex {
			return unix.EINVAL
		}
	}
	o.points = slices.Clone(points)
	return 0
}

// ReadCounters adds up to n values, in the order that the points say.
func (c *Context) ReadCounters(handle uint32, n int) ([]uint64, unix.Errno) {
	o, e := find[*FlowCounters](c, handle)
	if e != 0 {
		return nil, e
	}
	v := make([]uint64, n)
	if len(o.points) == 0 {
		return nil, unix.EINVAL
	}
	for _, p := range o.points {
		if int(p.Index) >= n {
			return nil, unix.EINVAL
		}
		if p.Description == CountPackets {
			v[p.Index] += o.Packets
		} else {
			v[p.Index] += o.Bytes
		}
	}
	return v, 0
}

// DestroyCounters frees counters that no rule uses.
func (c *Context) DestroyCounters(handle uint32) unix.Errno {
	o, e := find[*FlowCounters](c, handle)
	switch {
	case e != 0:
		return e
	case o.flows > 0 && !c.Dead:
		return unix.EBUSY
	}
	delete(c.objects, handle)
	return 0
}
