package mlx5

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

func mappings(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(b, []byte("\n"))
}

// TestMappings makes the rings of many QPs and their CQs. Linux allows 65,530 mappings of a process.
func TestMappings(t *testing.T) {
	const qps, most = 16384, 20000
	for _, size := range []int{64, 4096, 33 << 10, 256 << 10} {
		m := new(memory)
		before := mappings(t)
		for range qps {
			for _, n := range []int{size, 8192} {
				if _, err := m.queue(n); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := mappings(t) - before; got > most {
			t.Errorf("%d QPs with rings of %d bytes have %d mappings, want at most %d", qps, size, got, most)
		}
		if err := m.end(); err != nil {
			t.Fatal(err)
		}
		if got := mappings(t); got > before+100 {
			t.Errorf("%d mappings are left of %d", got-before, before)
		}
	}
}

// TestMemory makes and frees queues at random. Each is zero when it is new, and nobody else writes to it.
func TestMemory(t *testing.T) {
	m := new(memory)
	rnd := rand.New(rand.NewPCG(1, 2))
	type held struct {
		q    queue
		mark byte
	}
	var list []held
	whole := func(b []byte, v byte) bool { return bytes.Count(b, []byte{v}) == len(b) }
	for i := range 4000 {
		if len(list) > 0 && rnd.IntN(100) < 48 {
			j := rnd.IntN(len(list))
			h := list[j]
			if !whole(h.q.ring.bytes, h.mark) || !whole(h.q.record, h.mark) {
				t.Fatalf("step %d: a ring of %d bytes was overwritten", i, len(h.q.ring.bytes))
			}
			if err := m.drop(h.q); err != nil {
				t.Fatal(err)
			}
			list[j] = list[len(list)-1]
			list = list[:len(list)-1]
			continue
		}
		n := rnd.IntN(1 << rnd.IntN(18))
		q, err := m.queue(n)
		if err != nil {
			t.Fatal(err)
		}
		if len(q.ring.bytes) != n || n > 0 && q.ring.addr()%uint64(uverbs.PageSize()) != 0 ||
			q.record.addr()%recordRoom != 0 {
			t.Fatalf("step %d: a ring of %d bytes at %#x, record at %#x", i, n, q.ring.addr(), q.record.addr())
		}
		if !whole(q.ring.bytes, 0) || !whole(q.record, 0) {
			t.Fatalf("step %d: a new ring of %d bytes is not zero", i, n)
		}
		h := held{q, byte(1 + i%255)}
		for k := range q.ring.bytes {
			q.ring.bytes[k] = h.mark
		}
		for k := range q.record {
			q.record[k] = h.mark
		}
		list = append(list, h)
	}
	for _, h := range list {
		if err := m.drop(h.q); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.chunks) > 2 {
		t.Errorf("%d chunks are left for doorbell records", len(m.chunks))
	}
	if err := m.end(); err != nil {
		t.Fatal(err)
	}
}
