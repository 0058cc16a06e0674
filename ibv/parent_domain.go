package ibv

import "github.com/pureverbs/pureverbs/internal/life"

// AllocParentDomain makes a PD from pd and a thread domain, which may be nil. Memory, AHs and
// SRQs of pd and its parent domains may be used together: to the device they are one protection
// domain. QPs created on the new PD belong to td.
//
// Close the new PD before pd and td.
//
// C: ibv_alloc_parent_domain(3). Its allocators, which C calls, are not offered.
func (d *Device) AllocParentDomain(pd *PD, td *ThreadDomain) (*PD, error) {
	const op = "alloc parent domain"
	name := d.Name()
	fail := func(err error) (*PD, error) { return nil, &OpError{Op: op, Object: name, Err: err} }
	switch {
	case pd == nil:
		return fail(&ArgError{Arg: "pd", Got: "nil", Want: "a PD of the same Device"})
	case pd.dev != d:
		return fail(&ArgError{Arg: "pd", Got: "a PD of another Device", Want: "a PD of the same Device"})
	case pd.root != pd:
		return fail(&ArgError{Arg: "pd", Got: "a parent domain", Want: "the PD that it was made from: PD.Base"})
	case td != nil && td.dev != d:
		return fail(&ArgError{Arg: "td", Got: "a thread domain of another Device", Want: "one of the same Device"})
	}
	nodes := []*node{&pd.node}
	var thread uintptr
	if td != nil {
		nodes = append(nodes, &td.node)
		thread = td.handle
	}
	if err := enterAll(op, nodes...); err != nil {
		return nil, err
	}
	defer leaveAll(nodes...)
	h, err := d.v.AllocParentDomain(d.handle, pd.handle, thread)
	if err != nil {
		return fail(d.explainDomain("a parent domain", err))
	}
	p := &PD{dev: d, handle: h, root: pd, td: td}
	p.node.initNumbered("parent domain", name, nodes...)
	life.Watch(p, &p.life)
	return p, nil
}

// Base returns the PD that a parent domain was made from, and pd itself for any other PD.
func (pd *PD) Base() *PD { return pd.root }

// ThreadDomain returns the thread domain of a parent domain, nil if there is none.
func (pd *PD) ThreadDomain() *ThreadDomain { return pd.td }
