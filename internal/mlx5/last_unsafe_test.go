package mlx5_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/work"
)

const inlineFlag = 1 << 3

// formats are work requests of each opcode and form, with what their WQEs say besides. Random programs have the rest.
// An address vector is at ah.
func formats(mem, ah []byte) []format {
	one := func(n uint32) []mlx5.SGE { return []mlx5.SGE{{Addr: addr(mem), Length: n, LKey: 7}} }
	at := uintptr(addr(ah))
	masked := func(op, size uint32) mlx5.SendWR {
		m := &work.MaskedAtomic{Size: size}
		for i := range size / 8 {
			k := uint64(i)
			m.SwapAdd[i], m.Mask[i] = 0x1111+k, 1<<63|0x2222+k
			if op == work.MaskedCompareSwap {
				m.Compare[i], m.CompareMask[i] = 0x3333+k, 0x4444+k
			}
		}
		return mlx5.SendWR{Opcode: op, Flags: signaled, SGEs: one(size), Remote: *remote, Masked: m}
	}
	var list []format
	for _, size := range []uint32{8, 16, 32} {
		for _, op := range []uint32{work.MaskedCompareSwap, work.MaskedFetchAdd} {
			list = append(list, format{wr: masked(op, size)})
		}
	}
	frame := func(wr mlx5.SendWR, inline, head int) func(q *mlx5.SQ, id uint64) bool {
		return func(q *mlx5.SQ, id uint64) bool { wr.ID = id; return q.Frame(&wr, inline, head) }
	}
	head := bytes.Repeat([]byte{6}, 54)
	copyTo := []mlx5.SGE{{Addr: 0x1000, Length: 64, LKey: 3}, {Addr: 0x2000, Length: 64, LKey: 4}}
	mw := func(b *work.Bind) func(q *mlx5.SQ, id uint64) bool {
		return func(q *mlx5.SQ, id uint64) bool { return q.Bind(id, 0, b) }
	}
	bind := func(kind, access uint32, n uint64) format {
		b := window(kind, access, n)
		f := format{build: mw(b), change: b, wr: mlx5.SendWR{Opcode: wrBindMW}}
		if n == 0 {
			f.change = &work.Bind{Type: b.Type, Key: b.Key, NewKey: b.NewKey}
		}
		return f
	}
	key := &work.MkeyUpdate{Key: 0x5500, SetAccess: true, Access: remoteRead | 1, List: append(one(100), copyTo...)}
	return append(list, []format{
		{form: mlx5.FormDatagram, av: at, wr: mlx5.SendWR{Opcode: wrSendImm, Flags: solicited, SGEs: one(9), Imm: 5,
			RemoteQPN: 0x123456, RemoteQKey: 0x80010000}},
		{form: mlx5.FormDC, av: at, wr: mlx5.SendWR{Opcode: wrRead, Flags: fence, SGEs: one(9), Remote: *remote,
			RemoteQPN: 0x123456, DCKey: 0x8070605040302010, DCStream: 0x3102}},
		{form: mlx5.FormXRC, wr: mlx5.SendWR{Opcode: wrFA, SGEs: one(8), Remote: *remote, CompareAdd: 4,
			RemoteSRQN: 0xabcdef}},
		{form: mlx5.FormXRC, wr: mlx5.SendWR{Opcode: wrLocalInv, InvalidateRKey: 0x3344}},
		{form: mlx5.FormFrame, wr: mlx5.SendWR{Opcode: wrSend, Flags: checksum, SGEs: one(64)},
			build: frame(mlx5.SendWR{Opcode: wrSend, Flags: checksum, SGEs: one(64)}, 0, 0)},
		{form: mlx5.FormFrame,
			wr:    mlx5.SendWR{Opcode: wrSend, SGEs: []mlx5.SGE{{Addr: addr(mem) + 18, Length: 46, LKey: 7}}},
			build: frame(mlx5.SendWR{Opcode: wrSend, SGEs: one(64)}, 0, 18), header: 18},
		{form: mlx5.FormFrame, wr: mlx5.SendWR{Opcode: wrSend, Flags: inlineFlag},
			build: frame(mlx5.SendWR{Opcode: wrSend, Inline: mem[:80]}, 80, 18), header: 18, inline: 62},
		{form: mlx5.FormFrame, wr: mlx5.SendWR{Opcode: abi.IBV_WR_TSO, Flags: checksum, SGEs: one(3000),
			TSO: &work.TSOHeader{MSS: 1400}}, header: 54,
			build: frame(mlx5.SendWR{Opcode: abi.IBV_WR_TSO, Flags: checksum, SGEs: one(3000),
				TSO: &work.TSOHeader{Header: head, MSS: 1400}}, 0, 18)},
		{wr: mlx5.SendWR{Opcode: work.Memcpy, SGEs: copyTo}, build: func(q *mlx5.SQ, id uint64) bool {
			return q.Memcpy(&mlx5.SendWR{ID: id, Opcode: work.Memcpy, SGEs: copyTo}, 1, 2)
		}},
		bind(1, remoteRead|remoteWrite, 0x3456), bind(2, remoteWrite|atomics, 8), bind(2, remoteRead|zeroBased, 1<<31),
		bind(1, 0, 0), bind(2, 0, 0),
		{wr: mlx5.SendWR{Opcode: work.Mkey}, build: func(q *mlx5.SQ, id uint64) bool {
			return q.Mkey(id, 0, key, nil)
		}, change: &work.Bind{Type: 1, Key: 0x5500, NewKey: 0x5500, Access: remoteRead | 1, Length: 228}},
	}...)
}

