//go:build linux

package engine

import "testing"

func TestTrace(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	var got []Record
	p.r.e.Hooks.Trace = func(r *Record) { got = append(got, *r) }
	p.qb.recv(p.mb.sge(0, 64))
	p.acq.arm(false)
	p.r.settle()
	p.qa.send(opSendImm, signaled, 7, p.ma.sge(0, 8))
	p.acq.want(0, -1)
	want := []Kind{KindArm, KindDoorbell, KindRecv, KindWQE, KindCQE, KindCQE, KindEvent}
	if len(got) != len(want) {
		t.Fatalf("%d records: %+v", len(got), got)
	}
	for i, k := range want {
		if got[i].Kind != k || got[i].PID == 0 || got[i].Time == 0 {
			t.Errorf("record %d: %+v, want kind %d", i, got[i], k)
		}
	}
	if w := got[3]; w.Opcode != opSendImm || w.N != 8 || w.Imm != 7 || w.Raw[7] != 2 || w.PeerQPN != p.qb.q.Num {
		t.Errorf("WQE: %+v", w)
	}
}
