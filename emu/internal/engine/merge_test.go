//go:build linux

package engine

import (
	"bytes"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// TestMerge has the messages of many queue pairs go as one batch. Where memory of one of them is bad, only that one
// fails, and what the others have sent arrives once and whole, and is counted once.
func TestMerge(t *testing.T) {
	const pairs, each, size, page = 24, 2, 100, 4096
	for _, tt := range []struct {
		bad           int // queue pair, or -1
		local, shared bool
	}{{-1, false, false}, {-1, false, true}, {0, true, false}, {9, true, true}, {5, false, false}, {5, false, true},
		{pairs - 1, false, false}} {
		r := newRig(t, "mlx5_0", 0)
		r.e.c.Turn = time.Minute // all in one turn
		a, b := r.node(0), r.nodeOf(0, otherThread(t))
		acq, bcq := a.cq(128, 64), b.cq(128, 64)
		ma, mb := a.mr(pairs*page, anyAccess), b.mr(pairs*each*page, anyAccess)
		var srq *srq
		if tt.shared {
			srq = b.srq(64, 0, nil)
		}
		var qs, peers [pairs]*qp
		for i := range qs {
			qs[i], peers[i] = a.qp(acq, acq, qpOpts{}), b.qp(bcq, bcq, qpOpts{srq: srq})
			connect(defaults(), qs[i], peers[i])
			for k := range each {
				at := i*page + k*size
				fill(ma.buf[at:at+size], byte(i*each+k))
				if to := mb.sge((i*each+k)*page, size); tt.shared {
					srq.recv(to)
				} else {
					peers[i].recv(to)
				}
				qs[i].post(opSend, signaled, 0, ma.sge(at, size))
			}
		}
		r.settle()
		for _, q := range qs {
			q.ring()
		}
		if tt.bad >= 0 {
			bad := mb.buf[tt.bad*each*page:][:page]
			if tt.local {
				bad = ma.buf[tt.bad*page:][:page]
			}
			protect(t, bad)
		}
		r.e.turn()
		if before := r.e.b.before[:1]; before[0].qp == nil {
			t.Fatalf("%+v: nothing was merged: the test tells nothing", tt)
		}
		sent, arrived := map[uint32]int{}, map[uint32]int{}
		for {
			r.settle()
			c, ok := acq.poll()
			if !ok {
				break
			}
			if !c.isErr() {
				sent[c.qpn()]++
			} else if tt.bad < 0 || c.qpn() != qs[tt.bad].q.Num {
				t.Errorf("%+v: QP %#x failed, syndrome %#x", tt, c.qpn(), c.syn())
			}
		}
		index := map[uint32]int{}
		for i, p := range peers {
			index[p.q.Num] = i
		}
		for c, ok := bcq.poll(); ok; c, ok = bcq.poll() {
			i := index[c.qpn()]
			if c.isErr() {
				if i != tt.bad {
					t.Errorf("%+v: the peer of QP %d failed, syndrome %#x", tt, i, c.syn())
				}
				continue
			}
			k := arrived[c.qpn()]
			arrived[c.qpn()]++
			from, to := i*page+k*size, int(c.counter())*page
			if !tt.shared {
				to += i * each * page
			}
			if !bytes.Equal(ma.buf[from:from+size], mb.buf[to:to+size]) {
				t.Errorf("%+v: message %d of QP %d is not what was sent", tt, k, i)
			}
		}
		for i := range qs {
			want := each
			if i == tt.bad {
				want = 0
			}
			if s, g := sent[qs[i].q.Num], arrived[peers[i].q.Num]; s != want || g != want {
				t.Errorf("%+v: QP %d: %d sent, %d arrived, want %d", tt, i, s, g, want)
			}
		}
		good := uint64(pairs * each)
		if tt.bad >= 0 {
			good -= each
		}
		count := &r.f.Devices[0].Ports[0].Count
		if data, packets := count[hca.XmitData], count[hca.XmitPackets]; data != good*size/4 || packets != good {
			t.Errorf("%+v: %d bytes in %d packets were counted, want %d in %d", tt, 4*data, packets, good*size, good)
		}
		if tt.bad >= 0 && qs[tt.bad].q.State != hca.Err {
			t.Errorf("%+v: QP %d is in %v", tt, tt.bad, qs[tt.bad].q.State)
		}
		if tt.bad < 0 {
			r.clean()
		}
	}
}