type format struct {
	form           mlx5.Form
	wr             mlx5.SendWR // as it is read
	av             uintptr
	build          func(q *mlx5.SQ, id uint64) bool // nil: Add
	change         *work.Bind
	inline, header uint32
}

// TestFormats builds work requests at every block of a ring, and reads them from it: by what is remembered of them, and
// as from a ring of libmlx5.
func TestFormats(t *testing.T) {
	mem, ah := alloc(t, 4096), alloc(t, 48)
	copy(ah, av())
	for i, f := range formats(mem, ah) {
		const blocks = 16
		d := newDevice(t, size{blocks: blocks, cqes: 16, cqeSize: 64})
		c := d.sqConfig()
		c.Form = f.form
		q := mlx5.NewQP(qpn, true, c, nil, nil)
		tab := new(mlx5.Table)
		tab.Add(q)
		cq := d.newCQ(tab)
		for round := range 2 * blocks {
			id := uint64(round + 5)
			wr := f.wr
			wr.ID = id
			ok := false
			if f.build != nil {
				ok = f.build(&q.SQ, id)
			} else {
				ok = q.SQ.Add(&wr, 0, f.av)
			}
			if !ok {
				t.Fatalf("format %d: no room", i)
			}
			q.SQ.Ring()
			at := d.sendRecord()
			for _, libs := range []bool{false, true} {
				got := q.LastSends(f.form, 2)
				if len(got) != min(round+1, 2) || round > 0 && got[0].Outcome != mlx5.Flushed {
					t.Fatalf("format %d: %+v", i, got)
				}
				if libs {
					got = mlx5.LastSends(d.sq, at, qpn, f.form, 2)
				}
				if len(got) == 0 {
					t.Fatalf("format %d, of libmlx5 %v: nothing is there", i, libs)
				}
				s := &got[len(got)-1]
				want := wr
				if libs {
					want.ID = 0
				}
				if s.Outcome != map[bool]mlx5.Outcome{false: mlx5.Pending, true: mlx5.Unknown}[libs] || s.Damaged ||
					s.Short || s.QPN != qpn || s.InlineLen != f.inline || s.HeaderLen != f.header ||
					!reflect.DeepEqual(s.Change, f.change) || !reflect.DeepEqual(s.SendWR, want) {
					t.Fatalf("format %d at round %d, of libmlx5 %v:\n%+v, want\n%+v\n%+v", i, round, libs, s, want,
						f.change)
				}
			}
			s := q.LastSends(f.form, 1)[0]
			d.put(cqe{op: 13, syndrome: 5, qpn: qpn, counter: s.Index})
			poll(t, cq, 1)
		}
	}
}

