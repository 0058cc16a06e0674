//go:build linux

package engine

// postpone takes the completions of a batch out of it that did not go with its data, to be written with those of other
// queue pairs: the requester's, and where no data was moved the responder's, too.
func (cs *completions) postpone(moved bool) {
	b := cs.b
	for i := range b.cqes {
		p := &b.cqes[i]
		if p.drop || p.inBlock || p.block > 0 || moved && p.cq.Mem == b.dst {
			continue
		}
		if len(cs.later) == cap(cs.later) {
			cs.writeLater()
		}
		cs.later = append(cs.later, *p)
		p.drop = true
	}
}

// writeLater writes the completions that were postponed: before an event is raised or a queue is flushed, and before
// others have the fabric's lock.
func (cs *completions) writeLater() {
	list := cs.later
	cs.later = cs.later[:0]
	for i := range list {
		list[i].drop = list[i].cq.Run.Dead // since then
	}
	for i := 0; i < len(list); {
		if list[i].drop {
			i++
			continue
		}
		i = cs.writeCQEs(list, i, false)
	}
	for i := range list {
		if p := &list[i]; !p.drop {
			cs.written(p)
		}
	}
}

// writeCQEs writes the completions from i on that are for the same process as it, and returns the first one that is
// not.
func (cs *completions) writeCQEs(cqes []pending, i int, skipDst bool) int {
	m := cqes[i].cq.Mem
	s := cs.io
	s.cbuf, s.civ = s.cbuf[:0], s.civ[:0]
	j := i
	for ; j < len(cqes); j++ {
		p := &cqes[j]
		if p.drop || p.inBlock || skipDst && p.cq.Mem == cs.b.dst {
			continue
		}
		if p.cq.Mem != m || len(s.cbuf)+128 > cap(s.cbuf) {
			break
		}
		k := len(s.cbuf)
		s.cbuf = s.cbuf[:k+128]
		s.cbuf = s.cbuf[:k+p.image(s.cbuf[k:])]
		s.civ = p.spans(s.civ)
	}
	if err := m.WriteV(s.cbuf, s.civ); err != nil {
		for ; i < j; i++ {
			if p := &cqes[i]; !p.drop && p.cq.Mem == m {
				cs.lostCQ(p.cq, err)
			}
		}
	}
	return j
}
