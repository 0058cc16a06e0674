package mlx5_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/work"
)

const (
	wrTSO    = 10
	checksum = 1 << 4
	inlined  = 1 << 3
)

// newRaw returns a raw packet QP whose sends and receives complete on one CQ.
func newRaw(t testing.TB, blocks int) (*device, *mlx5.QP, *mlx5.CQ, *mlx5.RawRQ) {
	t.Helper()
	d := newDevice(t, size{blocks: blocks, rqWQEs: 8, rqStride: 64, cqes: 16, cqeSize: 64})
	c := d.sqConfig()
	c.MaxInline = 256
	q := mlx5.NewQP(qpn, false, c, nil, nil)
	tab := new(mlx5.Table)
	tab.Add(q)
	cq := d.newCQ(tab)
	return d, q, cq, cq.AddRaw(q, d.rqConfig(64, 4), true)
}

// TestFrame looks at WQEs of frames, which begin at every block of a ring of four.
func TestFrame(t *testing.T) {
	mem := alloc(t, 64)
	for i := range mem {
		mem[i] = byte(i)
	}
	at := addr(mem)
	sges := func(lens ...int) (list []mlx5.SGE) {
		a := at
		for _, n := range lens {
			list = append(list, mlx5.SGE{Addr: a, Length: uint32(n), LKey: 7})
			a += uint64(n)
		}
		return list
	}
	data := func(from, n int) string { return fmt.Sprintf("%08x 00000007 %016x\n", n, at+uint64(from)) }
	const eth = "00000000 %02x00 %04x 00000000 %04x "
	head := fmt.Sprintf("%x", mem[:18])
	for _, c := range []struct {
		name   string
		wr     mlx5.SendWR
		inline int
		head   int
		ds     int
		want   string
	}{
		{"one piece", mlx5.SendWR{Opcode: wrSend, SGEs: sges(64)}, 0, 0, 3,
			fmt.Sprintf(eth, 0, 0, 0) + "0000" + data(0, 64)},
		{"checksums", mlx5.SendWR{Opcode: wrSend, Flags: checksum, SGEs: sges(10, 0, 54)}, 0, 0, 4,
			fmt.Sprintf(eth, 0xc0, 0, 0) + "0000" + data(0, 10) + data(10, 54)},
		{"with its head", mlx5.SendWR{Opcode: wrSend, SGEs: sges(64)}, 0, 18, 4,
			fmt.Sprintf(eth, 0, 0, 18) + head + data(18, 46)},
		{"a head of pieces", mlx5.SendWR{Opcode: wrSend, SGEs: sges(5, 13, 20, 26)}, 0, 18, 5,
			fmt.Sprintf(eth, 0, 0, 18) + head + data(18, 20) + data(38, 26)},
		{"inline", mlx5.SendWR{Opcode: wrSend, Inline: mem[:24]}, 24, 0, 4,
			fmt.Sprintf(eth, 0, 0, 0) + "0000 80000018" + fmt.Sprintf("%x 00000000", mem[:24])},
		{"inline with its head", mlx5.SendWR{Opcode: wrSend, Inline: mem[:30]}, 30, 18, 4,
			fmt.Sprintf(eth, 0, 0, 18) + head + "8000000c" + fmt.Sprintf("%x", mem[18:30])},
		{"inline pieces", mlx5.SendWR{Opcode: wrSend, Flags: inlined, SGEs: sges(20, 1, 9)}, 30, 18, 4,
			fmt.Sprintf(eth, 0, 0, 18) + head + "8000000c" + fmt.Sprintf("%x", mem[18:30])},
		{"nothing but a head", mlx5.SendWR{Opcode: wrSend, Inline: mem[:18]}, 18, 18, 3,
			fmt.Sprintf(eth, 0, 0, 18) + head},
		{"TSO", mlx5.SendWR{Opcode: wrTSO, Flags: checksum, SGEs: sges(64), TSO: &work.TSOHeader{Header: mem[:54],
			MSS: 0x5dc}}, 0, 18, 7,
			fmt.Sprintf(eth, 0xc0, 0x5dc, 54) + fmt.Sprintf("%x %024x", mem[:54], 0) + data(0, 64)},
		{"TSO, a short header", mlx5.SendWR{Opcode: wrTSO, TSO: &work.TSOHeader{Header: mem[:14], MSS: 9}}, 0, 0, 3,
			fmt.Sprintf(eth, 0, 9, 14) + fmt.Sprintf("%x %08x", mem[:14], 0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, q, cq, _ := newRaw(t, 4)
			block := 0
			for i := range 8 {
				c.wr.ID = uint64(i)
				c.wr.Flags |= signaled
				if !q.SQ.Frame(&c.wr, c.inline, c.head) {
					t.Fatal("no room")
				}
				q.SQ.Ring()
				op := byte(0x0a)
				if c.wr.Opcode == wrTSO {
					op = 0x0e
				}
				want := parse(t, fmt.Sprintf("00 %04x %02x %06x %02x 00000008 00000000\n", block, op, qpn, c.ds)+c.want)
				same(t, fmt.Sprint("WQE ", i), d.wqe(block, 16*c.ds), want)
				d.put(cqe{qpn: qpn, sendOp: op, counter: uint16(block)})
				if wc := poll(t, cq, 1)[0]; wc.ID != uint64(i) || wc.Opcode != map[bool]uint32{true: 7}[op == 0x0e] ||
					wc.QPN != qpn {
					t.Errorf("%+v", wc)
				}
				if block += (c.ds + 3) / 4; d.sendRecord() != uint16(block) {
					t.Errorf("record %d, want %d", d.sendRecord(), block)
				}
			}
		})
	}
	_, q, _, _ := newRaw(t, 4)
	for i := range 5 {
		wr := mlx5.SendWR{Opcode: wrSend, SGEs: sges(64)}
		if q.SQ.Frame(&wr, 0, 0) != (i < 4) {
			t.Errorf("frame %d of a queue of 4", i)
		}
	}
}

