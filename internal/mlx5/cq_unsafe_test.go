package mlx5_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/spin"
)

// newPair returns a QP with queues of 16 and a CQ.
func newPair(t testing.TB, cqes, cqeSize int) (*device, *mlx5.QP, *mlx5.CQ) {
	t.Helper()
	d := newDevice(t, size{blocks: 16, rqWQEs: 16, rqStride: 64, cqes: cqes, cqeSize: cqeSize})
	q := mlx5.NewQP(qpn, true, d.sqConfig(), d.rqConfig(64, 4), nil)
	d.tab = new(mlx5.Table)
	d.tab.Add(q)
	return d, q, d.newCQ(d.tab)
}

// Completions of sends: which fields of the CQE count for each opcode.
func TestSent(t *testing.T) {
	for _, size := range []int{64, 128} {
		d, q, cq := newPair(t, 64, size)
		for i, c := range []struct {
			op    byte
			bytes uint32
			want  mlx5.WC
		}{
			{0x08, 7, mlx5.WC{Opcode: 1}},
			{0x09, 7, mlx5.WC{Opcode: 1, Flags: 2}}, // libmlx5 also sets IBV_WC_WITH_IMM here
			{0x0a, 7, mlx5.WC{Opcode: 0}},
			{0x0b, 7, mlx5.WC{Opcode: 0, Flags: 2}},
			{0x01, 7, mlx5.WC{Opcode: 0}},
			{0x10, 7, mlx5.WC{Opcode: 2, ByteLen: 7}},
			{0x10, 1 << 31, mlx5.WC{Opcode: 2, ByteLen: 1 << 31}},
			{0x11, 7, mlx5.WC{Opcode: 3, ByteLen: 8}},
			{0x12, 7, mlx5.WC{Opcode: 4, ByteLen: 8}},
			{0x25, 7, mlx5.WC{Opcode: 6}},
		} {
			if !q.SQ.Send(uint64(1000+i), wrSend, signaled, 0, local) {
				t.Fatal("full")
			}
			q.SQ.Ring()
			// Everything that is no field of such an entry holds something.
			d.put(cqe{sendOp: c.op, qpn: qpn, counter: uint16(i), bytes: c.bytes, imm: 0xffffffff, slid: 0xffff,
				rqpn: 0xffffffff, path: 0xff, ts: 0x0123456789abcdef + uint64(i)})
			c.want.ID, c.want.QPN, c.want.Timestamp = uint64(1000+i), qpn, 0x0123456789abcdef+uint64(i)
			if got := poll(t, cq, 1)[0]; got != c.want {
				t.Errorf("%d-byte entry, opcode %#x:\n got %+v\nwant %+v", size, c.op, got, c.want)
			}
		}
	}
}

