//go:build linux

package engine

import (
	"testing"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

func TestSRQ(t *testing.T) {
	r := newRig(t, "mlx5_0", 0)
	n := r.node(0)
	c := n.cq(64, 64)
	s := n.srq(16, 0, nil)
	x := defaults()
	x.rnr = 0
	a1, a2 := n.qp(c, c, qpOpts{sq: 512}), n.qp(c, c, qpOpts{sq: 512})
	b1, b2 := n.qp(c, c, qpOpts{srq: s}), n.qp(c, c, qpOpts{srq: s})
	connect(x, a1, b1)
	connect(x, a2, b2)
	m := n.mr(1<<16, anyAccess)
	if e := s.q.Modify(2, 3); e != 0 {
		t.Fatal(e)
	}
	// Below the limit at once: nothing is posted yet.
	if r.event(hca.EventSRQLimitReached) != 1 {
		t.Fatalf("events %v", r.events)
	}
	where := map[uint32]int{}
	post := func(slot int) { where[s.recv(m.sge(slot*64, 64))] = slot }
	for i := range 15 {
		post(i)
	}
	if e := s.q.Modify(2, 3); e != 0 {
		t.Fatal(e)
	}
	for i := range 200 {
		a, b := a1, b1
		if i%3 == 0 {
			a, b = a2, b2
		}
		m.buf[40000] = byte(i)
		a.send(opSend, 0, 0, m.sge(40000, 1))
		v := c.want(cqeRespSend, 1)
		k := uint32(v.counter())
		if v.uidx() != b.q.UIdx || m.buf[where[k]*64] != byte(i) {
			t.Fatalf("message %d: entry %d, user index %d, payload %d", i, k, v.uidx(), m.buf[where[k]*64])
		}
		if i%5 == 4 { // out of order, so that the list is not the ring
			s.free(k)
			post(where[k])
		} else {
			s.free(k)
			post(where[k])
		}
	}
	if r.event(hca.EventSRQLimitReached) != 1 {
		t.Errorf("events %v", r.events)
	}
	for i := range 13 {
		a1.send(opSend, 0, 0, m.sge(40000, 1))
		c.next()
		if got := r.event(hca.EventSRQLimitReached) == 2; got != (i >= 12) {
			t.Fatalf("%d receives are left, events %v", 14-i, r.events)
		}
	}
	r.clean()
	b1.modify(&hca.QPAttr{}, 0, hca.Err)
	r.settle()
	if r.event(hca.EventQPLastWQEReached) != 1 {
		t.Errorf("events %v", r.events)
	}
	// Another QP's receives are still there, then none: RNR at once.
	for range 2 {
		a2.send(opSend, 0, 0, m.sge(40000, 1))
		c.want(cqeRespSend, 1)
	}
	a2.send(opSend, 0, 0, m.sge(40000, 1))
	c.wantErr(cqeReqErr, synRNR)
}

func TestSRQOutOfOrder(t *testing.T) {
	r := newRig(t, "mlx5_0", 0)
	n := r.node(0)
	c := n.cq(64, 64)
	s := n.srq(16, 0, nil)
	sc := n.cq(64, 64)
	a, b := n.qp(sc, sc, qpOpts{}), n.qp(c, c, qpOpts{srq: s})
	connect(defaults(), a, b)
	m := n.mr(1<<16, anyAccess)
	at := map[uint32]int{}
	for i := range 15 {
		at[s.recv(m.sge(i*64, 64))] = i
	}
	var kept []uint32
	for i := range 300 {
		m.buf[40000] = byte(i)
		a.send(opSend, signaled, 0, m.sge(40000, 1))
		sc.want(0, -1)
		k := uint32(c.want(cqeRespSend, 1).counter())
		if m.buf[at[k]*64] != byte(i) {
			t.Fatalf("message %d is not in entry %d", i, k)
		}
		kept = append(kept, k)
		if len(kept) == 7 {
			for _, j := range []int{3, 0, 6, 1, 5, 2, 4} {
				s.free(kept[j])
				slot := at[kept[j]]
				e := s.recv(m.sge(slot*64, 64))
				at[e] = slot
			}
			kept = kept[:0]
		}
	}
	r.clean()
}
