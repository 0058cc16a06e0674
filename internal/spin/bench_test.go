package spin

//lint:file-ignore SA2001 what is tested is the lock

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// BenchmarkLock compares the lock with sync.Mutex: one goroutine, two that alternate, and several that contend.
func BenchmarkLock(b *testing.B) {
	for _, kind := range []struct {
		name string
		make func() sync.Locker
	}{
		{"Lock", func() sync.Locker { return new(Lock) }},
		{"Mutex", func() sync.Locker { return new(sync.Mutex) }},
	} {
		b.Run(kind.name+"/turns", func(b *testing.B) {
			l, work, done := kind.make(), make(chan bool), make(chan bool)
			go func() {
				for range work {
					use(l, 16)
					done <- true
				}
			}()
			for b.Loop() {
				use(l, 16)
				work <- true
				<-done
			}
			close(work)
		})
		for _, procs := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("%s/contended/procs=%d", kind.name, procs), func(b *testing.B) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
				l := kind.make()
				var wg sync.WaitGroup
				for range 4 {
					wg.Go(func() { use(l, b.N/4) })
				}
				wg.Wait()
			})
		}
	}
	b.Run("Lock/alone", func(b *testing.B) {
		var l Lock
		for b.Loop() {
			l.Lock()
			l.Unlock()
		}
	})
	b.Run("Mutex/alone", func(b *testing.B) {
		var l sync.Mutex
		for b.Loop() {
			l.Lock()
			l.Unlock()
		}
	})
}

// guarded is about as much work as posting one work request.
var guarded [16]int

func use(l sync.Locker, times int) {
	for range times {
		l.Lock()
		for i := range guarded {
			guarded[i]++
		}
		l.Unlock()
	}
}
