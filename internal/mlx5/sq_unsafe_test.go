package mlx5_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/work"
)

const qpn = 0xabcd12

var (
	remote = &mlx5.RemoteAddr{Addr: 0x1122334455667788, RKey: 0x99aabbcc}
	local  = &mlx5.SGE{Addr: 0x0102030405060708, Length: 0x1234, LKey: 0xddeeff01}
	empty  = &mlx5.SGE{Addr: 0x0102030405060708, LKey: 0xddeeff01}
)

const (
	raddr = "1122334455667788 99aabbcc 00000000 // remote address\n"
	data  = "00001234 ddeeff01 0102030405060708 // data\n"
)

func newSQ(t testing.TB, blocks int, change func(*mlx5.SQConfig)) (*device, *mlx5.QP) {
	d := newDevice(t, size{blocks: blocks, cqes: 2 * blocks, cqeSize: 64})
	c := d.sqConfig()
	if change != nil {
		change(c)
	}
	return d, mlx5.NewQP(qpn, true, c, nil, nil)
}

// general builds the WQEs of RDMA and Send segment by segment.
func general(q *mlx5.SQ, op, flags, imm uint32, r *mlx5.RemoteAddr, sges ...*mlx5.SGE) bool {
	n := len(sges)
	if r != nil {
		n++
	}
	if !q.Begin(op, flags, imm, n) {
		return false
	}
	if r != nil {
		q.Remote(r.Addr, r.RKey)
	}
	for _, s := range sges {
		q.Data(s)
	}
	q.Commit(1)
	return true
}

func av() []byte {
	b := make([]byte, 48)
	for i := range b {
		b[i] = byte(0x40 + i)
	}
	copy(b[0:12], []byte{9, 9, 9, 9, 0, 0, 0, 0, 9, 9, 9, 9}) // key and number are filled in
	return b
}

// Rights of a memory window. C: enum ibv_access_flags.
const (
	remoteWrite = 1 << 1
	remoteRead  = 1 << 2
	atomics     = 1 << 3
	zeroBased   = 1 << 5
)

// window is a bind of n bytes.
func window(windowType, access uint32, n uint64) *work.Bind {
	return &work.Bind{Type: windowType, Key: 0x99aabb01, NewKey: 0x99aabb02, LKey: 0xddeeff01, Access: access,
		Addr: 0x0102030405060708, Length: n}
}

// klm is the translation entry of window.
const klm = `
		 00003456 ddeeff01 0102030405060708
		 00000000000000000000000000000000
		 00000000000000000000000000000000
		 00000000000000000000000000000000`