// Completions of receives.
func TestReceived(t *testing.T) {
	const rqpn = 0x5<<24 | 0x123456 // SL 5
	for _, size := range []int{64, 128} {
		for i, c := range []struct {
			name string
			cqe  cqe
			want mlx5.WC
		}{
			{"send", cqe{op: 2, bytes: 100}, mlx5.WC{Opcode: 128, ByteLen: 100}},
			{"send with immediate", cqe{op: 3, bytes: 1, imm: 0xcafe0123}, mlx5.WC{Opcode: 128, ByteLen: 1, Flags: 2,
				Imm: 0xcafe0123, PKeyIndex: 0x0123}},
			{"send with invalidate", cqe{op: 4, imm: 0x99aabbcc}, mlx5.WC{Opcode: 128, Flags: 8,
				InvalidatedRKey: 0x99aabbcc, PKeyIndex: 0xbbcc}},
			{"write with immediate", cqe{op: 1, bytes: 1 << 31, imm: 1}, mlx5.WC{Opcode: 129, ByteLen: 1 << 31,
				Flags: 2, Imm: 1, PKeyIndex: 1}},
			{"datagram", cqe{op: 2, bytes: 140, imm: 0xffff0007, slid: 0xfedc, rqpn: 1<<28 | rqpn, path: 0x8d},
				mlx5.WC{Opcode: 128, ByteLen: 140, Flags: 1, PKeyIndex: 7, SLID: 0xfedc, SL: 5, SrcQPN: 0x123456,
					DLIDPathBits: 0x0d}},
			{"datagram with immediate, IPv4", cqe{op: 3, bytes: 41, imm: 9, rqpn: 2<<28 | rqpn},
				mlx5.WC{Opcode: 128, ByteLen: 41, Flags: 3, Imm: 9, PKeyIndex: 9, SL: 5, SrcQPN: 0x123456}},
			{"datagram, IPv6", cqe{op: 2, rqpn: 3<<28 | 0xffffff}, mlx5.WC{Opcode: 128, Flags: 1, SrcQPN: 0xffffff}},
			{"datagram, no GRH", cqe{op: 2, rqpn: 0xcf<<24 | 1}, mlx5.WC{Opcode: 128, SL: 15, SrcQPN: 1}},
		} {
			for _, srq := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/srq=%v", c.name, size, srq), func(t *testing.T) {
					d, q, cq := newPair(t, 16, size)
					post := q.RQ.Post
					if srq {
						d = newDevice(t, sizeOf(16, size))
						s := d.newSRQ(32, 1, new(spin.Lock))
						q = mlx5.NewQP(qpn, true, nil, nil, s)
						tab := new(mlx5.Table)
						tab.Add(q)
						cq = d.newCQ(tab)
						post = s.Post
					}
					if post(recvs(77+i, 1)) != 1 {
						t.Fatal("full")
					}
					c.cqe.qpn, c.cqe.ts = qpn, 1<<63+1
					d.put(c.cqe)
					want := c.want
					want.ID, want.QPN, want.Timestamp = uint64(77+i), qpn, 1<<63+1
					if got := poll(t, cq, 1)[0]; got != want {
						t.Errorf("\n got %+v\nwant %+v", got, want)
					}
				})
			}
		}
	}
}

func sizeOf(cqes, cqeSize int) size {
	return size{srqWQEs: 16, srqStride: 32, cqes: cqes, cqeSize: cqeSize}
}

// The syndromes of the PRM and their statuses in verbs; <infiniband/verbs.h>, enum ibv_wc_status.
func TestFailed(t *testing.T) {
	status := map[byte]uint32{1: 1, 2: 2, 4: 4, 5: 5, 6: 6, 0x10: 7, 0x11: 8, 0x12: 9, 0x13: 10, 0x14: 11, 0x15: 12,
		0x16: 13, 0x22: 16}
	for _, srq := range []bool{false, true} {
		d := newDevice(t, size{blocks: 16, rqWQEs: 16, rqStride: 16, srqWQEs: 16, srqStride: 32, cqes: 16, cqeSize: 64})
		var s *mlx5.SRQ
		rq := d.rqConfig(16, 1)
		if srq {
			s, rq = d.newSRQ(32, 1, new(spin.Lock)), nil
		}
		q := mlx5.NewQP(qpn, true, d.sqConfig(), rq, s)
		tab := new(mlx5.Table)
		tab.Add(q)
		cq := d.newCQ(tab)
		hw := &sharedRQ{d: d, stride: 32}
		for i := range 256 {
			want := mlx5.WC{ID: uint64(i), QPN: qpn, Status: 21, VendorErr: uint32(i ^ 0x5a)}
			if v, ok := status[byte(i)]; ok {
				want.Status = v
			}
			q.SQ.Send(uint64(i), wrSend, 0, 0, local) // an error needs no signal
			q.SQ.Ring()
			d.put(cqe{op: 13, sendOp: 0x0a, qpn: qpn, counter: uint16(i), syndrome: byte(i),
				vendor: byte(want.VendorErr)})
			at := i
			if srq {
				s.Post(recvs(i, 1))
				at, _ = hw.next()
			} else {
				q.RQ.Post(recvs(i, 1))
			}
			d.put(cqe{op: 14, qpn: qpn, counter: uint16(at), syndrome: byte(i), vendor: byte(want.VendorErr)})
			for k, got := range poll(t, cq, 2) {
				if got != want {
					t.Fatalf("srq=%v, syndrome %#x, completion %d:\n got %+v\nwant %+v", srq, i, k, got, want)
				}
			}
		}
	}
}

