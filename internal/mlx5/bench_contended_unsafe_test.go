package mlx5

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/spin"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestFiguresContended prints the cost of posting one work request when four goroutines post to the same queue, and
// when one does, with the lock of a queue and with a sync.Mutex in its place.
func TestFiguresContended(t *testing.T) {
	if os.Getenv("PUREVERBS_FIGURES") == "" {
		t.Skip("measures: make bench")
	}
	const rounds, posts = 15, 1 << 19
	locks := []struct {
		name string
		lock sync.Locker
	}{{"", new(spin.Lock)}, {"_mutex", new(sync.Mutex)}}
	ns := map[string][]float64{}
	var names []string
	for range rounds {
		for _, goroutines := range []int{1, 4} {
			for _, l := range locks {
				name := fmt.Sprintf("mlx5_post1_goroutines_%d%s_ns", goroutines, l.name)
				if ns[name] == nil {
					names = append(names, name)
				}
				ns[name] = append(ns[name], contend(l.lock, goroutines, posts))
			}
		}
	}
	fmt.Println("# processor:", testutil.Processor())
	for _, name := range names {
		slices.Sort(ns[name])
		fmt.Printf("figure %s %.1f ns\n", name, ns[name][rounds/4]) // others run beside: the lower quartile
	}
}

// contend lets goroutines post under a lock and returns the time for each work request.
func contend(l sync.Locker, goroutines, posts int) float64 {
	q, _, _ := newRing().open(0x123)
	q.SQ.opcodes = 1 << aWrite.Opcode
	var wg sync.WaitGroup
	start := time.Now()
	for range goroutines {
		wg.Go(func() {
			for range posts / goroutines {
				l.Lock()
				q.SQ.Post(&aWrite, 1)
				publish64(&q.SQ.done, uint64(q.SQ.cur)<<32|uint64(q.SQ.head)) // completed at once
				l.Unlock()
			}
		})
	}
	wg.Wait()
	return float64(time.Since(start).Nanoseconds()) / float64(posts)
}
