package mlx5_test

import (
	"testing"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/spin"
)

// completed is a queue of 1024 whose WQEs complete at once; the completion is part of what is timed.
func completed(b *testing.B, build func(q *mlx5.SQ), op byte) {
	d := newDevice(b, size{blocks: 1024, cqes: 64, cqeSize: 64})
	q := mlx5.NewQP(qpn, true, d.sqConfig(), nil, nil)
	d.tab = new(mlx5.Table)
	d.tab.Add(q)
	cq := d.newCQ(d.tab)
	wcs := make([]mlx5.WC, 1)
	b.ReportAllocs()
	for b.Loop() {
		at := d.sendRecord()
		build(&q.SQ)
		q.SQ.Ring()
		d.sent(qpn, op, at)
		if n, err := cq.Poll(wcs); n != 1 || err != nil {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkLong(b *testing.B) {
	vector, inl, bind := av(), make([]byte, 200), window(2, remoteRead, 64)
	for _, c := range []struct {
		name  string
		op    byte
		build func(q *mlx5.SQ)
	}{
		{"datagram", 0x0a, func(q *mlx5.SQ) {
			q.Begin(wrSend, signaled, 0, 4)
			q.To(unsafe.Pointer(&vector[0]), 1, 2)
			q.Data(local)
			q.Commit(1)
		}},
		{"atomic", 0x12, func(q *mlx5.SQ) {
			q.Begin(wrFA, signaled, 0, 3)
			q.Remote(1, 2)
			q.Atomic(3, 4)
			q.Data(local)
			q.Commit(1)
		}},
		{"inline200", 0x0a, func(q *mlx5.SQ) {
			q.Begin(wrSend, signaled, 0, mlx5.InlineSegs(200))
			q.Inline(inl)
			q.Commit(1)
		}},
		{"invalidate", 0x25, func(q *mlx5.SQ) { q.LocalInv(1, signaled, 2) }},
		{"bind", 0x25, func(q *mlx5.SQ) { q.Bind(1, signaled, bind) }},
	} {
		b.Run(c.name, func(b *testing.B) { completed(b, c.build, c.op) })
	}
}

// BenchmarkRecv posts a batch of receives, has the device complete it and polls it.
func BenchmarkRecv(b *testing.B) {
	for _, c := range []struct {
		name   string
		srq    bool
		batch  int
		format byte // 1: the payload is in the CQE
	}{{"1", false, 1, 0}, {"16", false, 16, 0}, {"16 of 32 bytes in the CQE", false, 16, 1}, {"srq 1", true, 1, 0},
		{"srq 16", true, 16, 0}} {
		b.Run(c.name, func(b *testing.B) {
			mem := alloc(b, 64)
			d := newDevice(b, size{rqWQEs: 1024, rqStride: 16, srqWQEs: 1024, srqStride: 32, cqes: 64, cqeSize: 64})
			rq, srq := d.rqConfig(16, 1), (*mlx5.SRQ)(nil)
			if c.srq {
				rq, srq = nil, d.newSRQ(32, 1, new(spin.Lock))
			}
			q := mlx5.NewQP(qpn, true, nil, rq, srq)
			post := q.RQ.Post
			if c.srq {
				post = srq.Post
			}
			tab := new(mlx5.Table)
			tab.Add(q)
			cq := d.newCQ(tab)
			hw := &sharedRQ{d: d, stride: 32}
			wrs := recvs(1, c.batch)
			for i := range wrs {
				wrs[i].SGEs[0] = mlx5.SGE{Addr: addr(mem), Length: 64}
			}
			wcs := make([]mlx5.WC, c.batch)
			at := uint16(0)
			b.ReportAllocs()
			for b.Loop() {
				if post(wrs) != c.batch {
					b.Fatal("full")
				}
				for range c.batch {
					w := at
					if c.srq {
						w = uint16(hw.take())
					}
					d.put(cqe{op: 2, qpn: qpn, counter: w, bytes: 32, format: c.format})
					at++
				}
				if n, err := cq.Poll(wcs); n != c.batch || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

func BenchmarkArm(b *testing.B) {
	_, _, cq := newPair(b, 16, 64)
	for b.Loop() {
		cq.Arm(false)
		cq.Event()
	}
}