// TestFaults lets work requests fail again and again, as on a QP that leaves SQE.
func TestFaults(t *testing.T) {
	const (
		good  = 0
		flush = 5
		bad   = 0x13
	)
	for _, c := range []struct {
		syndromes []byte
		want      []mlx5.Outcome
	}{
		{[]byte{good, bad, flush, flush}, []mlx5.Outcome{mlx5.Completed, mlx5.Failed, mlx5.Flushed, mlx5.Flushed}},
		{[]byte{good, flush, flush}, []mlx5.Outcome{mlx5.Completed, mlx5.Flushed, mlx5.Flushed}},
		{[]byte{good, bad, flush, good, bad, flush, flush, good},
			[]mlx5.Outcome{mlx5.Unknown, mlx5.Unknown, mlx5.Unknown, mlx5.Completed, mlx5.Failed, mlx5.Flushed,
				mlx5.Flushed, mlx5.Completed}},
		{[]byte{bad, good, bad}, []mlx5.Outcome{mlx5.Unknown, mlx5.Completed, mlx5.Failed}},
		{[]byte{flush, good, flush}, []mlx5.Outcome{mlx5.Unknown, mlx5.Completed, mlx5.Flushed}},
		{[]byte{bad, good, flush}, []mlx5.Outcome{mlx5.Failed, mlx5.Completed, mlx5.Flushed}},
	} {
		d, _ := newSQ(t, 16, nil)
		d.rq = alloc(t, 16*32)
		q := mlx5.NewQP(qpn, true, d.sqConfig(), d.rqConfig(32, 2), nil)
		tab := new(mlx5.Table)
		tab.Add(q)
		cq := d.newCQ(tab)
		for i, s := range c.syndromes {
			q.SQ.Send(uint64(i), wrSend, signaled, 0, local)
			q.SQ.Ring()
			q.RQ.Post([]mlx5.RecvWR{{ID: uint64(i), SGEs: []mlx5.SGE{*local, *local}[:i%3]}})
			send, recv := cqe{sendOp: 0x0a, qpn: qpn, counter: uint16(i)}, cqe{op: 2, qpn: qpn, counter: uint16(i)}
			if s != good {
				send.op, send.syndrome, send.vendor = 13, s, 0x88
				recv.op, recv.syndrome, recv.vendor = 14, s, 0x77
			}
			d.put(send)
			d.put(recv)
			poll(t, cq, 2)
		}
		sends, recvs := q.LastSends(mlx5.FormConnected, 100), q.RQ.Last(100)
		if len(sends) != len(c.want) || len(recvs) != len(c.want) {
			t.Fatalf("%d sends, %d receives of %d", len(sends), len(recvs), len(c.want))
		}
		for i, want := range c.want {
			s, r := sends[i], recvs[i]
			if s.Outcome != want || r.Outcome != want || r.ID != uint64(i) || len(r.SGEs) != i%3 ||
				i%3 > 0 && r.SGEs[0] != *local || int(r.Index) != i {
				t.Errorf("%v: %d is %+v and %+v, want %d", c.syndromes, i, s, r, want)
			}
			if want == mlx5.Failed && (s.Status != 10 || s.VendorErr != 0x88 || r.Status != 10 || r.VendorErr != 0x77) {
				t.Errorf("it failed as %+v and %+v", s, r)
			}
		}
		q.Reset()
		if n := len(q.LastSends(0, 9)) + len(q.RQ.Last(9)); n > 0 {
			t.Errorf("%d after a reset", n)
		}
	}
}

// TestLastRecvs reads a receive queue of libmlx5, whose record has gone around.
func TestLastRecvs(t *testing.T) {
	d := newDevice(t, size{rqWQEs: 8, rqStride: 32})
	q := mlx5.NewQP(qpn, true, nil, d.rqConfig(32, 2), nil)
	for _, n := range []int{3, 5} {
		for range n {
			q.RQ.Post([]mlx5.RecvWR{{ID: 1, SGEs: []mlx5.SGE{*local}}})
		}
		got := mlx5.LastRecvs(d.rq, 32, d.recvRecord(), 6)
		if len(got) != min(int(d.recvRecord()), 6) || got[0].SGEs[0] != *local ||
			got[len(got)-1].Index != d.recvRecord()-1 {
			t.Errorf("%+v", got)
		}
	}
	if got := mlx5.LastRecvs(d.rq, 32, 2, 100); len(got) != 8 {
		t.Errorf("%d of a ring of 8", len(got))
	}
	for _, stride := range []int{0, 8, 48} {
		if got := mlx5.LastRecvs(d.rq, stride, 2, 100); got != nil {
			t.Errorf("stride %d: %+v", stride, got)
		}
	}
}

