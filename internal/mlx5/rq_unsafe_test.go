package mlx5_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pureverbs/pureverbs/internal/mlx5"
)

const end = "00000000 00000100 0000000000000000 // the end of the list\n"

func newRQ(t testing.TB, wqes, stride, maxSGE int) (*device, *mlx5.QP, *mlx5.CQ) {
	t.Helper()
	d := newDevice(t, size{rqWQEs: wqes, rqStride: stride, cqes: 2 * wqes, cqeSize: 64})
	q := mlx5.NewQP(qpn, true, nil, d.rqConfig(stride, maxSGE), nil)
	tab := new(mlx5.Table)
	tab.Add(q)
	return d, q, d.newCQ(tab)
}

func recvs(id, n int) []mlx5.RecvWR {
	wrs := make([]mlx5.RecvWR, n)
	for i := range wrs {
		wrs[i] = mlx5.RecvWR{ID: uint64(id + i), SGEs: []mlx5.SGE{*local}}
	}
	return wrs
}

func TestRecvWQE(t *testing.T) {
	l, e := *local, *empty
	for _, c := range []struct {
		name   string
		stride int
		sges   []mlx5.SGE
		want   string
	}{
		{"one, no room for more", 16, []mlx5.SGE{l}, data},
		{"one", 32, []mlx5.SGE{l}, data + end},
		{"none", 16, nil, end},
		{"none of four", 64, nil, end},
		{"two of four", 64, []mlx5.SGE{l, l}, data + data + end},
		{"four of four", 64, []mlx5.SGE{l, l, l, l}, data + data + data + data},
		{"an empty one", 16, []mlx5.SGE{e}, end},
		{"empty ones between", 64, []mlx5.SGE{e, l, e, l}, data + data + end},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, q, _ := newRQ(t, 4, c.stride, c.stride/16)
			fill(d.rq)
			if n := q.RQ.Post([]mlx5.RecvWR{{ID: 1, SGEs: c.sges}}); n != 1 {
				t.Fatal(n)
			}
			want := fill(make([]byte, len(d.rq)))
			copy(want, parse(t, c.want))
			same(t, "ring", d.rq, want)
			if d.recvRecord() != 1 {
				t.Errorf("doorbell record %d", d.recvRecord())
			}
		})
	}
}

// fill makes bytes ones that an older WQE could have left.
func fill(b []byte) []byte {
	copy(b, bytes.Repeat([]byte{0xee}, len(b)))
	return b
}

// A queue is full at its number of WQEs exactly, WRs complete in their order, and the doorbell record has 16 bits.
func TestRecvFullAndWraps(t *testing.T) {
	const wqes = 8
	d, q, cq := newRQ(t, wqes, 32, 2)
	posted, done := 0, 0
	check := func() {
		t.Helper()
		if got := d.recvRecord(); got != uint16(posted) {
			t.Fatalf("doorbell record %d after %d receives", got, posted)
		}
	}
	for lap := 0; posted < 70000; lap++ {
		k := 1 + lap*7%(2*wqes)
		n := q.RQ.Post(recvs(posted, k))
		if want := min(k, wqes-(posted-done)); n != want {
			t.Fatalf("lap %d: took %d of %d with %d posted, want %d", lap, n, k, posted-done, want)
		}
		posted += n
		check()
		if q.RQ.Post(nil) != 0 {
			t.Fatal("posted nothing, took something")
		}
		if lap%11 == 0 {
			if n := q.RQ.Post(recvs(posted, wqes)); n != wqes-(posted-done) {
				t.Fatalf("took %d more", n)
			}
			posted = done + wqes
			check()
		}
		free := 1 + lap*5%(posted-done)
		for i := range free {
			d.got(qpn, uint16(done+i), 7)
		}
		for i, wc := range poll(t, cq, free) {
			if wc.ID != uint64(done+i) || wc.QPN != qpn || wc.Status != 0 || wc.ByteLen != 7 {
				t.Fatalf("completion of receive %d: %+v", done+i, wc)
			}
		}
		done += free
	}
}

