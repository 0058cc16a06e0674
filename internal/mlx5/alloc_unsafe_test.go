package mlx5_test

import (
	"testing"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/spin"
	"github.com/pureverbs/pureverbs/internal/work"
)

// Posting and polling do not allocate.
func TestNoAllocation(t *testing.T) {
	mem := alloc(t, 4096)
	sge := &mlx5.SGE{Addr: addr(mem), Length: 64, LKey: 1}
	sges := []mlx5.SGE{*sge, *sge}
	inl, vector := make([]byte, 28), av()
	tab := new(mlx5.Table)
	d := newDevice(t, size{blocks: 64, rqWQEs: 64, rqStride: 64, cqes: 64, cqeSize: 64})
	q := mlx5.NewQP(qpn, true, d.sqConfig(), d.rqConfig(64, 4), nil)
	tab.Add(q)
	cq := d.newCQ(tab)
	sd := newDevice(t, size{srqWQEs: 64, srqStride: 64, cqes: 64, cqeSize: 128})
	srq := sd.newSRQ(64, 3, new(spin.Lock))
	sq := mlx5.NewQP(2, true, nil, nil, srq)
	tab.Add(sq)
	scq := sd.newCQ(tab)
	hw := &sharedRQ{d: sd, stride: 64}
	bd := newDevice(t, size{blocks: 64, cqes: 64, cqeSize: 64})
	bfc := bd.sqConfig()
	bfc.BlueFlame = 256
	bf := mlx5.NewQP(3, true, bfc, nil, nil)
	tab.Add(bf)
	bcq := bd.newCQ(tab)

	wcs := make([]mlx5.WC, 16)
	recv := []mlx5.RecvWR{{ID: 1, SGEs: sges[:1]}, {ID: 2, SGEs: sges}}
	send := make([]mlx5.SendWR, 6)
	for i := range send {
		send[i] = mlx5.SendWR{ID: uint64(i), Opcode: wrWrite, Flags: signaled, SGEs: sges[:1]}
		switch i {
		case 2:
			send[i].Opcode = wrSendImm
		case 3, 4:
			send[i].SGEs, send[i].Inline = nil, inl
		}
	}
	const ops = 1<<wrWrite | 1<<wrSendImm
	sent := func(d *device, q *mlx5.QP, cq *mlx5.CQ) { // the last one completes
		d.sent(q.Num, 0x08, recordOf(t, d.db[4:])-1)
		cq.Poll(wcs)
	}
	seven := 0
	for _, c := range []struct {
		name string
		f    func()
	}{
		{"RDMA", func() { q.SQ.RDMA(1, wrWrite, signaled, 0, remote, sge); q.SQ.Ring(); sent(d, q, cq) }},
		{"Send", func() { q.SQ.Send(1, wrSend, signaled, 0, sge); q.SQ.Ring(); sent(d, q, cq) }},
		{"Build", func() {
			if q.SQ.BuildOf(send, ops, 64) != len(send) {
				t.Fatal("full")
			}
			q.SQ.Ring()
			sent(d, q, cq)
		}},
		{"PostOne", func() {
			if !q.SQ.PostOne(&send[0], ops, 64) {
				t.Fatal("full")
			}
			sent(d, q, cq)
		}},
		{"Bind", func() {
			w := work.Bind{Type: 2, Key: 1, NewKey: 2, LKey: 3, Addr: 4, Length: 5}
			q.SQ.Bind(1, signaled, &w)
			q.SQ.Ring()
			d.sent(q.Num, 0x25, recordOf(t, d.db[4:])-3)
			cq.Poll(wcs)
		}},
		{"Begin, To, Data, Commit", func() {
			q.SQ.Begin(wrSend, signaled, 0, 3+2)
			q.SQ.To(unsafe.Pointer(unsafe.SliceData(vector)), 1, 2)
			q.SQ.Data(&sges[0])
			q.SQ.Data(&sges[1])
			q.SQ.Commit(1)
			q.SQ.Ring()
			d.sent(qpn, 0x0a, recordOf(t, d.db[4:])-2)
			cq.Poll(wcs)
		}},
		{"Begin, ToDCT, Commit", func() {
			q.SQ.Begin(wrSend, signaled, 0, 3)
			q.SQ.ToDCT(unsafe.Pointer(unsafe.SliceData(vector)), 1, 2, 3)
			q.SQ.Commit(1)
			q.SQ.Ring()
			d.sent(qpn, 0x0a, recordOf(t, d.db[4:])-1)
			cq.Poll(wcs)
		}},
		{"Begin, Remote, Atomic, Commit", func() {
			q.SQ.Begin(wrFA, signaled, 0, 3)
			q.SQ.XRC(1)
			q.SQ.Remote(1, 2)
			q.SQ.Atomic(3, 4)
			q.SQ.Commit(1)
			q.SQ.Ring()
			sent(d, q, cq)
		}},
		{"Inline", func() {
			q.SQ.Begin(wrSend, signaled, 0, 3)
			q.SQ.Inline(inl)
			q.SQ.Commit(1)
			q.SQ.Ring()
			sent(d, q, cq)
		}},
		{"InlineFrom", func() {
			m := q.SQ.Mark()
			q.SQ.Begin(wrSend, signaled, 0, 9)
			q.SQ.InlineFrom(sges, 128)
			q.SQ.Commit(1)
			q.SQ.Rollback(m)
		}},
		{"BlueFlame", func() { bf.SQ.RDMA(1, wrWrite, signaled, 0, remote, sge); bf.SQ.Ring(); sent(bd, bf, bcq) }},
		{"receives", func() {
			if q.RQ.Post(recv) != 2 {
				t.Fatal("full")
			}
			d.got(qpn, uint16(seven), 1)
			d.put(cqe{op: 14, qpn: qpn, counter: uint16(seven + 1), syndrome: 5})
			seven += 2
			cq.Poll(wcs)
		}},
		{"SRQ, with payload", func() {
			if srq.Post(recv) != 2 {
				t.Fatal("full")
			}
			w, v := hw.take(), hw.take()
			sd.put(cqe{op: 2, qpn: 2, counter: uint16(w), bytes: 64, format: 2})
			sd.put(cqe{op: 3, qpn: 2, counter: uint16(v), bytes: 32, format: 1})
			if n, err := scq.Poll(wcs); n != 2 || err != nil {
				t.Fatal(n, err)
			}
		}},
		{"empty poll, Empty, Arm, Event", func() { cq.Poll(wcs); cq.Empty(); cq.Arm(true); cq.Event() }},
		{"Find", func() { tab.Find(qpn) }},
	} {
		if n := testing.AllocsPerRun(100, c.f); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
		if q.Broken() || bf.Broken() || sq.Broken() {
			t.Fatalf("%s: broken", c.name)
		}
	}
}
