package ibv

// AllocParentDomain makes a PD from pd and a thread domain, which may be nil. Memory, AHs and
// SRQs of pd and its parent domains may be used together: to the device they are one protection
// domain. QPs created on the new PD belong to td.
//
// Close the new PD before pd and td.
//
// C: ibv_alloc_parent_domain(3). Its allocators, which C calls, are not offered.
func (d *Device) AllocParentDomain(pd *PD, td *ThreadDomain) (*PD, error) {
	const op = "alloc parent domain"
	var err error
	switch {
	case pd == nil:
		err = &ArgError{Arg: "pd", Got: "nil", Want: "a PD of the same Device"}
	case pd.dev != d:
		err = &ArgError{Arg: "pd", Got: "a PD of another Device", Want: "a PD of the same Device"}
	case pd.root != pd:
		err = &ArgError{Arg: "pd", Got: "a parent domain", Want: "the PD that it was made from: PD.Base"}
	case td != nil && td.dev != d:
		err = &ArgError{Arg: "td", Got: "a thread domain of another Device", Want: "one of the same Device"}
	}
	if err != nil {
		return nil, opError(op, d.Name(), err)
	}
	nodes, thread := []*node{&pd.node}, uintptr(0)
	if td != nil {
		nodes, thread = append(nodes, &td.node), td.handle
	}
	p := &PD{object: object{dev: d}, root: pd, td: td}
	return create(op, d.Name(), "parent domain", p, &p.node, func() (err error) {
		p.handle, err = d.v.AllocParentDomain(d.handle, pd.handle, thread)
		return d.explainDomain("a parent domain", err)
	}, nodes...)
}

// Base returns the PD that a parent domain was made from, and pd itself for any other PD.
func (pd *PD) Base() *PD { return pd.root }

// ThreadDomain returns the thread domain of a parent domain, nil if there is none.
func (pd *PD) ThreadDomain() *ThreadDomain { return pd.td }
