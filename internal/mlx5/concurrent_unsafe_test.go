package mlx5_test

import (
	"encoding/binary"
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mlx5"
)

// One goroutine posts, another is the device and polls: nothing is lost, torn or overwritten, on queues so small that
// they are mostly full.
func TestPostWhilePolling(t *testing.T) {
	const total, wqes = 20000, 8
	d := newDevice(t, size{blocks: wqes, rqWQEs: wqes, rqStride: 16, cqes: 4 * wqes, cqeSize: 64})
	q := mlx5.NewQP(qpn, true, d.sqConfig(), d.rqConfig(16, 1), nil)
	tab := new(mlx5.Table)
	tab.Add(q)
	cq := d.newCQ(tab)
	var failed atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		sends, recvs := uint64(0), uint64(0)
		wrs := make([]mlx5.SendWR, 5)
		for (sends < total || recvs < total) && !failed.Load() {
			switch n := 0; sends / 7 % 3 {
			case 0:
				if q.SQ.RDMA(sends, wrWrite, 0, 0, &mlx5.RemoteAddr{Addr: sends, RKey: 1}, local) {
					sends++
				}
				q.SQ.Ring()
			case 1:
				if wr := (mlx5.SendWR{ID: sends, SGEs: []mlx5.SGE{*local}, Remote: mlx5.RemoteAddr{Addr: sends}}); q.SQ.
					PostOne(&wr, simpleOps, 0) {
					sends++
				}
			case 2:
				for i := range wrs {
					wrs[i] = mlx5.SendWR{ID: sends + uint64(i), SGEs: []mlx5.SGE{*local},
						Remote: mlx5.RemoteAddr{Addr: sends + uint64(i)}}
				}
				n = q.SQ.BuildOf(wrs, simpleOps, 0)
				q.SQ.Ring()
				sends += uint64(n)
			}
			wr := []mlx5.RecvWR{{ID: recvs, SGEs: []mlx5.SGE{{Addr: recvs, Length: 1}}},
				{ID: recvs + 1, SGEs: []mlx5.SGE{{Addr: recvs + 1, Length: 1}}}}
			recvs += uint64(q.RQ.Post(wr))
			runtime.Gosched()
		}
	}()
	record := func(b []byte) uint16 { // as a device reads it
		return uint16(binary.BigEndian.Uint32(binary.NativeEndian.AppendUint32(nil,
			atomic.LoadUint32((*uint32)(unsafe.Pointer(&b[0]))))))
	}
	sent, got := uint64(0), uint64(0) // by the device
	wcs := make([]mlx5.WC, 3*wqes)
	fail := func(format string, args ...any) {
		failed.Store(true)
		<-done
		t.Fatalf(format, args...)
	}
	for round := 0; sent < total || got < total; round++ {
		var want []uint64
		if n := uint64(record(d.db[4:]) - uint16(sent)); n > wqes {
			fail("the send record is %d after %d", record(d.db[4:]), sent)
		} else if n > 0 {
			n = 1 + uint64(round)%n // an unsignaled one, or more, before the one that completes
			for i := range n {
				w := d.sq[(sent+i)%wqes*64:]
				if id := binary.BigEndian.Uint64(w[16:]); id != sent+i ||
					binary.BigEndian.Uint32(w) != uint32(sent+i)&0xffff<<8|8 {
					fail("wqe %d is %x", sent+i, w[:48])
				}
			}
			sent += n
			d.sent(qpn, 0x08, uint16(sent-1))
			want = append(want, sent-1)
		}
		if n := uint64(record(d.db) - uint16(got)); n > wqes {
			fail("the receive record is %d after %d", record(d.db), got)
		} else {
			for range n {
				w := d.rq[got%wqes*16:]
				if id := binary.BigEndian.Uint64(w[8:]); id != got {
					fail("receive %d is %x", got, w[:16])
				}
				d.got(qpn, uint16(got), 1)
				want = append(want, got)
				got++
			}
		}
		n, err := cq.Poll(wcs)
		if n != len(want) || err != nil {
			fail("%d completions, want %d; error %v", n, len(want), err)
		}
		for i, wc := range wcs[:n] {
			if wc.ID != want[i] {
				fail("completion of %d, want %d", wc.ID, want[i])
			}
		}
		if n == 0 {
			runtime.Gosched()
		}
	}
	failed.Store(true) // the poster has posted more than was asked for
	<-done
}