// A send queue in error completes the work request that failed, then each one after it, signaled or not. Each
// completion frees its blocks.
func TestSendFlush(t *testing.T) {
	d, q, cq := newPair(t, 64, 64)
	at := []uint16{0}
	for i := range 10 {
		if i%3 == 2 { // two blocks
			inline(&q.SQ, wrSend, nil, 60)
		} else {
			q.SQ.Send(uint64(i), wrSend, uint32(i%2)*signaled, 0, local)
		}
		q.SQ.Ring()
		at = append(at, d.sendRecord())
	}
	d.sent(qpn, 0x0a, at[1])
	d.put(cqe{op: 13, qpn: qpn, counter: at[3], syndrome: 0x13, vendor: 0x88})
	for _, c := range at[4:10] {
		d.put(cqe{op: 13, qpn: qpn, counter: c, syndrome: 0x05, vendor: 0xf9})
	}
	for i, wc := range poll(t, cq, 8) {
		id, status := uint64(i+2), uint32(5)
		if id%3 == 2 {
			id = 1 // what inline gives
		}
		switch i {
		case 0:
			id, status = 1, 0
		case 1:
			id, status = 3, 10
		}
		if wc.ID != id || wc.Status != status {
			t.Errorf("completion %d: %+v, want id %d, status %d", i, wc, id, status)
		}
	}
	if n := fits(func() bool { return q.SQ.Send(0, wrSend, 0, 0, local) }); n != 16 || q.SQ.Outstanding() != 16 {
		t.Errorf("%d sends fit, want 16", n)
	}
}

// The owner bit flips with each lap.
func TestOwner(t *testing.T) {
	for _, size := range []int{64, 128} {
		for _, entries := range []int{1, 2, 16} {
			t.Run(fmt.Sprintf("%d/%d", size, entries), func(t *testing.T) {
				d, q, cq := newPair(t, entries, size)
				poll(t, cq, 0)
				done := 0
				for lap := range 200 {
					k := 1 + lap%min(entries, 16)
					for range k {
						q.SQ.Send(uint64(done), wrSend, signaled, 0, local)
						d.sent(qpn, 0x0a, uint16(done))
						done++
					}
					q.SQ.Ring()
					for i, wc := range poll(t, cq, k) {
						if wc.ID != uint64(done-k+i) {
							t.Fatalf("id %d", wc.ID)
						}
					}
					if d.consumed() != uint32(done) {
						t.Fatalf("consumer index %d, want %d", d.consumed(), done)
					}
				}
			})
		}
	}
}

// A poll consumes no more entries than it was asked for, and publishes the consumer index once.
func TestPollBatch(t *testing.T) {
	d, q, cq := newPair(t, 16, 64)
	if !cq.Empty() {
		t.Error("not empty")
	}
	for i := range 10 {
		q.SQ.Send(uint64(i), wrSend, signaled, 0, local)
		d.sent(qpn, 0x0a, uint16(i))
	}
	if n, err := cq.Poll(nil); n != 0 || err != nil || d.consumed() != 0 {
		t.Error(n, err, d.consumed())
	}
	wcs := make([]mlx5.WC, 4)
	for _, want := range []int{4, 4, 2, 0} {
		if cq.Empty() != (want == 0) {
			t.Errorf("empty: %v, with %d to come", cq.Empty(), want)
		}
		n, err := cq.Poll(wcs)
		if n != want || err != nil {
			t.Errorf("%d completions, want %d; error %v", n, want, err)
		}
	}
	if d.consumed() != 10 {
		t.Error(d.consumed())
	}
}

// Arming writes the record and the register, which the PRM calls a CQ doorbell, with the number of events read.
func TestArm(t *testing.T) {
	d, q, cq := newPair(t, 16, 64)
	for i, c := range []struct {
		solicited bool
		events    int
		polled    int
		want      string
	}{
		{false, 0, 0, "00000000"},
		{true, 0, 0, "01000000"},
		{false, 1, 3, "10000003"},
		{true, 0, 0, "11000003"},
		{true, 2, 2, "31000005"},
		{false, 1, 0, "00000005"}, // two bits count
		{false, 6, 1, "20000006"},
	} {
		for range c.events {
			cq.Event()
		}
		for range c.polled {
			at := d.sendRecord()
			q.SQ.Send(1, wrSend, signaled, 0, local)
			q.SQ.Ring()
			d.sent(qpn, 0x0a, at)
		}
		poll(t, cq, c.polled)
		clear(d.uar)
		cq.Arm(c.solicited)
		want := parse(t, c.want)
		same(t, fmt.Sprintf("%d: record", i), d.cqdb[4:], want)
		reg := make([]byte, 4096)
		copy(reg[0x20:], append(want, 0, 0xab, 0xcd, 0xef))
		same(t, fmt.Sprintf("%d: register", i), d.uar[:0x40], reg[:0x40])
		if d.consumed() != binary.BigEndian.Uint32(want)&0xffffff {
			t.Errorf("%d: the consumer index %d changed", i, d.consumed())
		}
	}
}