func TestRecvTooManySGEs(t *testing.T) {
	d, q, _ := newRQ(t, 8, 64, 3)
	wrs := recvs(1, 3)
	wrs[1].SGEs = make([]mlx5.SGE, 4)
	if n := q.RQ.Post(wrs); n != 1 || d.recvRecord() != 1 {
		t.Errorf("took %d, record %d, want 1: what is before the bad one", n, d.recvRecord())
	}
	if n := q.RQ.Post(wrs[1:]); n != 0 || d.recvRecord() != 1 {
		t.Errorf("took %d, record %d, want none more", n, d.recvRecord())
	}
}

// A QP in error gives its receives back, in order.
func TestRecvFlush(t *testing.T) {
	d, q, cq := newRQ(t, 8, 16, 1)
	q.RQ.Post(recvs(10, 8))
	d.got(qpn, 0, 1)
	d.put(cqe{op: 14, qpn: qpn, counter: 1, syndrome: 0x01, vendor: 0x6a})
	for i := 2; i < 8; i++ {
		d.put(cqe{op: 14, qpn: qpn, counter: uint16(i), syndrome: 0x05, vendor: 0xf9})
	}
	for i, wc := range poll(t, cq, 8) {
		status, vendor := uint32(5), uint32(0xf9)
		switch i {
		case 0:
			status, vendor = 0, 0
		case 1:
			status, vendor = 1, 0x6a
		}
		if wc.ID != uint64(10+i) || wc.Status != status || wc.VendorErr != vendor || wc.QPN != qpn {
			t.Errorf("completion %d: %+v", i, wc)
		}
	}
	if n := q.RQ.Post(recvs(20, 9)); n != 8 {
		t.Errorf("took %d receives after the flush, want 8", n)
	}
}

// An adapter that takes packets out of order uses receives in any order. Each completion has the id and the memory of
// its own WQE, and no WQE is overwritten before it and all older ones have completed.
func TestRecvAnyOrder(t *testing.T) {
	const wqes, room = 16, 64
	mem := alloc(t, wqes*room)
	d, q, cq := newRQ(t, wqes, 16, 1)
	r := rand.New(rand.NewPCG(1, 2))
	posted, oldest := 0, 0
	var open []int // receives that have not completed
	for step := range 20000 {
		wrs := make([]mlx5.RecvWR, r.IntN(wqes+2))
		for i := range wrs {
			at := (posted + i) % wqes * room
			wrs[i] = mlx5.RecvWR{ID: uint64(posted + i),
				SGEs: []mlx5.SGE{{Addr: addr(mem[at:]), Length: room, LKey: 1}}}
		}
		n := q.RQ.Post(wrs)
		if want := min(len(wrs), wqes-(posted-oldest)); n != want {
			t.Fatalf("step %d: took %d of %d with %d to %d posted, want %d", step, n, len(wrs), oldest, posted, want)
		}
		for range n {
			open = append(open, posted)
			posted++
		}
		if step/100%3 > 0 { // else in order, as a rule
			r.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
		}
		k := r.IntN(len(open) + 1)
		for i, id := range open[:k] {
			c := cqe{op: 2, qpn: qpn, counter: uint16(id), bytes: 20}
			switch (id + i) % 4 {
			case 0:
				c.format, c.data = 1, bytes.Repeat([]byte{byte(id)}, 32)
				clear(mem[id%wqes*room:][:room])
			case 1:
				c.op, c.syndrome = 14, 5
			}
			d.put(c)
		}
		for i, wc := range poll(t, cq, k) {
			id := open[i]
			if want := map[bool]uint32{true: 5}[(id+i)%4 == 1]; wc.ID != uint64(id) || wc.Status != want {
				t.Fatalf("step %d: completion %d is %+v, want receive %d, status %d", step, i, wc, id, want)
			}
			if b := mem[id%wqes*room:][:21]; (id+i)%4 == 0 && (b[0] != byte(id) || b[19] != byte(id) || b[20] != 0) {
				t.Fatalf("step %d: receive %d has % x", step, id, b)
			}
		}
		if open = open[k:]; !slices.IsSorted(open) {
			slices.Sort(open)
		}
		if oldest = posted; len(open) > 0 {
			oldest = open[0]
		}
		for _, x := range q.RQ.Last(wqes) {
			if pending := slices.Contains(open, int(x.ID)); pending != (x.Outcome == mlx5.Pending) {
				t.Fatalf("step %d: receive %d: outcome %d", step, x.ID, x.Outcome)
			}
		}
	}
	if posted < 70000 || q.Broken() {
		t.Fatal(posted, q.Broken())
	}
}

