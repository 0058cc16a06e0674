package ibv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// tagTable knows the tags of the SRQs on a CQ, which is why TagDel of one that is gone can be refused: libmlx5 would
// take its place twice. The library gets the index of a tag for the ID of its receive. The CQ's lock guards the table.
type tagTable struct {
	tags []tag
	free []uint64 // of tags
}

// tag is a receive for messages with a tag.
type tag struct {
	id   uint64 // RecvID
	live bool   // neither matched nor deleted, as far as is known
}

// joinTags makes the SRQ known to the table of its CQ.
func (s *SRQ) joinTags() {
	s.handles = map[uint32]uint64{}
	s.maxTagSGE = max(1, granted(s.pd.dev.attr.Ex.TagMatching.MaxSGE))
	s.cq.mu.Lock()
	defer s.cq.mu.Unlock()
	if s.cq.ops.tagged == nil {
		s.cq.ops.tagged = &tagTable{}
	}
}

// prepare translates the operations up to the first bad one, and returns the error of that one.
func (t *tagTable) prepare(s *SRQ, ops []TagOp) (c []abi.OpsWR, lists [][]abi.SGE, bad error) {
	for i := range ops {
		o := &ops[i]
		if bad = o.check(s.maxTagSGE); bad != nil {
			break
		}
		w := o.toC()
		switch o.Opcode {
		case TagAdd:
			w.TM.RecvWRID = t.add(o.RecvID)
		case TagDel:
			at, ok := s.handles[o.Handle]
			if !ok || !t.tags[at].live {
				return c, lists, &ArgError{Arg: "Handle", Got: fmt.Sprint(o.Handle),
					Want: "that of a tag of this SRQ that neither matched nor was deleted"}
			}
			t.tags[at].live = false
		}
		list := make([]abi.SGE, len(o.SGEs))
		fillSGEs(list, o.SGEs)
		c, lists = append(c, w), append(lists, list)
	}
	return c, lists, bad
}

// settle records the outcome of the prepared operations; the first done operations were accepted.
func (t *tagTable) settle(s *SRQ, ops []TagOp, c []abi.OpsWR, done int) {
	for i := range c {
		switch accepted := i < done; {
		case ops[i].Opcode == TagAdd && accepted:
			ops[i].Handle = c[i].TM.Handle
			if old, ok := s.handles[ops[i].Handle]; ok { // all that was to come of it came
				t.free = append(t.free, old)
			}
			s.handles[ops[i].Handle] = c[i].TM.RecvWRID
		case ops[i].Opcode == TagAdd:
			t.free = append(t.free, c[i].TM.RecvWRID)
		case ops[i].Opcode == TagDel && !accepted:
			t.tags[s.handles[ops[i].Handle]].live = true
		}
	}
}

// add returns the index of a new tag.
func (t *tagTable) add(id uint64) (at uint64) {
	if n := len(t.free); n > 0 {
		at, t.free = t.free[n-1], t.free[:n-1]
	} else {
		at = uint64(len(t.tags))
		t.tags = append(t.tags, tag{})
	}
	t.tags[at] = tag{id, true}
	return at
}

// drop forgets the tags of an SRQ.
func (t *tagTable) drop(s *SRQ) {
	for _, at := range s.handles {
		t.free = append(t.free, at)
	}
	s.handles = nil
}

// translate gives a completion the ID of its receive, if it is of a tag.
func (t *tagTable) translate(wc *WC) {
	switch {
	case wc.Status == WCTMRndvIncomplete:
	case wc.Status != WCSuccess, wc.Opcode != WCTMRecv, wc.Flags&(WCTMMatch|WCTMDataValid) == 0:
		return
	}
	if wc.ID >= uint64(len(t.tags)) {
		return
	}
	g := &t.tags[wc.ID]
	wc.ID = g.id
	if wc.Status != WCSuccess || wc.Flags&WCTMDataValid != 0 {
		g.live = false
	}
}