// Payload in the CQE is copied to the memory of the receive.
func TestScatterReceive(t *testing.T) {
	mem := alloc(t, 4096)
	for _, c := range []struct {
		name    string
		size    int
		format  byte
		lengths []uint32 // of the SGEs
		n       int      // bytes that came
		status  uint32
	}{
		{"nothing", 64, 1, []uint32{8}, 0, 0},
		{"two bytes", 64, 1, []uint32{2}, 2, 0},
		{"seven bytes of eight", 64, 1, []uint32{8}, 7, 0},
		{"eight bytes", 64, 1, []uint32{8}, 8, 0},
		{"nine bytes", 64, 1, []uint32{9}, 9, 0},
		{"15 bytes", 64, 1, []uint32{100}, 15, 0},
		{"31 bytes", 64, 1, []uint32{31}, 31, 0},
		{"9 bytes in two", 64, 1, []uint32{8, 1}, 9, 0},
		{"too long by one, ten", 64, 1, []uint32{9}, 10, 1},
		{"one SGE", 64, 1, []uint32{100}, 32, 0},
		{"exact", 64, 1, []uint32{32}, 32, 0},
		{"one byte", 64, 1, []uint32{1}, 1, 0},
		{"three SGEs", 64, 1, []uint32{5, 7, 100}, 32, 0},
		{"too long by one", 64, 1, []uint32{31}, 32, 1},
		{"too long for three", 64, 1, []uint32{5, 7, 19}, 32, 1},
		{"nowhere to go", 64, 1, nil, 1, 1},
		{"more than an entry carries", 64, 1, []uint32{100}, 33, 1},
		{"much more than an entry carries", 64, 1, []uint32{100}, 1 << 31, 1},
		{"32 of 128", 128, 1, []uint32{100}, 32, 0},
		{"64 of 128", 128, 2, []uint32{100}, 64, 0},
		{"64 of 128, four SGEs", 128, 2, []uint32{1, 2, 3, 58}, 64, 0},
		{"65 of 128", 128, 2, []uint32{100}, 65, 1},
	} {
		for k := range 4 { // with an SRQ or without, and after another receive, which is another path
			srq, after := k&1 != 0, k&2 != 0
			t.Run(fmt.Sprintf("%s/srq=%v/after=%v", c.name, srq, after), func(t *testing.T) {
				fill(mem)
				d := newDevice(t, size{rqWQEs: 4, rqStride: 64, srqWQEs: 4, srqStride: 128, cqes: 4, cqeSize: c.size})
				var s *mlx5.SRQ
				rq := d.rqConfig(64, 4)
				if srq {
					s, rq = d.newSRQ(128, 7, new(spin.Lock)), nil
				}
				q := mlx5.NewQP(qpn, true, nil, rq, s)
				tab := new(mlx5.Table)
				tab.Add(q)
				cq := d.newCQ(tab)
				wr := []mlx5.RecvWR{{ID: 5}}
				var places [][]byte
				for i, n := range c.lengths {
					p := mem[i*1000+8:][:n]
					places = append(places, p)
					wr[0].SGEs = append(wr[0].SGEs, mlx5.SGE{Addr: addr(p), Length: n, LKey: 9})
				}
				post := q.RQ.Post
				if srq {
					post = s.Post
				}
				at := uint16(0)
				if after {
					post(recvs(4, 1))
					d.got(qpn, 0, 1)
					poll(t, cq, 1)
					at++
				}
				if post(wr) != 1 {
					t.Fatal("full")
				}
				payload := counted(64)
				d.put(cqe{op: 2, qpn: qpn, counter: at, bytes: uint32(c.n), format: c.format, data: payload})
				wc := poll(t, cq, 1)[0]
				if wc.ID != 5 || wc.Status != c.status || wc.ByteLen != uint32(c.n) {
					t.Errorf("%+v, want status %d", wc, c.status)
				}
				var got []byte
				for _, p := range places {
					got = append(got, p...)
				}
				if c.status == 0 {
					same(t, "payload", got[:c.n], payload[:c.n])
					same(t, "the bytes behind", got[c.n:], fill(make([]byte, len(got)-c.n)))
				}
				for i, p := range places {
					if before, behind := mem[i*1000+7], mem[i*1000+8+len(p)]; before != 0xee || behind != 0xee {
						t.Errorf("SGE %d: bytes around it were written", i)
					}
				}
			})
		}
	}
}

