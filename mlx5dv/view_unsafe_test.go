package mlx5dv

import (
	"bytes"
	"encoding/binary"
	"testing"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mmio"
)

// plainQP is a view of memory that no device reads: a ring of 8 blocks, the doorbell
// record, and a register of two halves.
func plainQP(tb testing.TB, blueFlame uint32) (q *QPView, sq, db, reg []byte) {
	tb.Helper()
	if !mmio.Supported {
		tb.Skip("the stores of this package are for amd64 and arm64")
	}
	mem := make([]uint64, 4096/8)
	b := unsafe.Slice((*byte)(unsafe.Pointer(&mem[0])), 4096)
	sq, rq, db, reg := b[:512], b[512:768], b[1024:1032], b[2048:2560]
	q = &QPView{
		Num: 0x123456, SQ: Ring{Buf: sq, Stride: 64, Count: 8}, RQ: Ring{Buf: rq, Stride: 32, Count: 8},
		BlueFlame: blueFlame,
		dbrec:     unsafe.Pointer(&db[0]), reg: unsafe.Pointer(&reg[0]), start: unsafe.Pointer(&sq[0]),
		end: unsafe.Pointer(&rq[0]), half: new(uintptr),
	}
	return q, sq, db, reg
}

func TestQPView(t *testing.T) {
	q, sq, db, reg := plainQP(t, 256)
	for i := range sq {
		sq[i] = byte(i * 7)
	}
	q.Control(0x1000e, OpSend, WQESignaled, 5, 0x01020304)
	if want := []byte{0, 0, 0x0e, 0x0a, 0x12, 0x34, 0x56, 5, 0, 0, 0, 8, 1, 2, 3,
		4}; !bytes.Equal(sq[6*64:][:16], want) {
		t.Errorf("control segment % x", sq[6*64:][:16])
	}
	q.RingSend(0x10010, 0x1000e)
	if !bytes.Equal(db, []byte{0, 0, 0, 0, 0, 0, 0, 0x10}) || !bytes.Equal(reg[:8], sq[6*64:][:8]) ||
		!bytes.Equal(reg[8:], make([]byte, 504)) {
		t.Errorf("record % x, register % x", db, reg[:16])
	}
	// The other half, a WQE of three blocks around the end of the ring.
	q.RingSendBlueFlame(0x10011, 0x1000e)
	if want := append(append([]byte{}, sq[6*64:]...), sq[:64]...); !bytes.Equal(reg[256:448], want) || db[7] != 0x11 {
		t.Errorf("register % x", reg[256:448])
	}
	// What does not fit goes by a plain doorbell, into the first half again.
	clear(reg)
	q.RingSendBlueFlame(7, 2)
	q.RingSendBlueFlame(7, 7)
	if !bytes.Equal(reg[:8], sq[2*64:][:8]) || !bytes.Equal(reg[256:264], sq[7*64:][:8]) || reg[8] != 0 {
		t.Errorf("register % x", reg[:16])
	}
	q.RingRecv(0x12345)
	if !bytes.Equal(db[:4], []byte{0, 0, 0x23, 0x45}) {
		t.Errorf("record % x", db)
	}
	// Without BlueFlame there are no halves.
	q, _, _, reg = plainQP(t, 0)
	q.Control(0, 0x0a, 0, 1, 0)
	q.RingSendBlueFlame(1, 0)
	q.RingSend(1, 0)
	if !bytes.Equal(reg[8:], make([]byte, 504)) {
		t.Errorf("register % x", reg)
	}
	// A queue that is not there takes nothing.
	none := &QPView{}
	none.RingSend(1, 0)
	none.RingRecv(1)
	none.Control(0, 0, 0, 0, 0)
}

func plainCQ(tb testing.TB, size uint32) (c *CQView, buf, db, uar []byte) {
	tb.Helper()
	if !mmio.Supported {
		tb.Skip("the stores of this package are for amd64 and arm64")
	}
	mem := make([]uint64, 2048/8)
	b := unsafe.Slice((*byte)(unsafe.Pointer(&mem[0])), 2048)
	buf, db, uar = b[:4*size], b[1024:1032], b[1088:1152]
	c = &CQView{Num: 0xabcdef, Buf: buf, Entries: 4, EntrySize: size, log: 2,
		buf: unsafe.Pointer(&buf[size-64]), dbrec: unsafe.Pointer(&db[0]), uar: unsafe.Pointer(&uar[0])}
	for i := range uint32(4) {
		buf[(i+1)*size-1] = 0xf0
	}
	return c, buf, db, uar
}

func TestCQView(t *testing.T) {
	for _, size := range []uint32{64, 128} {
		c, buf, db, _ := plainCQ(t, size)
		for ci := range uint32(20) {
			if c.Entry(ci) != nil {
				t.Fatalf("entry %d is there before it was written", ci)
			}
			last := (ci%4 + 1) * size
			binary.BigEndian.PutUint32(buf[last-20:], ci) // byte count
			buf[last-1] = byte(ci >> 2 & 1)
			e := c.Entry(ci)
			if len(e) != 64 || binary.BigEndian.Uint32(e[44:]) != ci {
				t.Fatalf("entry %d: % x", ci, e)
			}
			if c.Entry(ci+4) != nil {
				t.Fatalf("entry %d is entry %d of the next lap", ci, ci+4)
			}
			c.Consumed(ci | 0xff000000)
			if binary.BigEndian.Uint32(db) != ci {
				t.Fatalf("record % x", db)
			}
		}
	}
}

func TestViewAllocs(t *testing.T) {
	q, _, _, _ := plainQP(t, 256)
	c, buf, _, _ := plainCQ(t, 64)
	buf[63] = 0
	s := &SRQView{dbrec: q.dbrec}
	i := uint32(0)
	for name, f := range map[string]func(){
		"RingSend":          func() { q.Control(i, OpSend, WQESignaled, 2, 0); q.RingSend(i+1, i); i++ },
		"RingSendBlueFlame": func() { q.RingSendBlueFlame(i+1, i); i++ },
		"RingRecv":          func() { q.RingRecv(i) },
		"Entry":             func() { _ = c.Entry(0) },
		"Consumed":          func() { c.Consumed(i) },
		"SRQ.Ring":          func() { s.Ring(uint16(i)) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkRingSend(b *testing.B) {
	for _, bf := range []uint32{0, 256} {
		b.Run(map[uint32]string{0: "doorbell", 256: "blueflame"}[bf], func(b *testing.B) {
			q, _, _, _ := plainQP(b, bf)
			b.ReportAllocs()
			for i := uint32(0); b.Loop(); i++ {
				q.Control(i, OpSend, WQESignaled, 2, 0)
				q.RingSendBlueFlame(i+1, i)
			}
		})
	}
}

func BenchmarkEntry(b *testing.B) {
	c, buf, _, _ := plainCQ(b, 64)
	buf[63] = 0
	b.ReportAllocs()
	for b.Loop() {
		if c.Entry(0) == nil {
			b.Fatal("no entry")
		}
		c.Consumed(1)
	}
}

// nativeBytes returns the bytes of v as they lie in memory.
func nativeBytes(v uint64) []byte {
	b := *(*[8]byte)(unsafe.Pointer(&v))
	return b[:]
}