// wqes are work requests with their WQEs, built at block 0 of a new ring.
var wqes = []struct {
	name  string
	build func(q *mlx5.SQ) bool
	want  string
}{
	{"write", func(q *mlx5.SQ) bool { return q.RDMA(1, wrWrite, signaled, 0, remote, local) },
		"00000008 abcd1203 00000008 00000000" + raddr + data},
	{"write, unsignaled", func(q *mlx5.SQ) bool { return q.RDMA(1, wrWrite, 0, 0, remote, local) },
		"00000008 abcd1203 00000000 00000000" + raddr + data},
	{"write, no bytes", func(q *mlx5.SQ) bool { return q.RDMA(1, wrWrite, signaled, 0, remote, empty) },
		"00000008 abcd1202 00000008 00000000" + raddr},
	{"write with immediate", func(q *mlx5.SQ) bool {
		return q.RDMA(1, wrWriteImm, signaled|solicited, 0xcafe0123, remote, local)
	},
		"00000009 abcd1203 0000000a cafe0123" + raddr + data},
	{"read", func(q *mlx5.SQ) bool { return q.RDMA(1, wrRead, signaled|fence, 0, remote, local) },
		"00000010 abcd1203 00000088 00000000" + raddr + data},
	{"send", func(q *mlx5.SQ) bool { return q.Send(1, wrSend, signaled, 0, local) },
		"0000000a abcd1202 00000008 00000000" + data},
	{"send, no bytes", func(q *mlx5.SQ) bool { return q.Send(1, wrSend, signaled, 0, empty) },
		"0000000a abcd1201 00000008 00000000"},
	{"send with immediate", func(q *mlx5.SQ) bool { return q.Send(1, wrSendImm, solicited, 0xcafe0123, local) },
		"0000000b abcd1202 00000002 cafe0123" + data},
	{"send with invalidate", func(q *mlx5.SQ) bool { return q.Send(1, wrSendInv, signaled, 0x99aabbcc, local) },
		"00000001 abcd1202 00000008 99aabbcc" + data},
	{"send of nothing, built the long way", func(q *mlx5.SQ) bool { return general(q, wrSend, signaled, 0, nil) },
		"0000000a abcd1201 00000008 00000000"},
	{"write, three SGEs of which one is empty", func(q *mlx5.SQ) bool {
		return general(q, wrWrite, signaled, 0, remote, local, empty, local)
	},
		"00000008 abcd1204 00000008 00000000" + raddr + data + data},
	{"compare and swap", func(q *mlx5.SQ) bool {
		if !q.Begin(wrCS, signaled, 0, 3) {
			return false
		}
		q.Remote(remote.Addr, remote.RKey)
		q.Atomic(0x0011223344556677, 0x8899aabbccddeeff)
		q.Data(&mlx5.SGE{Addr: 0x0102030405060708, Length: 8, LKey: 0xddeeff01})
		q.Commit(1)
		return true
	}, "00000011 abcd1204 00000008 00000000" + raddr + "0011223344556677 8899aabbccddeeff 00000008 ddeeff01 " +
		"0102030405060708"},
	{"fetch and add, an SGE longer than the result", func(q *mlx5.SQ) bool {
		if !q.Begin(wrFA, signaled|fence, 0, 3) {
			return false
		}
		q.Remote(remote.Addr, remote.RKey)
		q.Atomic(0x0011223344556677, 0)
		q.Data(local)
		q.Commit(1)
		return true
	}, "00000012 abcd1204 00000088 00000000" + raddr + "0011223344556677 0000000000000000 00000008 ddeeff01 " +
		"0102030405060708"},
	{"local invalidate", func(q *mlx5.SQ) bool { return q.LocalInv(1, signaled, 0x99aabbcc) },
		`00000025 abcd1208 00000008 99aabbcc
		 98 000000 0000 0000 0000000020006000 // inline, translation offset, check QPN; mask: free, mkey, QPN
		 00000000000000000000000000000000
		 00000000000000000000000000000000
		 40 00 00 00 ffffff00 0000000000000000 // mkey context: free, of no QP
		 00000000000000000000000000000000
		 00000000000000000000000000000000
		 00000000000000000000000000000000`},
	{"bind of type 2", func(q *mlx5.SQ) bool { return q.Bind(1, signaled, window(2, remoteRead|remoteWrite, 0x3456)) },
		`00000025 abcd120c 00000008 99aabb01
		 b0 000000 0004 0000 00000000203c6041 // inline, offset, check free; mask: free, QPN, mkey, access, start, length
		 00000000000000000000000000000000
		 00000000000000000000000000000000
		 00 00 30 00 abcd1202 0000000000000000 // mkey context: remote read and write, of the QP
		 0102030405060708 0000000000003456
		 00000000000000000000000000000000
		 00000000000000000000000000000000` + klm},
	{"bind of type 1", func(q *mlx5.SQ) bool { return q.Bind(1, 0, window(1, atomics, 0x3456)) },
		`00000025 abcd120c 00000000 99aabb01
		 90 000000 0004 0000 00000000203c2041
		 00000000000000000000000000000000
		 00000000000000000000000000000000
		 00 00 40 00 ffffff02 0000000000000000
		 0102030405060708 0000000000003456
		 00000000000000000000000000000000
		 00000000000000000000000000000000` + klm},
	{"bind from address 0", func(q *mlx5.SQ) bool { return q.Bind(1, signaled, window(2, zeroBased, 0x3456)) },
		`00000025 abcd120c 00000008 99aabb01
		 b0 000000 0004 0000 00000000203c6041
		 00000000000000000000000000000000
		 00000000000000000000000000000000
		 00 00 00 00 abcd1202 0000000000000000
		 0000000000000000 0000000000003456
		 00000000000000000000000000000000
		 00000000000000000000000000000000` + klm},
	{"bind of type 2 to nothing", func(q *mlx5.SQ) bool { return q.Bind(1, signaled, window(2, 0, 0)) },
		`00000025 abcd1208 00000008 99aabb01
		 98 000000 0000 0000 0000000020006000
		 00000000000000000000000000000000
		 00000000000000000000000000000000
		 40 00 00 00 ffffff02 0000000000000000
		 00000000000000000000000000000000
		 00000000000000000000000000000000
		 00000000000000000000000000000000`},
	{"bind of type 1 to nothing", func(q *mlx5.SQ) bool { return q.Bind(1, signaled, window(1, 0, 0)) },
		`00000025 abcd1208 00000008 99aabb01
		 90 000000 0000 0000 0000000020002000
		 00000000000000000000000000000000
		 00000000000000000000000000000000
		 40 00 00 00 ffffff02 0000000000000000
		 00000000000000000000000000000000
		 00000000000000000000000000000000
		 00000000000000000000000000000000`},
	{"datagram", func(q *mlx5.SQ) bool {
		a := av()
		if !q.Begin(wrSendImm, signaled, 0x01020304, 4) {
			return false
		}
		q.To(unsafe.Pointer(&a[0]), 0x123456, 0x11111111)
		q.Data(local)
		q.Commit(1)
		return true
	}, `0000000b abcd1205 00000008 01020304
		11111111 00000000 80123456 4c4d4e4f // qkey, extended | qpn
		50515253 54555657 58595a5b 5c5d5e5f
		60616263 64656667 68696a6b 6c6d6e6f` + "\n" + data},
	{"DC write", func(q *mlx5.SQ) bool {
		a := av()
		if !q.Begin(wrWrite, signaled|fence, 0, 5) {
			return false
		}
		q.ToDCT(unsafe.Pointer(&a[0]), 0x123456, 0x1122334455667788, 0xa1b2)
		q.Remote(remote.Addr, remote.RKey)
		q.Data(local)
		q.Commit(1)
		return true
	}, `00000008 abcd1206 00 a1b2 88 00000000
		11223344 55667788 80123456 4c4d4e4f // key, extended | number
		50515253 54555657 58595a5b 5c5d5e5f
		60616263 64656667 68696a6b 6c6d6e6f` + "\n" + raddr + data},
	{"XRC write", func(q *mlx5.SQ) bool {
		if !q.Begin(wrWrite, signaled, 0, 3) {
			return false
		}
		q.XRC(0xabcdef)
		q.Remote(remote.Addr, remote.RKey)
		q.Data(local)
		q.Commit(1)
		return true
	}, "00000008 abcd1204 00000008 00000000 00abcdef 00000000 00000000 00000000" + raddr + data},
	{"inline, 12 bytes: one segment", func(q *mlx5.SQ) bool { return inline(q, wrSend, nil, 12) },
		"0000000a abcd1202 00000008 00000000 8000000c 000102030405060708090a0b"},
	{"inline, 13 bytes: two segments", func(q *mlx5.SQ) bool { return inline(q, wrSend, nil, 13) },
		"0000000a abcd1203 00000008 00000000 8000000d 000102030405060708090a0b 0c"},
	{"inline, nothing", func(q *mlx5.SQ) bool { return inline(q, wrSend, nil, 0) },
		"0000000a abcd1201 00000008 00000000"},
	{"inline write, 32 bytes: the second block begins", func(q *mlx5.SQ) bool { return inline(q, wrWrite, remote, 32) },
		"00000008 abcd1205 00000008 00000000" + raddr +
			"80000020 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"},
}