// Results of small reads and atomics arrive in the CQE on a QP that signals all, also where the WQE wraps around the
// end of the ring.
func TestScatterSend(t *testing.T) {
	mem := alloc(t, 4096)
	sge := func(off, n int) mlx5.SGE { return mlx5.SGE{Addr: addr(mem[off:]), Length: uint32(n), LKey: 3} }
	atomic := func(op uint32) func(q *mlx5.SQ) {
		return func(q *mlx5.SQ) {
			q.Begin(op, signaled, 0, 3)
			q.Remote(1, 2)
			q.Atomic(3, 4)
			s := sge(8, 100) // the device writes 8 bytes only
			q.Data(&s)
			q.Commit(1)
		}
	}
	read := func(sges ...mlx5.SGE) func(q *mlx5.SQ) {
		return func(q *mlx5.SQ) {
			q.Begin(wrRead, signaled, 0, 1+len(sges))
			q.Remote(1, 2)
			for i := range sges {
				q.Data(&sges[i])
			}
			q.Commit(1)
		}
	}
	for _, c := range []struct {
		name   string
		build  func(q *mlx5.SQ)
		op     byte
		size   int
		format byte
		n      int
		status uint32
		places [][2]int // offset, length
	}{
		{"compare and swap", atomic(wrCS), 0x11, 64, 1, 8, 0, [][2]int{{8, 8}}},
		{"fetch and add, 64 bytes of room", atomic(wrFA), 0x12, 128, 2, 8, 0, [][2]int{{8, 8}}},
		{"read", read(sge(8, 32)), 0x10, 64, 1, 32, 0, [][2]int{{8, 32}}},
		{"read of 64", read(sge(8, 64)), 0x10, 128, 2, 64, 0, [][2]int{{8, 64}}},
		{"read into seven", read(sge(8, 1), sge(100, 2), sge(200, 3), sge(300, 4), sge(400, 5), sge(500, 6),
			sge(600, 11)), 0x10, 64, 1, 32, 0,
			[][2]int{{8, 1}, {100, 2}, {200, 3}, {300, 4}, {400, 5}, {500, 6}, {600, 11}}},
		{"read, too long", read(sge(8, 30)), 0x10, 64, 1, 32, 1, nil},
		{"read, longer than an entry carries", read(sge(8, 100)), 0x10, 64, 1, 33, 1, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDevice(t, size{blocks: 4, cqes: 4, cqeSize: c.size})
			q := mlx5.NewQP(qpn, true, d.sqConfig(), nil, nil)
			tab := new(mlx5.Table)
			tab.Add(q)
			cq := d.newCQ(tab)
			for at := range 12 {
				// One block goes ahead, so that the WQE begins everywhere.
				fill(mem)
				at0 := d.sendRecord()
				c.build(&q.SQ)
				q.SQ.Ring()
				payload := counted(64)
				d.put(cqe{op: 0, sendOp: c.op, qpn: qpn, counter: at0, bytes: uint32(c.n), format: c.format,
					data: payload})
				wc := poll(t, cq, 1)[0]
				if wc.ID != 1 || wc.Status != c.status || wc.ByteLen != uint32(c.n) {
					t.Fatalf("%+v, want status %d", wc, c.status)
				}
				if c.status == 0 {
					want := fill(make([]byte, len(mem)))
					for _, p := range c.places {
						payload = payload[copy(want[p[0]:][:p[1]], payload):]
					}
					if !bytes.Equal(mem, want) {
						t.Fatalf("at block %d: memory differs", at0)
					}
				}
				if at%2 == 1 {
					at0 = d.sendRecord()
					q.SQ.Send(2, wrSend, signaled, 0, empty)
					q.SQ.Ring()
					d.sent(qpn, 0x0a, at0)
					poll(t, cq, 1)
				}
			}
		})
	}
}

