//go:build amd64 || arm64

package ibv

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mlx5"
)

// TestEventOrder has events read while somebody arms. Who has seen n events arms with a number that counts them: the
// device ignores an arming with a lower one, and who then sleeps never wakes.
func TestEventOrder(t *testing.T) {
	const events = 100_000
	var entries [16]uint64
	var page [512]uint64
	var record [2]uint32
	ring := mlx5.NewCQ(&mlx5.CQConfig{Buf: unsafe.Pointer(&entries), Entries: 2, Size: 64,
		DBRec: unsafe.Pointer(&record), UAR: unsafe.Pointer(&page), QPs: new(mlx5.Table)})
	cq := &CQ{ring: ring, direct: ring}
	var seen atomic.Uint32
	defer seen.Store(events)
	go func() {
		for i := range uint32(events) {
			for tries := 1; seen.Load() < i; tries++ { // one at a time: two bits of the number tell which it is
				if tries%64 == 0 {
					runtime.Gosched()
				}
			}
			cq.event()
		}
	}()
	for n, tries := uint32(0), 1; n < events; tries++ {
		n = cq.Events()
		cq.Arm(false)
		if number := bits.ReverseBytes32(record[1]) >> 28 & 3; number != n&3 && number != (n+1)&3 {
			t.Fatalf("armed with number %d (mod 4) after %d events", number, n)
		}
		seen.Store(n)
		if tries%64 == 0 {
			runtime.Gosched()
		}
	}
}