// TestRawCQ: whose a completion is follows from its opcode, also when the tag of a rule is the number of the QP.
func TestRawCQ(t *testing.T) {
	mem := alloc(t, 64)
	sge := []mlx5.SGE{{Addr: addr(mem), Length: 64, LKey: 7}}
	d, q, cq, rq := newRaw(t, 4)
	if rq.Post([]mlx5.RecvWR{{ID: 100, SGEs: sge}}) != 1 || d.recvRecord() != 0 {
		t.Error("the device knows of receives before RTR")
	}
	rq.Announce()
	if d.recvRecord() != 1 {
		t.Error("the device does not know of what was posted before RTR")
	}
	want := []uint32{}
	for i, tag := range []uint32{0, 5, qpn, 5, 5, 0xffffff, qpn, qpn} {
		rq.Post([]mlx5.RecvWR{{ID: uint64(101 + i), SGEs: sge}})
		if d.recvRecord() != uint16(i+2) {
			t.Errorf("record %d after %d receives", d.recvRecord(), i+2)
		}
		wr := mlx5.SendWR{ID: uint64(i), Opcode: wrSend, Flags: signaled, SGEs: sge}
		if !q.SQ.Frame(&wr, 0, 0) {
			t.Fatal("no room")
		}
		q.SQ.Ring()
		d.got(tag, uint16(i), 60)
		d.sent(qpn, 0x0a, uint16(i))
		want = append(want, tag)
		if i%2 == 0 {
			continue
		}
		for k, wc := range poll(t, cq, 4) {
			n := i - 1 + k/2
			id, num := uint64(n), uint32(qpn)
			if k%2 == 0 && (wc.ID != 100+id || wc.QPN != want[n] || wc.Opcode != 128 || wc.ByteLen != 60) ||
				k%2 == 1 && (wc.ID != id || wc.QPN != num || wc.Opcode != 0) {
				t.Errorf("%d, %d: %+v", n, k, wc)
			}
		}
	}
	for i, tag := range []uint32{1, 2, qpn, 2} {
		d.got(tag, uint16(8+i), 60)
		rq.Post([]mlx5.RecvWR{{ID: uint64(109 + i), SGEs: sge}})
	}
	for i, wc := range poll(t, cq, 4) {
		if wc.ID != uint64(108+i) || wc.QPN != []uint32{1, 2, qpn, 2}[i] {
			t.Errorf("receive %d: %+v", i, wc)
		}
	}
	// What is not posted is nobody's.
	for _, c := range []cqe{{qpn: qpn + 1, sendOp: 0x0a}, {qpn: qpn, sendOp: 0x0a, counter: 3}, {op: 2, counter: 6},
		{op: 7, qpn: qpn}} {
		d.put(c)
		if n, err := cq.Poll(make([]mlx5.WC, 1)); n != 0 || err == nil {
			t.Errorf("%+v: %d, %v", c, n, err)
		}
	}
	d.put(cqe{op: 14, qpn: 3, counter: 12, syndrome: 5})
	if wc := poll(t, cq, 1)[0]; wc.ID != 112 || wc.Status != 5 {
		t.Errorf("%+v", wc)
	}
	d.got(3, 13, 60)
	d.sent(qpn, 0x0a, 0)
	rq.Reset()
	q.Reset()
	if got := poll(t, cq, 0); len(got) != 0 || cq.Unpolled() != 0 {
		t.Errorf("after a reset: %+v", got)
	}
	if before := d.recvRecord(); rq.Post([]mlx5.RecvWR{{ID: 1, SGEs: sge}}) != 1 || d.recvRecord() != before {
		t.Error("the device knows of receives after a reset")
	}
	for _, id := range []uint64{76, 77} {
		if wr := (mlx5.SendWR{ID: id, Opcode: wrSend, Flags: signaled, SGEs: sge}); !q.SQ.Frame(&wr, 0, 0) {
			t.Fatal("no room")
		}
	}
	d.got(5, 0, 60)
	d.sent(qpn, 0x0a, 0)
	rq.Drop() // the CQ finds its QPs by their number again, and has nothing from before
	if got := poll(t, cq, 0); cq.Unpolled() != 0 || len(got) != 0 {
		t.Errorf("what came before Drop: %+v, %d more", got, cq.Unpolled())
	}
	d.sent(qpn, 0x0a, 1)
	if wc := poll(t, cq, 1)[0]; wc.ID != 77 || wc.QPN != qpn {
		t.Errorf("%+v", wc)
	}
	d.got(5, 0, 60)
	if n, err := cq.Poll(make([]mlx5.WC, 1)); n != 0 || err == nil {
		t.Errorf("a receive of nobody: %d, %v", n, err)
	}
}