// After RESET both queues begin at 0 again.
func TestReset(t *testing.T) {
	d := newDevice(t, size{blocks: 8, rqWQEs: 8, rqStride: 16, cqes: 32, cqeSize: 64})
	q := mlx5.NewQP(qpn, true, d.sqConfig(), d.rqConfig(16, 1), nil)
	tab := new(mlx5.Table)
	tab.Add(q)
	cq := d.newCQ(tab)
	for lap := range 5 {
		q.SQ.LocalInv(1, 0, 1) // 2 blocks; the next has a small fence
		for i := range 3 {
			q.SQ.Send(uint64(i), wrSend, signaled, 0, local)
		}
		q.SQ.Ring()
		q.RQ.Post(recvs(0, 5))
		d.sent(qpn, 0x0a, 2)
		d.got(qpn, 0, 0)
		d.put(cqe{op: 13, qpn: qpn, counter: 3, syndrome: 0x05})
		if lap%2 == 0 {
			poll(t, cq, 3)
		}
		q.SQ.LocalInv(1, 0, 1)
		cq.Purge(q)
		q.Reset()
		clear(d.db) // the device's part, by libmlx5
		poll(t, cq, 0)
		if got := q.SQ.Outstanding(); got != 0 {
			t.Fatalf("%d outstanding", got)
		}
		q.SQ.Ring()
		if d.sendRecord() != 0 {
			t.Fatal("what was built before the reset was rung after it")
		}
		if n := fits(func() bool { return q.SQ.Send(1, wrSend, 0, 0, local) }); n != 8 {
			t.Fatalf("%d sends fit, want 8", n)
		}
		same(t, "first wqe", d.sq[:16], parse(t, "0000000a abcd1202 00000000 00000000"))
		q.SQ.Ring()
		if n := q.RQ.Post(recvs(0, 9)); n != 8 || d.recvRecord() != 8 || d.sendRecord() != 8 {
			t.Fatalf("%d receives fit, records %d and %d", n, d.recvRecord(), d.sendRecord())
		}
		cq.Purge(q)
		q.Reset()
		clear(d.db)
	}
	// What was posted before a reset is no WQE that could complete.
	r, other, ocq := newRQ(t, 8, 16, 1)
	other.RQ.Post(recvs(1, 5))
	other.Reset()
	r.got(qpn, 0, 0)
	if _, err := ocq.Poll(make([]mlx5.WC, 1)); err == nil || !other.Broken() {
		t.Errorf("a receive from before the reset: %v", err)
	}
	q.SQ.Send(1, wrSend, signaled, 0, local)
	q.SQ.Ring()
	q.Reset()
	d.sent(qpn, 0x0a, 0)
	if _, err := cq.Poll(make([]mlx5.WC, 1)); err == nil || !q.Broken() {
		t.Errorf("a completion from before the reset: %v", err)
	}
}

func TestRecvCorrupt(t *testing.T) {
	for _, counter := range []uint16{4, 7, 0xffff} {
		t.Run(fmt.Sprint(counter), func(t *testing.T) {
			d, q, cq := newRQ(t, 8, 16, 1)
			q.RQ.Post(recvs(0, 4))
			d.got(qpn, counter, 1)
			if n, err := cq.Poll(make([]mlx5.WC, 4)); n != 0 || err == nil || !q.Broken() {
				t.Errorf("%d completions, error %v, broken %v", n, err, q.Broken())
			}
		})
	}
	t.Run("twice", func(t *testing.T) {
		d, q, cq := newRQ(t, 8, 16, 1)
		q.RQ.Post(recvs(0, 8))
		d.got(qpn, 2, 1)
		poll(t, cq, 1)
		d.got(qpn, 2, 1)
		if n, err := cq.Poll(make([]mlx5.WC, 4)); n != 0 || err == nil || !q.Broken() {
			t.Errorf("%d completions, error %v, broken %v", n, err, q.Broken())
		}
	})
	t.Run("none posted", func(t *testing.T) {
		d, q, cq := newRQ(t, 8, 16, 1)
		d.got(qpn, 0, 1)
		if n, err := cq.Poll(make([]mlx5.WC, 4)); n != 0 || err == nil || !q.Broken() {
			t.Errorf("%d completions, error %v, broken %v", n, err, q.Broken())
		}
	})
}