// TestStaleWQE posts after a reset, in a ring that has the WQEs from before at the same indices.
func TestStaleWQE(t *testing.T) {
	for n := 30; n < 100; n++ {
		d, q := newSQ(t, 8, nil)
		for range 6 {
			q.SQ.Send(1, wrSend, 0, 0, local)
		}
		q.Reset()
		var want []uint32
		for _, length := range []int{n, 5, n, 110} {
			if inline(&q.SQ, wrSend, nil, length) {
				want = append(want, uint32(length))
			}
		}
		q.SQ.Ring()
		got := mlx5.LastSends(d.sq, d.sendRecord(), qpn, mlx5.FormConnected, 9)
		if len(got) > len(want) || len(got) < min(len(want), 3) {
			t.Fatalf("%d bytes: %d work requests of %d", n, len(got), len(want))
		}
		for i := range got {
			if w := want[len(want)-len(got)+i]; got[i].InlineLen != w || got[i].Flags&inlineFlag == 0 {
				t.Fatalf("%d bytes: %d is %+v, want %d bytes", n, i, got[i], w)
			}
		}
	}
}

// TestDamagedWQE overwrites what was posted.
func TestDamagedWQE(t *testing.T) {
	d, q := newSQ(t, 8, nil)
	for i := range uint64(3) {
		general(&q.SQ, wrWrite, signaled, 0, remote, local, local, local)
		if i == 1 {
			copy(d.sq[2*64:], bytes.Repeat([]byte{0xab}, 64))
		}
	}
	q.SQ.Ring()
	for i, s := range q.LastSends(mlx5.FormConnected, 9) {
		if s.Damaged != (i == 1) || s.Damaged != (s.Index != uint16(2*i)) {
			t.Errorf("%d: %+v", i, s)
		}
	}
	if got := mlx5.LastSends(d.sq, d.sendRecord(), qpn, mlx5.FormConnected, 9); len(got) != 1 || got[0].Index != 4 {
		t.Errorf("of libmlx5: %+v", got)
	}
}

// readBytes reads rings of any bytes. What it finds must lie within them.
func readBytes(t testing.TB, q *mlx5.QP, d *device, data []byte) {
	src := source{data}
	form, completion := mlx5.Form(src.n(6)), uint64(src.next())
	record := uint16(src.next())<<8 | uint16(src.next())
	w := mlx5.ParseWQE(src.data, form, completion)
	if len(w.SGEs)*16 > len(src.data) || w.InlineLen > 0 && !w.Short && int(w.InlineLen) > len(src.data) {
		t.Fatalf("%d bytes: %+v", len(src.data), w)
	}
	fill := func(ring []byte) {
		for i := 0; len(src.data) > 0 && i < len(ring); i += copy(ring[i:], src.data) {
		}
	}
	fill(d.sq)
	fill(d.rq)
	if len(src.data) > 8 && src.data[0]&1 == 0 { // control segments that are right, but for the rest
		for i := range 16 {
			b := d.sq[i*64:]
			at := record - 16 + uint16((i-int(record))&15)
			binary.BigEndian.PutUint16(b[1:], at)
			binary.BigEndian.PutUint32(b[4:], qpn<<8|uint32(b[7]))
		}
	}
	sends := mlx5.LastSends(d.sq, record, qpn, form, 100)
	end := record
	for _, s := range slices.Backward(sends) {
		if s.QPN != qpn || s.Damaged || end-s.Index > 16 || end == s.Index {
			t.Fatalf("before block %d: %+v", end, s)
		}
		end = s.Index
	}
	if record-end > 16 {
		t.Fatalf("%d blocks of 16", record-end)
	}
	for _, r := range mlx5.LastRecvs(d.rq, 32, record, 100) {
		if len(r.SGEs) > 2 {
			t.Fatalf("%+v", r)
		}
	}
	if n := len(q.LastSends(form, 100)); n != 5 { // posted before
		t.Fatalf("%d work requests, want 5", n)
	}
	for _, r := range q.RQ.Last(100) {
		if len(r.SGEs) > 2 {
			t.Fatalf("%+v", r)
		}
	}
}

// FuzzLast reads WQEs and rings of any bytes. testdata has a WQE of each kind.
func FuzzLast(f *testing.F) {
	d := newDevice(f, size{blocks: 16, rqWQEs: 16, rqStride: 32})
	q := mlx5.NewQP(qpn, true, d.sqConfig(), d.rqConfig(32, 2), nil)
	for range 5 {
		q.SQ.Send(1, wrSend, 0, 0, local)
		q.RQ.Post([]mlx5.RecvWR{{ID: 1}})
	}
	r := rand.NewChaCha8([32]byte{11})
	for i := range 16 {
		data := make([]byte, 8+64<<(i/2))
		r.Read(data)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { readBytes(t, q, d, data) })
}