func inline(q *mlx5.SQ, op uint32, r *mlx5.RemoteAddr, n int) bool {
	segs := mlx5.InlineSegs(n)
	if r != nil {
		segs++
	}
	if !q.Begin(op, signaled, 0, segs) {
		return false
	}
	if r != nil {
		q.Remote(r.Addr, r.RKey)
	}
	q.Inline(counted(n))
	q.Commit(1)
	return true
}

func counted(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func TestWQE(t *testing.T) {
	for _, c := range wqes {
		t.Run(c.name, func(t *testing.T) {
			d, q := newSQ(t, 16, nil)
			want := parse(t, c.want)
			for i := range d.sq {
				d.sq[i] = 0xee // what an older WQE left
			}
			if !c.build(&q.SQ) {
				t.Fatal("full")
			}
			q.SQ.Ring()
			same(t, "wqe", d.sq[:len(want)], want)
			if n := len(want); n%16 == 0 && n < len(d.sq) {
				same(t, "what is behind it", d.sq[n:], bytes.Repeat([]byte{0xee}, len(d.sq)-n))
			}
			blocks := (len(want) + 63) / 64
			if got := d.sendRecord(); int(got) != blocks {
				t.Errorf("doorbell record %d, want %d", got, blocks)
			}
			same(t, "register", d.uar[0x800:0x810], append(bytes.Clone(want[:8]), 0, 0, 0, 0, 0, 0, 0, 0))
		})
	}
}

// Every WQE is the same at every place of a small ring, but for its index and where it wraps around the end.
func TestWQEWraps(t *testing.T) {
	for _, c := range wqes {
		t.Run(c.name, func(t *testing.T) {
			const blocks = 8
			want := parse(t, c.want)
			tab := new(mlx5.Table)
			d, q := newSQ(t, blocks, nil)
			tab.Add(q)
			cq := d.newCQ(tab)
			at := 0
			for i := range 5 * blocks {
				if !c.build(&q.SQ) {
					t.Fatal("full")
				}
				q.SQ.Ring()
				binary.BigEndian.PutUint16(want[1:], uint16(at))
				if i > 0 && want[3] == 0x25 {
					want[11] |= 0x20 // after an invalidate
				}
				if got := d.wqe(at, len(want)); !bytes.Equal(got, want) {
					same(t, fmt.Sprintf("wqe %d at block %d", i, at), got, want)
					return
				}
				d.sent(qpn, want[3], uint16(at))
				bind := strings.HasPrefix(c.name, "bind")
				if wc := poll(t, cq, 1)[0]; want[3] == 0x25 && (wc.Opcode == wcBind) != bind {
					t.Fatalf("completed as opcode %d", wc.Opcode)
				}
				at += (len(want) + 63) / 64
				if got := d.sendRecord(); int(got) != at {
					t.Fatalf("doorbell record %d, want %d", got, at)
				}
			}
		})
	}
}

// The index in a WQE and the doorbell record have 16 bits.
func TestIndexWraps(t *testing.T) {
	tab := new(mlx5.Table)
	d, q := newSQ(t, 4, nil)
	tab.Add(q)
	cq := d.newCQ(tab)
	for i := range 1<<16 + 5 {
		if !q.SQ.Send(uint64(i), wrSend, signaled, 0, local) {
			t.Fatal("full")
		}
		q.SQ.Ring()
		if got := binary.BigEndian.Uint32(d.wqe(i, 4)); got != uint32(i&0xffff)<<8|0x0a {
			t.Fatalf("wqe %d begins with %#x", i, got)
		}
		if got := d.sendRecord(); got != uint16(i+1) {
			t.Fatalf("doorbell record %d after wqe %d", got, i)
		}
		d.sent(qpn, 0x0a, uint16(i))
		if wc := poll(t, cq, 1)[0]; wc.ID != uint64(i) {
			t.Fatalf("wr %d completed, want %d", wc.ID, i)
		}
	}
}

func TestInlineFromSGEs(t *testing.T) {
	src := alloc(t, 4096)
	for i := range src {
		src[i] = byte(i)
	}
	d, q := newSQ(t, 8, nil)
	tab := new(mlx5.Table)
	tab.Add(q)
	cq := d.newCQ(tab)
	for _, cut := range [][]uint32{{1}, {12}, {13}, {28}, {29}, {5, 7}, {5, 8}, {12, 16}, {0, 3, 0, 70},
		{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {200}, {0}, {}} {
		var sges []mlx5.SGE
		total := uint32(0)
		for _, n := range cut {
			sges = append(sges, mlx5.SGE{Addr: addr(src[total:]), Length: n})
			total += n
		}
		for range 9 { // also around the end
			at := int(d.sendRecord())
			if !q.SQ.Begin(wrSend, signaled, 0, mlx5.InlineSegs(int(total))) {
				t.Fatal("full")
			}
			q.SQ.InlineFrom(sges, int(total))
			q.SQ.Commit(1)
			q.SQ.Ring()
			ctrl := d.wqe(at, 16)
			ds := int(ctrl[7])
			if total == 0 {
				if ds != 1 {
					t.Fatalf("%v: %d segments", cut, ds)
				}
			} else {
				want := append(binary.BigEndian.AppendUint32(nil, total|1<<31), src[:total]...)
				same(t, fmt.Sprint(cut), d.wqe(at, 16+len(want))[16:], want)
				if ds != 1+(len(want)+15)/16 {
					t.Errorf("%v: %d segments", cut, ds)
				}
			}
			d.sent(qpn, 0x0a, uint16(at))
			poll(t, cq, 1)
		}
	}
}

func TestFences(t *testing.T) {
	d, q := newSQ(t, 64, nil)
	fm := func(what string, want byte) {
		t.Helper()
		q.SQ.Ring()
		at := binary.BigEndian.Uint16(d.uar[0x801:])
		if got := d.wqe(int(at), 16)[11]; got != want {
			t.Errorf("%s: fm_ce_se %#x, want %#x", what, got, want)
		}
	}
	q.SQ.LocalInv(1, 0, 5)
	fm("local invalidate", 0)
	q.SQ.RDMA(1, wrWrite, signaled, 0, remote, local)
	fm("after an invalidate", 0x28)
	q.SQ.RDMA(1, wrWrite, signaled, 0, remote, local)
	fm("one later", 0x08)
	q.SQ.LocalInv(1, 0, 5)
	q.SQ.LocalInv(1, fence, 5)
	fm("a fence takes the small one's place", 0x80)
	general(&q.SQ, wrSend, 0, 0, nil, local)
	fm("small fence, the long way", 0x20)
	general(&q.SQ, wrSend, fence|solicited, 0, nil, local)
	fm("fence, solicited", 0x82)
	q.SQ.LocalInv(1, 0, 5)
	q.SQ.Send(1, wrSend, fence|signaled, 0, local)
	fm("fence after an invalidate", 0x88)
	q.SQ.Send(1, wrSend, signaled, 0, local)
	fm("then none", 0x08)
	m := q.SQ.Mark()
	q.SQ.LocalInv(1, 0, 5)
	q.SQ.Rollback(m)
	q.SQ.Send(1, wrSend, signaled, 0, local)
	fm("the invalidate was taken back", 0x08)
	q.SQ.LocalInv(1, 0, 5)
	q.SQ.Ring()
	m = q.SQ.Mark()
	q.SQ.Send(1, wrSend, signaled, 0, local)
	q.SQ.Rollback(m)
	q.SQ.Send(1, wrSend, signaled, 0, local)
	fm("the one after the invalidate was taken back", 0x28)
	q.SQ.LocalInv(1, 0, 5)
	q.SQ.Begin(wrSend, 0, 0, 2) // and left
	q.SQ.Send(1, wrSend, signaled, 0, local)
	fm("a WQE was left after the invalidate", 0x28)
}

func TestSignalAll(t *testing.T) {
	d, q := newSQ(t, 16, func(c *mlx5.SQConfig) { c.SignalAll = true })
	q.SQ.Send(1, wrSend, 0, 0, local)
	q.SQ.RDMA(1, wrWrite, solicited, 0, remote, local)
	general(&q.SQ, wrSend, fence, 0, nil, local)
	q.SQ.LocalInv(1, 0, 1)
	for i, want := range []byte{0x08, 0x0a, 0x88, 0x08} {
		if got := d.sq[i*64+11]; got != want {
			t.Errorf("wqe %d: fm_ce_se %#x, want %#x", i, got, want)
		}
	}
}

// A queue is full at MaxWR work requests or when the ring is, whichever comes first. A signaled completion frees
// everything before it.
func TestFullByWorkRequests(t *testing.T) {
	tab := new(mlx5.Table)
	d, q := newSQ(t, 16, func(c *mlx5.SQConfig) { c.MaxWR = 5 })
	tab.Add(q)
	cq := d.newCQ(tab)
	fill := func(n int) {
		t.Helper()
		for i := range n {
			if !q.SQ.Send(uint64(i), wrSend, 0, 0, local) {
				t.Fatalf("full after %d of %d", i, n)
			}
		}
		if q.SQ.Send(9, wrSend, 0, 0, local) || q.SQ.RDMA(9, wrWrite, 0, 0, remote, local) || q.SQ.Begin(wrSend, 0, 0,
			0) || q.SQ.LocalInv(9, 0, 0) {
			t.Fatalf("took more than %d", n)
		}
		q.SQ.Ring()
	}
	fill(5)
	at := uint16(0)
	for lap := range 40 {
		free := lap%5 + 1
		at += uint16(free)
		d.sent(qpn, 0x0a, at-1) // the last of free work requests, the others unsignaled
		poll(t, cq, 1)
		if got := q.SQ.Outstanding(); int(got) != 5-free {
			t.Fatalf("%d outstanding, want %d", got, 5-free)
		}
		fill(free)
	}
}

func TestFullByBlocks(t *testing.T) {
	tab := new(mlx5.Table)
	d, q := newSQ(t, 8, nil)
	tab.Add(q)
	cq := d.newCQ(tab)
	wide := func() bool { // 9 segments, 3 blocks
		return inline(&q.SQ, wrSend, nil, 8*16-4)
	}
	narrow := func() bool { return q.SQ.Send(1, wrSend, 0, 0, local) }
	if n := fits(wide); n != 2 {
		t.Fatalf("%d work requests of 3 blocks fit in 8, want 2", n)
	}
	if n := fits(narrow); n != 2 {
		t.Fatalf("%d blocks are left, want 2", n)
	}
	q.SQ.Ring()
	d.sent(qpn, 0x0a, 0)
	poll(t, cq, 1)
	if !wide() || q.SQ.Send(1, wrSend, 0, 0, local) {
		t.Fatal("a completion of 3 blocks must free 3")
	}
	q.SQ.Ring()
	d.sent(qpn, 0x0a, 8) // everything
	poll(t, cq, 1)
	if q.SQ.Begin(wrSend, 0, 0, 63) || q.SQ.Begin(wrSend, 0, 0, 1000) {
		t.Fatal("no WQE has more than 63 segments")
	}
	if q.SQ.Begin(wrSend, 0, 0, 32) || !q.SQ.Begin(wrSend, 0, 0, 31) {
		t.Fatal("8 blocks are 32 segments with the control segment")
	}
	for range 31 {
		q.SQ.Data(local)
	}
	q.SQ.Commit(1)
	if got := d.wqe(11, 8)[7]; got != 32 {
		t.Fatalf("%d segments", got)
	}
	if q.SQ.Outstanding() != 1 {
		t.Fatal(q.SQ.Outstanding())
	}
}

// Operands of atomics with masks take room: as many fit as there are blocks for.
func TestFullByMasked(t *testing.T) {
	for _, c := range []struct {
		op, size uint32
		want     int
	}{
		{work.MaskedCompareSwap, 32, 2}, // 11 segments, 3 blocks
		{work.MaskedCompareSwap, 16, 4}, // 7
		{work.MaskedFetchAdd, 32, 4},    // 7
		{work.MaskedFetchAdd, 8, 8},     // 4, a block
	} {
		_, q := newSQ(t, 8, nil)
		wr := mlx5.SendWR{Opcode: c.op, SGEs: []mlx5.SGE{*local}, Remote: *remote}
		wr.Masked = &work.MaskedAtomic{Size: c.size}
		if n := fits(func() bool { return q.SQ.Add(&wr, 0, 0) }); n != c.want {
			t.Errorf("%+v: %d fit in 8 blocks", c, n)
		}
	}
}

// fits returns how often f succeeds.
func fits(f func() bool) int {
	n := 0
	for n < 100 && f() {
		n++
	}
	return n
}

// Segments given to Begin and never added do not take blocks.
func TestBeginAtMost(t *testing.T) {
	d, q := newSQ(t, 8, nil)
	general(&q.SQ, wrWrite, signaled, 0, remote, empty, empty, empty, empty, local)
	q.SQ.Ring()
	if d.sendRecord() != 1 || d.sq[7] != 3 {
		t.Errorf("record %d, ds %d", d.sendRecord(), d.sq[7])
	}
}

func TestRollback(t *testing.T) {
	d, q := newSQ(t, 8, nil)
	q.SQ.Send(1, wrSend, signaled, 0, local)
	q.SQ.Ring()
	reg := bytes.Clone(d.uar)
	m := q.SQ.Mark()
	for i := range 7 {
		if !q.SQ.RDMA(2, wrWrite, signaled, 0, remote, local) || q.SQ.Since(m) != i+1 {
			t.Fatal(i, q.SQ.Since(m))
		}
	}
	q.SQ.Rollback(m)
	q.SQ.Ring()
	if d.sendRecord() != 1 || q.SQ.Outstanding() != 1 || q.SQ.Since(m) != 0 {
		t.Errorf("record %d, %d outstanding, %d since", d.sendRecord(), q.SQ.Outstanding(), q.SQ.Since(m))
	}
	same(t, "registers", d.uar, reg)

	// After two are built and one is rolled back, the doorbell is that of the first.
	q.SQ.Send(3, wrSendImm, signaled, 7, local)
	m = q.SQ.Mark()
	q.SQ.RDMA(4, wrWrite, signaled, 0, remote, local)
	q.SQ.Rollback(m)
	q.SQ.Ring()
	same(t, "bell", d.uar[0x800:0x808], parse(t, "0000010b abcd1202"))
	if d.sendRecord() != 2 {
		t.Errorf("record %d", d.sendRecord())
	}
	// A WQE that was rolled back cannot complete.
	tab := new(mlx5.Table)
	tab.Add(q)
	cq := d.newCQ(tab)
	d.sent(qpn, 0x08, 2)
	if _, err := cq.Poll(make([]mlx5.WC, 1)); err == nil || !q.Broken() {
		t.Errorf("a completion for what was rolled back: %v", err)
	}
}

// The register receives the WQE itself or its first 8 bytes, in alternating halves.
func TestBlueFlame(t *testing.T) {
	type post struct {
		name  string
		build func(q *mlx5.SQ)
		whole bool // expected, where BlueFlame is not for inline only
		inl   bool // and where it is
	}
	posts := []post{
		{"write", func(q *mlx5.SQ) { q.RDMA(1, wrWrite, 0, 0, remote, local) }, true, false},
		{"one segment", func(q *mlx5.SQ) { q.Send(1, wrSend, 0, 0, empty) }, false, false},
		{"two", func(q *mlx5.SQ) { q.Send(1, wrSend, 0, 0, local); q.Send(1, wrSend, 0, 0, local) }, false, false},
		{"inline", func(q *mlx5.SQ) { inline(q, wrSend, nil, 30) }, true, true},
		{"inline, 16 segments: the half register", func(q *mlx5.SQ) { inline(q, wrSend, nil, 15*16-4) }, true, true},
		{"inline, 17 segments", func(q *mlx5.SQ) { inline(q, wrSend, nil, 16*16-4) }, false, false},
		{"write after inline", func(q *mlx5.SQ) { q.RDMA(1, wrWrite, 0, 0, remote, local) }, true, false},
		{"inline, then one that is left", func(q *mlx5.SQ) { inline(q, wrSend, nil, 30); q.Begin(wrSend, 0, 0, 1) },
			true, true},
		{"long way", func(q *mlx5.SQ) { general(q, wrSend, 0, 0, nil, local) }, true, false},
		{"left, then write", func(q *mlx5.SQ) {
			q.Begin(wrSend, 0, 0, 2)
			q.Inline(counted(20))
			q.RDMA(1, wrWrite, 0, 0, remote, local)
		}, true, false},
	}
	for _, inlineOnly := range []bool{false, true} {
		for _, bf := range []uint32{256, 0} {
			t.Run(fmt.Sprintf("inlineOnly=%v/bf=%d", inlineOnly, bf), func(t *testing.T) {
				tab := new(mlx5.Table)
				d, q := newSQ(t, 16, func(c *mlx5.SQConfig) { c.BlueFlame, c.InlineBF = bf, inlineOnly })
				tab.Add(q)
				cq := d.newCQ(tab)
				off, at := 0, 0
				for lap := range 5 {
					for _, p := range posts {
						clear(d.uar)
						p.build(&q.SQ)
						q.SQ.Ring()
						last := at
						if p.name == "two" {
							last++
						}
						ds := int(d.wqe(last, 8)[7])
						end := last + (ds+3)/4
						if int(d.sendRecord()) != end&0xffff {
							t.Fatalf("%s: record %d, want %d", p.name, d.sendRecord(), end)
						}
						want := make([]byte, 4096)
						n := 8
						if bf != 0 && (p.whole && !inlineOnly || p.inl) {
							n = (ds + 3) / 4 * 64
						}
						copy(want[0x800+off:], d.wqe(last, n))
						same(t, fmt.Sprintf("lap %d, %s at block %d: register", lap, p.name, last),
							d.uar[0x800:], want[0x800:])
						off ^= int(bf)
						d.sent(qpn, d.wqe(last, 4)[3], uint16(last))
						poll(t, cq, 1)
						at = end
						// Nothing to tell is no doorbell, and no toggle.
						clear(d.uar)
						q.SQ.Ring()
						same(t, "idle", d.uar, make([]byte, 4096))
					}
				}
			})
		}
	}
}

// Queues that share a register alternate between its halves.
func TestSharedRegister(t *testing.T) {
	var half uintptr
	d, q := newSQ(t, 16, func(c *mlx5.SQConfig) { c.BlueFlame, c.Half = 256, &half })
	_, p := newSQ(t, 16, func(c *mlx5.SQConfig) { c.BlueFlame, c.Half, c.Reg = 256, &half, ptr(d.uar[0x800:]) })
	for i := range 12 {
		clear(d.uar)
		sq := &q.SQ
		if i%3 == 1 {
			sq = &p.SQ
		}
		sq.RDMA(1, wrWrite, 0, 0, remote, local)
		sq.Ring()
		used, idle := d.uar[0x800:][:256], d.uar[0x900:][:256]
		if i%2 == 1 {
			used, idle = idle, used
		}
		if !bytes.Equal(idle, make([]byte, 256)) || bytes.Equal(used[:64], make([]byte, 64)) {
			t.Fatalf("doorbell %d went to the wrong half", i)
		}
	}
}
