//go:build linux

package engine

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// otherThread returns the id of a thread that is not the first: by that the engine takes this process's memory for
// another one's.
func otherThread(t *testing.T) int {
	id, end := make(chan int), make(chan struct{})
	t.Cleanup(func() { close(end) })
	for { // the first thread is kept meanwhile
		go func() {
			runtime.LockOSThread()
			id <- unix.Gettid()
			<-end
		}()
		if n := <-id; n != unix.Getpid() {
			return n
		}
	}
}

// TestManyReady has many queue pairs of one process send to another by one doorbell: their WQEs are read together, and
// their completions written together. One whose queue cannot be read must not hold up the others.
func TestManyReady(t *testing.T) {
	for _, tt := range []struct{ bad, size int }{{-1, 100}, {0, 100}, {7, 100}, {19, 100}, {-1, 0}, {7, 0}} {
		bad, size := tt.bad, tt.size
		r := newRig(t, "mlx5_0", 0)
		r.e.c.Turn, r.e.c.Batch = time.Minute, 8 // all in one turn, and not in one batch
		a, b := r.node(0), r.nodeOf(0, otherThread(t))
		acq, bcq := a.cq(64, 64), b.cq(64, 64)
		ma, mb := a.mr(1<<16, anyAccess), b.mr(1<<16, anyAccess)
		fill(ma.buf, byte(bad))
		const pairs, each = 20, 2
		var qs [pairs]*qp
		for i := range qs {
			qs[i] = a.qp(acq, acq, qpOpts{})
			peer := b.qp(bcq, bcq, qpOpts{})
			connect(defaults(), qs[i], peer)
			for k := range each {
				at := size * (i*each + k)
				peer.recv(mb.sge(at, 100))
				if size == 0 {
					qs[i].post(opSend, signaled, 0)
					continue
				}
				qs[i].post(opSend, signaled, 0, ma.sge(at, size))
			}
		}
		r.settle()
		if bad < 0 { // its event writes what was postponed
			acq.arm(false)
			r.settle()
		}
		for i, q := range qs {
			if i == bad {
				q.q.SQ.Base = 64
			}
			q.ring()
		}
		r.e.turn()
		first := acq.q
		if size == 0 { // the responder's are not written with data
			first = bcq.q
		}
		if bad < 0 && r.e.sends.ahead.list[aheadQPs-1].n == 0 || r.e.comps.later[:1][0].cq != first {
			t.Fatalf("bad %d, %d bytes: nothing was read ahead or postponed: the test tells nothing", bad, size)
		}
		if len(r.e.comps.later) != 0 {
			t.Errorf("bad %d: %d completions are not written after the turn", bad, len(r.e.comps.later))
		}
		want := pairs * each
		if bad >= 0 {
			want -= each
		}
		seen := map[uint32]int{}
		for range want {
			c := acq.want(cqeReq, size)
			seen[c.qpn()]++
			bcq.want(cqeRespSend, size)
		}
		bcq.none()
		for i, q := range qs {
			n, at := each, size*each*i
			if i == bad {
				n = 0
			}
			if seen[q.q.Num] != n {
				t.Errorf("bad %d: QP %d has %d completions, want %d", bad, i, seen[q.q.Num], n)
			}
			same := string(ma.buf[at:at+size*each]) == string(mb.buf[at:at+size*each])
			if same != (n > 0 || size == 0) {
				t.Errorf("bad %d: QP %d: the data is there: %v", bad, i, same)
			}
		}
		if bad < 0 {
			r.clean()
		}
	}
}
