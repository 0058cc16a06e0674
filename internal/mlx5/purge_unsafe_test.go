package mlx5_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/spin"
)

// Purging a QP removes its completions, keeps those of others in order, and leaves a ring that works: with any mix of
// completions, at any place of the ring, up to a full ring.
func TestPurge(t *testing.T) {
	for _, cqeSize := range []int{64, 128} {
		for _, cqes := range []int{8, 64} {
			t.Run(fmt.Sprintf("%d/%d", cqeSize, cqes), func(t *testing.T) {
				const qps = 3
				d := newDevice(t, size{srqWQEs: 128, srqStride: 32, cqes: cqes, cqeSize: cqeSize})
				s := d.newSRQ(32, 1, new(spin.Lock))
				hw := &sharedRQ{d: d, stride: 32}
				tab := new(mlx5.Table)
				cq := d.newCQ(tab)
				r := rand.New(rand.NewPCG(uint64(cqes), uint64(cqeSize)))
				type side struct {
					*mlx5.QP
					d      *device
					posted uint16
				}
				var sides [qps]side
				make1 := func(i int) {
					rings := newDevice(t, size{blocks: 64})
					// numbers come back
					sides[i] = side{mlx5.NewQP(uint32(0x100+i), true, rings.sqConfig(), nil, s), rings, 0}
					tab.Add(sides[i].QP)
				}
				for i := range qps {
					make1(i)
				}
				type done struct {
					qp int
					id uint64
				}
				var there []done
				id := uint64(0)
				for step := range 1500 {
					for range r.IntN(cqes - len(there) + 1) {
						i := r.IntN(qps)
						q := &sides[i]
						if r.IntN(2) == 0 {
							if !q.SQ.Send(id, wrSend, signaled, 0, local) {
								continue
							}
							q.SQ.Ring()
							d.put(cqe{sendOp: 0x0a, qpn: q.Num, counter: q.posted, data: bytes.Repeat([]byte{1}, 64)})
							q.posted++
						} else {
							if s.Post(recvs(int(id), 1)) != 1 {
								t.Fatal("the SRQ lost WQEs")
							}
							w, _ := hw.next()
							d.put(cqe{op: 2, qpn: q.Num, counter: uint16(w), bytes: 1})
						}
						there = append(there, done{i, id})
						id++
					}
					switch k := r.IntN(6); {
					case k < qps: // reset, or destroyed and made again
						q := &sides[k]
						before := d.consumed()
						cq.Purge(q.QP)
						kept := there[:0:0]
						for _, e := range there {
							if e.qp != k {
								kept = append(kept, e)
							}
						}
						if got := d.consumed() - before; got != uint32(len(there)-len(kept)) {
							t.Fatalf("step %d: the consumer index went on by %d, want %d", step, got,
								len(there)-len(kept))
						}
						there = kept
						if r.IntN(4) != 0 {
							q.Reset()
							q.posted = 0
						} else {
							tab.Remove(q.QP)
							make1(k)
						}
					default:
						n := r.IntN(len(there) + 1)
						wcs := make([]mlx5.WC, n)
						got, err := cq.Poll(wcs)
						if got != n || err != nil {
							t.Fatalf("step %d: %d completions, want %d; error %v", step, got, n, err)
						}
						for i, wc := range wcs {
							if wc.ID != there[i].id || wc.QPN != uint32(0x100+there[i].qp) || wc.Status != 0 {
								t.Fatalf("step %d: completion %d is %+v, want %+v", step, i, wc, there[i])
							}
						}
						there = there[n:]
					}
				}
			})
		}
	}
}

// An XRC SRQ that goes takes its receives with it, those of QPs that are not in the table, and nothing else.
func TestDropXRC(t *testing.T) {
	d := newDevice(t, size{blocks: 8, rqWQEs: 8, rqStride: 16, srqWQEs: 8, srqStride: 32, cqes: 8, cqeSize: 64})
	s := d.newSRQ(32, 1, new(spin.Lock))
	q := mlx5.NewQP(qpn, true, d.sqConfig(), d.rqConfig(16, 1), nil)
	tab := new(mlx5.Table)
	tab.Add(q)
	cq := d.newCQ(tab)
	cq.AddXRC(s)
	if s.Post(recvs(1, 3)) != 3 || q.RQ.Post(recvs(11, 1)) != 1 || !q.SQ.Send(21, wrSend, signaled, 0, local) {
		t.Fatal("full")
	}
	q.SQ.Ring()
	d.got(0x77, 0, 1)
	if wc := poll(t, cq, 1)[0]; wc.ID != 1 || wc.QPN != 0x77 {
		t.Errorf("a receive of the XRC SRQ: %+v", wc)
	}
	d.got(0x77, 1, 1)
	d.sent(qpn, 0x0a, 0)
	d.got(0x78, 2, 1)
	d.got(qpn, 0, 1)
	cq.DropXRC()
	if got := poll(t, cq, 2); got[0].ID != 21 || got[1].ID != 11 || cq.Unpolled() != 0 {
		t.Errorf("after the XRC SRQ is gone: %+v, %d more", got, cq.Unpolled())
	}
}

// The first half of a 128-byte entry carries payload and moves with it.
func TestPurgeMovesPayload(t *testing.T) {
	mem := alloc(t, 256)
	d := newDevice(t, size{rqWQEs: 4, rqStride: 16, cqes: 4, cqeSize: 128})
	a := mlx5.NewQP(1, true, nil, d.rqConfig(16, 1), nil)
	e := newDevice(t, size{rqWQEs: 4, rqStride: 16})
	b := mlx5.NewQP(2, true, nil, e.rqConfig(16, 1), nil)
	tab := new(mlx5.Table)
	tab.Add(a)
	tab.Add(b)
	cq := d.newCQ(tab)
	a.RQ.Post([]mlx5.RecvWR{{ID: 1, SGEs: []mlx5.SGE{{Addr: addr(mem), Length: 64}}}})
	b.RQ.Post(recvs(2, 2))
	d.put(cqe{op: 2, qpn: 1, bytes: 64, format: 2, data: counted(64)})
	d.got(2, 0, 0)
	d.got(2, 1, 0)
	cq.Purge(b)
	if d.consumed() != 2 {
		t.Errorf("consumer index %d", d.consumed())
	}
	if wc := poll(t, cq, 1)[0]; wc.ID != 1 || wc.Status != 0 {
		t.Errorf("%+v", wc)
	}
	same(t, "payload", mem[:64], counted(64))
}
