//go:build (amd64 || arm64) && !race

package ibv

import (
	"math/bits"
	"runtime/debug"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/mlx5"
)

// TestEventOrder looks at what an event counts first. Who has seen n events arms with a number that counts them: the
// device ignores an arming with a lower one, and who then sleeps never wakes.
func TestEventOrder(t *testing.T) {
	var entries [16]uint64
	var page [512]uint64
	var record [2]uint32
	ring := mlx5.NewCQ(&mlx5.CQConfig{Buf: unsafe.Pointer(&entries), Entries: 2, Size: 64,
		DBRec: unsafe.Pointer(&record), UAR: unsafe.Pointer(&page), QPs: new(mlx5.Table)})
	cq := &CQ{direct: cqDirect{ring: ring, live: ring}}
	for n := range uint32(9) {
		cq.Arm(false)
		if number := bits.ReverseBytes32(record[1]) >> 28 & 3; number != n&3 || cq.Events() != n {
			t.Errorf("armed with number %d (mod 4) after %d events, want %d", number, cq.Events(), n)
		}
		cq.event()
	}

	// A ring that cannot be written stops an event at its arming number. Nobody may have seen the event by then.
	mem, err := unix.Mmap(-1, 0, int(unsafe.Sizeof(*ring)), unix.PROT_READ, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	cq = &CQ{direct: cqDirect{ring: (*mlx5.CQ)(unsafe.Pointer(&mem[0]))}}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the arming number was not counted")
			}
		}()
		cq.event()
	}()
	if n := cq.Events(); n != 0 {
		t.Errorf("%d events are seen before the arming number counts them", n)
	}
}