// TestRawChecksums: the flag is set for IPv4 with both checksums, as by libmlx5.
func TestRawChecksums(t *testing.T) {
	d, _, cq, rq := newRaw(t, 4)
	wcs := make([]mlx5.WC, 8)
	for word := range 1 << 5 { // two flags of checksums, one beside them, two bits of the header's type
		rq.Post([]mlx5.RecvWR{{}})
		entry := d.pi
		d.got(9, uint16(word), 60)
		e := d.cq[entry%16*64:]
		e[28], e[29] = byte(word&7)<<1, byte(word>>3)<<2
		binary.BigEndian.PutUint16(e[30:], 0x2345)
		tags := word&1 != 0
		n, err := cq.PollTags(wcs, tags)
		want := mlx5.WC{Opcode: 128, ByteLen: 60, QPN: 9}
		if word&3 == 3 && word>>3 == 2 {
			want.Flags = 4
		}
		if tags {
			want.FlowTag, want.CVLAN = 9, 0x2345
		}
		if n != 1 || err != nil || wcs[0] != want {
			t.Errorf("%#x: %d, %v, %+v, want %+v", word, n, err, wcs[0], want)
		}
	}
}

func TestRawNoAllocation(t *testing.T) {
	mem := alloc(t, 64)
	d, q, cq, rq := newRaw(t, 4)
	rq.Announce()
	wcs := make([]mlx5.WC, 4)
	recv := []mlx5.RecvWR{{SGEs: []mlx5.SGE{{Addr: addr(mem), Length: 64}}}}
	wr := &mlx5.SendWR{Opcode: wrSend, Flags: signaled, SGEs: []mlx5.SGE{{Addr: addr(mem), Length: 64}}}
	tso := &mlx5.SendWR{Opcode: wrTSO, Flags: signaled, TSO: &work.TSOHeader{Header: mem[:54], MSS: 9}}
	i := uint16(0)
	if n := testing.AllocsPerRun(100, func() {
		rq.Post(recv)
		for _, wr := range []*mlx5.SendWR{wr, tso} {
			q.SQ.Frame(wr, 0, 18)
		}
		q.SQ.Ring()
		d.got(3, i, 60)
		i++
		d.sent(qpn, 0x0a, d.sendRecord()-2)
		if n, err := cq.PollTags(wcs, false); n != 2 || err != nil {
			t.Fatal(n, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFrame(b *testing.B) {
	mem := alloc(b, 64)
	_, q, _, _ := newRaw(b, 64)
	wr := &mlx5.SendWR{Opcode: wrSend, SGEs: []mlx5.SGE{{Addr: addr(mem), Length: 64}}}
	for _, head := range []int{0, 18} {
		b.Run(fmt.Sprint(head), func(b *testing.B) {
			for b.Loop() {
				if !q.SQ.Frame(wr, 0, head) {
					q.Reset()
				}
				q.SQ.Ring()
			}
		})
	}
}
