package mlx5_test

import (
	"errors"
	"testing"

	"github.com/pureverbs/pureverbs/internal/mlx5"
)

// Canceled work requests complete as what they were, and their WQEs say nothing else but that they do nothing.
func TestCancel(t *testing.T) {
	const nop, opWrite, opRead = 0x00, 0x08, 0x10
	d := newDevice(t, size{blocks: 16, cqes: 16, cqeSize: 64})
	table := new(mlx5.Table)
	cq := d.newCQ(table)
	q := mlx5.NewQP(qpn, true, d.sqConfig(), nil, nil)
	table.Add(q)
	change := changeOf(nil)
	for round := range 5 { // around the ring
		at := round * 6
		for i, op := range []uint32{wrWrite, wrRead, wrWrite} {
			if !q.SQ.RDMA(uint64(1+i&1), op, signaled|fence, 0, remote, local) {
				t.Fatal("no room")
			}
		}
		if !q.SQ.Mkey(1, signaled, change, nil) {
			t.Fatal("no room")
		}
		before := d.wqe(at, 64)
		d.sent(qpn, opWrite, uint16(at))
		poll(t, cq, 1)
		if n, ok := q.SQ.Cancel(uint16(at+1), 1); n != 2 || !ok {
			t.Fatalf("%d canceled, %v", n, ok)
		}
		if n, ok := q.SQ.Cancel(uint16(at+1), 1); n != 0 || !ok {
			t.Errorf("%d canceled again, %v", n, ok)
		}
		before[1], before[2], before[3], before[15] = byte((at+2)>>8), byte(at+2), nop, opWrite
		same(t, "a canceled WQE", d.wqe(at+2, 48), before[:48])
		d.put(cqe{sendOp: opRead, qpn: qpn, counter: uint16(at + 1), bytes: 0x1234})
		d.put(cqe{sendOp: nop, qpn: qpn, counter: uint16(at + 2), bytes: 77})
		d.put(cqe{sendOp: nop, qpn: qpn, counter: uint16(at + 3)})
		for i, wc := range poll(t, cq, 3) {
			if want := []uint32{2, 1, 135}[i]; wc.Opcode != want || wc.ID != []uint64{2, 1, 1}[i] ||
				wc.ByteLen != []uint32{0x1234, 0, 0}[i] {
				t.Errorf("%+v, want opcode %d", wc, want)
			}
		}
	}
	if !q.SQ.RDMA(1, wrWrite, signaled, 0, remote, local) || !q.SQ.Mkey(2, 0, change, nil) {
		t.Fatal("no room")
	}
	for _, next := range []uint16{29, 32, 33, 35, 1 << 15} { // before it, within a WQE, behind the last one
		if n, ok := q.SQ.Cancel(next, 1); n != 0 || ok {
			t.Errorf("from block %d: %d, %v, want a refusal", next, n, ok)
		}
	}
	if n, ok := q.SQ.Cancel(34, 1); n != 0 || !ok { // all was begun
		t.Errorf("from the end: %d, %v", n, ok)
	}
	d.sent(qpn, nop, 30) // which was not canceled
	var e *mlx5.CQEError
	if n, err := cq.Poll(make([]mlx5.WC, 1)); n != 0 || !errors.As(err, &e) {
		t.Errorf("%d, %v, want a CQEError", n, err)
	}
}
