//go:build linux

package engine

import (
	"encoding/binary"
	"testing"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// After RESET a queue begins anew: nothing of what was read from its ring before may be carried out again.
func TestResetForgetsTheRing(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	p.a.qp(p.acq, p.acq, qpOpts{}) // a second one on the doorbell page: then records are read first, rings later
	write := func(n int) {
		addr, rkey := p.mb.at(0)
		p.qa.post(opWrite, signaled, 0, raddr(addr, rkey), p.ma.sge(0, n))
	}
	for range 4 {
		write(8)
	}
	p.qa.ring()
	for range 4 {
		p.acq.want(0, -1)
	}
	p.r.settle()
	for _, q := range []*qp{p.qa, p.qb} {
		q.modify(&hca.QPAttr{}, 0, hca.Reset)
		q.pi, q.head = 0, 0
		binary.BigEndian.PutUint64(q.db, 0)
	}
	connect(p.attributes, p.qa, p.qb)
	fill(p.ma.buf[:64], 5)
	clear(p.mb.buf[:64])
	write(64)
	p.qa.ring()
	p.acq.want(0, -1)
	if p.mb.buf[63] != p.ma.buf[63] {
		t.Error("the work request that lay in the ring before RESET was carried out")
	}
	p.r.clean()
}
