package mlx5_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/spin"
)

// target is a CQ with one QP of each kind.
type target struct {
	d    *device // CQ, SRQ
	own  [4]*device
	mem  []byte
	size int
}

const (
	targetCQEs = 16
	targetWRs  = 8
)

func newTarget(t testing.TB, cqeSize int) *target {
	g := &target{size: cqeSize, mem: alloc(t, 64)}
	g.d = newDevice(t, size{srqWQEs: targetWRs, srqStride: 64, cqes: targetCQEs, cqeSize: cqeSize})
	for i := range g.own {
		g.own[i] = newDevice(t, size{blocks: targetWRs, rqWQEs: targetWRs, rqStride: 32})
	}
	return g
}

// pollBytes polls a ring of arbitrary bytes. In the second mode, the bytes that decide whether an entry is new are set
// so that it is.
func (g *target) pollBytes(t *testing.T, data []byte) {
	src := source{data}
	mode := src.next()
	for i := range targetWRs {
		binary.BigEndian.PutUint32(g.d.srq[i*64:], uint32(i+1))
	}
	clear(g.d.srqdb)
	clear(g.d.cqdb)
	fill(g.d.cq)
	srq := g.d.newSRQ(64, 3, new(spin.Lock))
	tab := new(mlx5.Table)
	qps := []*mlx5.QP{
		mlx5.NewQP(1, true, g.own[0].sqConfig(), g.own[0].rqConfig(32, 2), nil),
		mlx5.NewQP(2, false, g.own[1].sqConfig(), g.own[1].rqConfig(32, 2), nil),
		mlx5.NewQP(3, true, g.own[2].sqConfig(), nil, srq),
		mlx5.NewQP(4, true, g.own[3].sqConfig(), nil, srq),
		mlx5.NewQP(5, true, nil, nil, nil),
	}
	for _, q := range qps {
		tab.Add(q)
	}
	cq := g.d.newCQ(tab)

	open := map[uint64]bool{} // posted and not completed; true: in the SRQ
	id, shared, lost := uint64(0), 0, false
	post := func() {
		sges := []mlx5.SGE{{Addr: addr(g.mem), Length: 20, LKey: 1}, {Addr: addr(g.mem[20:]), Length: 44, LKey: 1}}
		for _, q := range qps[:4] {
			for i := range 3 {
				var ok bool
				switch i {
				case 0:
					ok = q.SQ.Begin(wrRead, 0, 0, 3)
					if ok {
						q.SQ.Remote(1, 2)
						q.SQ.Data(&sges[0])
						q.SQ.Data(&sges[1])
						q.SQ.Commit(id)
					}
				case 1:
					ok = q.SQ.Send(id, wrSend, signaled, 0, &sges[0])
				case 2:
					if ok = q.SQ.LocalInv(id, 0, 1); ok {
						open[id] = false
						id++
					}
					ok = q.SQ.Bind(id, 0, window(2, 0, 1))
				}
				if ok {
					open[id] = false
					id++
				}
			}
			q.SQ.Ring()
		}
		for range 4 {
			for i := range 3 {
				wr := []mlx5.RecvWR{{ID: id, SGEs: sges}}
				n := 0
				if i < 2 {
					n = qps[i].RQ.Post(wr)
				} else if n = srq.Post(wr); n == 1 {
					shared++
				}
				if n == 1 {
					open[id] = i == 2
					id++
				}
			}
		}
	}
	ci := uint32(0)
	for range 6 {
		post()
		for i := range uint32(targetCQEs) { // as if the device had gone around once
			e := g.d.cq[i*uint32(g.size):][:g.size]
			n := copy(e, src.data)
			src.data = src.data[n:]
			if mode&1 != 0 {
				b := e[g.size-64:]
				lap := ci / targetCQEs
				if i < ci%targetCQEs {
					lap++
				}
				b[63] = b[63]&^1 | byte(lap&1)
				if b[63]>>4 > 6 && b[63]>>4 < 13 {
					b[63] &= 0x3f
				}
				b[57], b[58], b[59] = 0, 0, b[59]%6 // 0 is none
				b[60] = 0
				b[61] %= 2 * targetWRs
				if b[63]>>4 == 0 {
					b[56] = []byte{0x08, 0x0a, 0x10, 0x12, 0x25, 0x01, b[56]}[b[56]%7]
				}
			}
		}
		for calls := 0; ; calls++ {
			if calls > 2*targetCQEs {
				t.Fatal("the ring has more completions than entries")
			}
			wcs := make([]mlx5.WC, 1+src.n(5))
			was := binary.BigEndian.Uint32(g.d.cqdb)
			n, err := cq.Poll(wcs)
			now := g.d.consumed()
			if now-was > targetCQEs || n > len(wcs) || n < 0 {
				t.Fatalf("%d completions of %d; the consumer index went from %d to %d", n, len(wcs), was, now)
			}
			var e *mlx5.CQEError
			if err != nil && (n != 0 || !errors.As(err, &e) || e.Error() == "") {
				t.Fatalf("%d completions, error %v", n, err)
			}
			for _, wc := range wcs[:n] {
				inSRQ, ok := open[wc.ID]
				if !ok {
					t.Fatalf("%+v: not posted, or completed before", wc)
				}
				delete(open, wc.ID)
				if inSRQ {
					shared--
				}
				if wc.QPN == 0 || wc.QPN > 4 {
					t.Fatalf("%+v: a QP that cannot complete", wc)
				}
			}
			if n == 0 && err == nil {
				ci = now
				break
			}
		}
		if src.n(3) == 0 {
			was := g.d.consumed()
			cq.Purge(qps[src.n(5)])
			lost = true // how many of the SRQ's came back
			if ci = g.d.consumed(); ci-was > targetCQEs {
				t.Fatalf("a purge moved the consumer index from %d to %d", was, ci)
			}
		}
	}
	// The SRQ has lost no WQE.
	n := 0
	for srq.Post(make([]mlx5.RecvWR, 1)) == 1 {
		if n++; n > targetWRs {
			t.Fatal("the SRQ's list goes around")
		}
	}
	if want := targetWRs - 1 - shared; n != want && !lost {
		t.Fatalf("the SRQ took %d, want %d", n, want)
	}
}

func FuzzPoll(f *testing.F) {
	small, large := newTarget(f, 64), newTarget(f, 128)
	r := rand.NewChaCha8([32]byte{9})
	for i := range 24 {
		data := make([]byte, 2+100<<(i/2))
		r.Read(data)
		data[0] = byte(i)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, g := range []*target{small, large} {
			g.d.t = t
			g.pollBytes(t, data)
		}
	})
}