// Completions find their QPs by number, in any order.
func TestManyQPs(t *testing.T) {
	const qps, rounds = 300, 20
	tab := new(mlx5.Table)
	d := newDevice(t, size{cqes: 1024, cqeSize: 64})
	cq := d.newCQ(tab)
	var all []*mlx5.QP
	for i := range qps {
		r := newDevice(t, size{blocks: 4})
		q := mlx5.NewQP(uint32(i*7919+5)&0xffffff, true, r.sqConfig(), nil, nil)
		tab.Add(q)
		all = append(all, q)
	}
	at := make([]uint16, qps)
	for round := range rounds {
		var want []uint64
		for i := range qps {
			q := (i*37 + round) % qps
			for range i % 3 {
				if !all[q].SQ.Send(uint64(q)<<32|uint64(at[q]), wrSend, signaled, 0, local) {
					t.Fatal("full")
				}
				all[q].SQ.Ring()
				d.sent(all[q].Num, 0x0a, at[q])
				want = append(want, uint64(q)<<32|uint64(at[q]))
				at[q]++
			}
		}
		for i, wc := range poll(t, cq, len(want)) {
			if wc.ID != want[i] || wc.QPN != all[want[i]>>32].Num {
				t.Fatalf("completion %d: %+v, want id %#x", i, wc, want[i])
			}
		}
	}
	// Every QP's room was given back: none was forgotten when the next QP's completion came.
	for i, q := range all {
		if q.SQ.Outstanding() != 0 {
			t.Fatalf("qp %d: %d outstanding", i, q.SQ.Outstanding())
		}
	}
}

