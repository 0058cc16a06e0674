package mmio_test

import (
	"bytes"
	"encoding/binary"
	"testing"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mmio"
)

// page is memory for records and a register, aligned like a register, and filled so that a stray store shows.
func page() []byte {
	b := make([]byte, 8192+64)
	b = b[-uintptr(unsafe.Pointer(unsafe.SliceData(b)))&63:][:8192]
	for i := range b {
		b[i] = 0xee
	}
	return b
}

func ptr(b []byte, off int) unsafe.Pointer { return unsafe.Pointer(&b[off]) }

func want(t *testing.T, b []byte, places map[int][]byte) {
	t.Helper()
	w := bytes.Repeat([]byte{0xee}, len(b))
	for off, p := range places {
		copy(w[off:], p)
	}
	for i := range b {
		if b[i] != w[i] {
			t.Fatalf("byte %d is %#x, want %#x", i, b[i], w[i])
		}
	}
}

func le32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }
func le64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

func TestStores(t *testing.T) {
	b := page()
	mmio.RingSend(ptr(b, 4), 0x01020304, ptr(b, 4096), 0x1122334455667788)
	want(t, b, map[int][]byte{4: le32(0x01020304), 4096: le64(0x1122334455667788)})

	b = page()
	mmio.ArmCQ(ptr(b, 4), 0x01020304, ptr(b, 4096+32), 0x1122334455667788)
	want(t, b, map[int][]byte{4: le32(0x01020304), 4096 + 32: le64(0x1122334455667788)})

	for _, f := range []func(unsafe.Pointer, uint32){mmio.Record, mmio.Consumed, mmio.Moved} {
		b = page()
		f(ptr(b, 8), 0xfffefdfc)
		want(t, b, map[int][]byte{8: le32(0xfffefdfc)})
	}
}

// A WQE of one to four blocks at every place of a ring of eight, including around its end.
func TestBlueFlame(t *testing.T) {
	ring := page()[:8*64]
	for i := range ring {
		ring[i] = byte(i*7 + i/64)
	}
	for blocks := 1; blocks <= 4; blocks++ {
		for first := range 8 {
			b := page()
			mmio.RingSendBlueFlame(ptr(b, 0), uint32(first), ptr(b, 4096), ptr(ring, first*64), blocks, ptr(ring, 0),
				unsafe.Add(ptr(ring, 0), len(ring)))
			wqe := slicesAround(ring, first*64, blocks*64)
			want(t, b, map[int][]byte{0: le32(uint32(first)), 4096: wqe})
		}
	}
}

func slicesAround(ring []byte, from, n int) []byte {
	var out []byte
	for i := range n {
		out = append(out, ring[(from+i)%len(ring)])
	}
	return out
}

// loads does the loads of a poller: the end of an entry, then its start.
//
//go:noinline
func loads(p unsafe.Pointer) uint64 {
	end := mmio.LoadCQE(unsafe.Add(p, 56))
	mmio.Loaded()
	return end + *(*uint64)(p)
}

// stores does the stores of a poller and of a poster: it reads an entry and publishes the consumer index, then writes a
// WQE and its record.
//
//go:noinline
func stores(p unsafe.Pointer) uint32 {
	v := *(*uint32)(p)
	mmio.Consumed(unsafe.Add(p, 8), 1)
	*(*uint32)(unsafe.Add(p, 64)) = 2
	mmio.Record(p, 3)
	mmio.RingSend(unsafe.Add(p, 128), 4, unsafe.Add(p, 4096), 5)
	return v
}

func TestLoad(t *testing.T) {
	b := page()
	copy(b[56:], le64(5))
	copy(b, le64(1<<63))
	if got := loads(ptr(b, 0)); got != 1<<63+5 {
		t.Errorf("loaded %#x", got)
	}
}

func TestStoresInOrder(t *testing.T) {
	b := page()
	copy(b, le32(7))
	if got := stores(ptr(b, 0)); got != 7 {
		t.Errorf("loaded %d", got)
	}
	want(t, b, map[int][]byte{0: le32(3), 8: le32(1), 64: le32(2), 128: le32(4), 4096: le64(5)})
}

func TestNoAllocation(t *testing.T) {
	b := page()
	half := 0
	if n := testing.AllocsPerRun(100, func() {
		mmio.RingSend(ptr(b, 4), 1, ptr(b, 4096), 2)
		mmio.RingSendBlueFlame(ptr(b, 4), 1, ptr(b, 4096), ptr(b, 1024), 4, ptr(b, 1024), ptr(b, 2048))
		mmio.Record(ptr(b, 0), 3)
		mmio.Consumed(ptr(b, 8), 3)
		mmio.Moved(ptr(b, 8), 3)
		mmio.ArmCQ(ptr(b, 8), 3, ptr(b, 4096), 2)
		half += int(loads(ptr(b, 64)) & 1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRingSend(b *testing.B) {
	m := page()
	for b.Loop() {
		mmio.RingSend(ptr(m, 4), 1, ptr(m, 4096), 2)
	}
}

func BenchmarkRingSendBlueFlame(b *testing.B) {
	m := page()
	for b.Loop() {
		mmio.RingSendBlueFlame(ptr(m, 4), 1, ptr(m, 4096), ptr(m, 1024), 1, ptr(m, 1024), ptr(m, 2048))
	}
}

func BenchmarkRecord(b *testing.B) {
	m := page()
	for b.Loop() {
		mmio.Record(ptr(m, 4), 1)
	}
}

func BenchmarkArmCQ(b *testing.B) {
	m := page()
	for b.Loop() {
		mmio.ArmCQ(ptr(m, 4), 1, ptr(m, 4096), 2)
	}
}

func BenchmarkLoadCQE(b *testing.B) {
	m := page()
	for b.Loop() {
		loads(ptr(m, 0))
	}
}
