//go:build linux

package engine

import (
	"bytes"
	"testing"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

func TestUC(t *testing.T) {
	p := newPair(t, qpOpts{typ: hca.UC}, nil)
	fill(p.ma.buf[:5000], 3)
	addr, key := p.mb.at(0)
	p.qa.send(opWrite, signaled, 0, raddr(addr, key), p.ma.sge(0, 5000))
	p.acq.want(0, -1)
	if !bytes.Equal(p.ma.buf[:5000], p.mb.buf[:5000]) {
		t.Error("payload")
	}
	// Lost in silence: no receive, a bad key.
	p.qa.send(opSend, signaled, 0, p.ma.sge(0, 8))
	p.acq.want(0, -1)
	p.qa.send(opWrite, signaled, 0, raddr(addr, key+1), p.ma.sge(0, 8))
	p.acq.want(0, -1)
	p.qb.recv(p.mb.sge(0, 64))
	p.qa.send(opSend, signaled, 0, p.ma.sge(0, 8))
	p.acq.want(0, -1)
	p.bcq.want(cqeRespSend, 8)
	p.r.clean()
	p.qa.send(opWrite, signaled, 0, raddr(addr, key), sgeSeg(1, 0, 8))
	p.acq.wantErr(cqeReqErr, synLocalProt)
	if p.qa.q.State != hca.SQE || p.qb.q.State != hca.RTS {
		t.Errorf("states %v, %v", p.qa.q.State, p.qb.q.State)
	}
}