// An entry that no device writes gives an error that says where, makes its QP unusable, and leaves the other QPs alone.
func TestCorrupt(t *testing.T) {
	for _, c := range []struct {
		name  string
		cqe   cqe
		size  int
		ud    bool
		recv  bool // a receive comes before it, not a send
		few   bool // of one receive that is posted
		noQP  bool // the error names no QP that is there
		words string
	}{
		{name: "a QP that is not there", cqe: cqe{qpn: 0x777777, sendOp: 0x0a}, noQP: true,
			words: "a QP that is not there"},
		{name: "a send WQE that is not posted", cqe: cqe{sendOp: 0x0a, counter: 5}, words: "not posted"},
		{name: "a send WQE that completed", cqe: cqe{sendOp: 0x0a, counter: 0}, words: "not posted"},
		{name: "a block inside a WQE", cqe: cqe{sendOp: 0x0a, counter: 3}, words: "not posted"},
		{name: "an unknown send opcode", cqe: cqe{sendOp: 0x42, counter: 1}, words: "opcode"},
		{name: "a send opcode of 8 bits", cqe: cqe{sendOp: 0x4a, counter: 1}, words: "opcode"},
		{name: "a no-operation", cqe: cqe{sendOp: 0, counter: 1}, words: "opcode"},
		{name: "an error of a WQE that is not posted", cqe: cqe{op: 13, counter: 9, syndrome: 5}, words: "in error"},
		{name: "an error of a receive that is not posted", cqe: cqe{op: 14, counter: 2, syndrome: 5},
			words: "in error"},
		{name: "a receive that is not posted", cqe: cqe{op: 2, counter: 2}, words: "receive"},
		{name: "resized", cqe: cqe{op: 5}, words: "opcode"},
		{name: "no packet", cqe: cqe{op: 6}, words: "opcode"},
		{name: "opcode 7", cqe: cqe{op: 7}, words: "opcode"},
		{name: "opcode 11", cqe: cqe{op: 11}, words: "opcode"},
		{name: "a wrong signature", cqe: cqe{op: 12}, noQP: true, words: "DataPathOps"},
		{name: "64 bytes in 64", cqe: cqe{op: 2, format: 2, bytes: 4}, words: "payload"},
		{name: "64 bytes of a send in 64", cqe: cqe{sendOp: 0x10, counter: 4, format: 2, bytes: 4}, words: "payload"},
		{name: "64 bytes in 64, after a receive", cqe: cqe{op: 2, counter: 1, format: 2, bytes: 4},
			words: "payload", recv: true},
		{name: "a receive that completed, after a receive", cqe: cqe{op: 2, counter: 0}, words: "receive", recv: true},
		{name: "a receive too many", cqe: cqe{op: 2, counter: 1}, words: "receive", recv: true, few: true},
		{name: "compressed, after a receive", cqe: cqe{op: 3, counter: 1, format: 3, bytes: 4},
			words: "payload", recv: true},
		{name: "opcode 7, after a receive", cqe: cqe{op: 7, counter: 1}, words: "opcode", recv: true},
		{name: "compressed", cqe: cqe{op: 2, format: 3, bytes: 4}, words: "payload"},
		{name: "compressed, 128", cqe: cqe{op: 2, format: 3, bytes: 4}, size: 128, words: "payload"},
		{name: "the payload of a send", cqe: cqe{sendOp: 0x0a, counter: 1, format: 1}, words: "payload"},
		{name: "the payload of a datagram", cqe: cqe{sendOp: 0x10, counter: 4, format: 1}, ud: true, words: "payload"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.size == 0 {
				c.size = 64
			}
			d := newDevice(t, size{blocks: 16, rqWQEs: 4, rqStride: 16, cqes: 16, cqeSize: c.size})
			q := mlx5.NewQP(qpn, !c.ud, d.sqConfig(), d.rqConfig(16, 1), nil)
			r := newDevice(t, size{blocks: 4})
			other := mlx5.NewQP(0x111111, true, r.sqConfig(), nil, nil)
			tab := new(mlx5.Table)
			tab.Add(q)
			tab.Add(other)
			cq := d.newCQ(tab)

			q.SQ.Send(1, wrSend, signaled, 0, local) // block 0, completes
			q.SQ.Send(2, wrSend, signaled, 0, local) // 1
			inline(&q.SQ, wrSend, nil, 60)           // 2, 3
			q.SQ.RDMA(4, wrRead, signaled, 0, remote, local)
			q.SQ.Ring()
			q.RQ.Post(recvs(1, 2))
			if c.few {
				q.Reset()
				q.SQ.Send(1, wrSend, signaled, 0, local)
				q.RQ.Post(recvs(1, 1))
			}
			for i := range 3 {
				other.SQ.Send(uint64(10+i), wrSend, signaled, 0, local)
			}
			other.SQ.Ring()

			d.sent(0x111111, 0x0a, 0)
			if c.recv {
				d.got(qpn, 0, 1)
			} else {
				d.sent(qpn, 0x0a, 0)
			}
			if c.cqe.qpn == 0 {
				c.cqe.qpn = qpn
			}
			d.put(c.cqe)
			d.sent(0x111111, 0x0a, 1)
			d.sent(0x111111, 0x0a, 2)

			// The completions before it come first, then its error, then the completions after it.
			wcs := make([]mlx5.WC, 16)
			n, err := cq.Poll(wcs)
			if n != 2 || err != nil || wcs[0].ID != 10 || wcs[1].ID != 1 {
				t.Fatalf("%d completions, error %v", n, err)
			}
			if cq.Empty() {
				t.Error("empty, though an error is to come")
			}
			n, err = cq.Poll(wcs)
			var e *mlx5.CQEError
			if n != 0 || !errors.As(err, &e) {
				t.Fatalf("%d completions, error %v", n, err)
			}
			if e.CQN != 0xabcdef || e.Index != 2 || e.QPN != c.cqe.qpn || e.Opcode != c.cqe.op ||
				!bytes.Contains([]byte(e.Error()), []byte(c.words)) {
				t.Errorf("%v: %+v", e, *e)
			}
			if q.Broken() == c.noQP || other.Broken() {
				t.Errorf("broken: %v, the other QP: %v", q.Broken(), other.Broken())
			}
			n, err = cq.Poll(wcs)
			if n != 2 || err != nil || wcs[0].ID != 11 || wcs[1].ID != 12 {
				t.Fatalf("%d completions, error %v", n, err)
			}
			if d.consumed() != 5 {
				t.Errorf("consumer index %d", d.consumed())
			}
		})
	}
}

// A QP without a send queue or without a receive queue cannot complete work in it, whatever came before.
func TestCorruptNoQueue(t *testing.T) {
	for _, before := range []byte{15, 0, 2, 14} { // nothing, a send, a receive, an error
		for _, c := range []cqe{{sendOp: 0x0a}, {sendOp: 0x10, bytes: 1, format: 1}, {op: 13, syndrome: 5}, {op: 2},
			{op: 14, syndrome: 5}, {op: 14, syndrome: 0x22, vendor: 0x93}} {
			for _, poll1 := range []bool{false, true} {
				d, other, cq := newPair(t, 4, 64)
				q := mlx5.NewQP(1, true, nil, nil, nil)
				d.tab.Add(q)
				other.SQ.Send(1, wrSend, signaled, 0, local)
				other.RQ.Post(recvs(1, 1))
				n := 0
				if before != 15 {
					d.put(cqe{op: before, sendOp: 0x0a, qpn: qpn, syndrome: 5})
					n = 1
				}
				if poll1 {
					poll(t, cq, n)
					n = 0
				}
				c.qpn = 1
				d.put(c)
				wcs := make([]mlx5.WC, 3)
				got, err := cq.Poll(wcs)
				if got != n || n == 0 != (err != nil) {
					t.Fatalf("%+v after %d: %d completions, error %v", c, before, got, err)
				}
				if n == 1 {
					if got, err = cq.Poll(wcs); got != 0 || err == nil {
						t.Fatalf("%+v after %d: %d completions, error %v", c, before, got, err)
					}
				}
				if !q.Broken() || other.Broken() {
					t.Fatalf("%+v after %d: broken %v, the other one %v", c, before, q.Broken(), other.Broken())
				}
				cq.Purge(q)
			}
		}
	}
}

// TestServiceLevel has datagrams with and without a VLAN tag. On Ethernet the type of the packet, IPv4 and UDP, is in
// the place of the service level.
//
// C: handle_responder (Linux, drivers/infiniband/hw/mlx5/cq.c).
func TestServiceLevel(t *testing.T) {
	const header = 2<<28 | 0xa<<24 | 0x123
	for _, c := range []struct {
		ethernet, datagrams bool
		kind                byte // 1: a tag was taken
		tag                 uint16
		want                uint8
	}{
		{true, true, 1, 5<<13 | 100, 5}, {true, true, 1, 7<<13 | 1<<12, 7}, {true, true, 0xfd, 2 << 13, 2},
		{true, true, 1, 100, 0}, {true, true, 0, 5<<13 | 100, 0}, {true, true, 0xfe, 5 << 13, 0},
		{true, false, 1, 5<<13 | 100, 0}, {false, true, 1, 5<<13 | 100, 0xa},
	} {
		d, q, _ := newPair(t, 4, 64)
		tab := new(mlx5.Table)
		tab.Add(q)
		cq := mlx5.NewCQ(&mlx5.CQConfig{Buf: ptr(d.cq), Entries: uint32(len(d.cq) / 64), Size: 64, DBRec: ptr(d.cqdb),
			UAR: ptr(d.uar), QPs: tab, Ethernet: c.ethernet})
		if c.datagrams {
			cq.AddDatagrams()
		}
		if cq.VLANs() != (c.ethernet && c.datagrams) {
			t.Errorf("%+v: VLANs is %v", c, cq.VLANs())
		}
		q.RQ.Post(recvs(1, 1))
		d.put(cqe{op: 2, qpn: qpn, bytes: 48, rqpn: header})
		d.cq[29] = c.kind
		binary.BigEndian.PutUint16(d.cq[30:], c.tag)
		var wc [1]mlx5.WC
		if n, err := cq.PollTags(wc[:], false); n != 1 || err != nil || wc[0].SL != c.want || wc[0].CVLAN != 0 {
			t.Errorf("%+v: %d completions, %v, service level %d, VLAN %d", c, n, err, wc[0].SL, wc[0].CVLAN)
		}
	}
}
