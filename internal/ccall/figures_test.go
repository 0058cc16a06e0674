//go:build linux && !pureverbs_native

package ccall

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/ebitengine/purego"
)

// TestFigures measures a call of a C function that adds three numbers: from C
// through a pointer, and from Go in each of our ways, in turns.
func TestFigures(t *testing.T) {
	if os.Getenv("PUREVERBS_FIGURES") == "" {
		t.Skip("measures: make bench")
	}
	add3, loop := fn(t, "add3"), fn(t, "call_loop")
	if name, why := HotPath(); name != "g0" {
		t.Errorf("the hot path is %s: %s", name, why)
	}
	ways := []struct {
		name string
		n    int
		run  func(n int)
	}{
		{"call_c_ns", 4 << 20, func(n int) { Slow(loop, uintptr(n), 0, 0) }},
		{"call_hot_ns", 4 << 20, func(n int) {
			for i := range n {
				Hot(add3, uintptr(i), 2, 3)
			}
		}},
		{"call_fallback_ns", 1 << 20, func(n int) {
			for i := range n {
				Slow(add3, uintptr(i), 2, 3)
			}
		}},
		{"call_purego_ns", 1 << 18, func(n int) {
			for i := range n {
				purego.SyscallN(add3, uintptr(i), 2, 3)
			}
		}},
		{"call_control_ns", 1 << 18, func(n int) {
			for i := range n {
				Int(add3, uintptr(i), 2, 3)
			}
		}},
	}
	const rounds = 9
	times := make([][]float64, len(ways))
	for range rounds {
		for i, w := range ways {
			w.run(w.n / 16)
			start := time.Now()
			w.run(w.n)
			times[i] = append(times[i], float64(time.Since(start).Nanoseconds())/float64(w.n))
		}
	}
	for i, w := range ways {
		slices.Sort(times[i])
		fmt.Printf("figure %s %.2f ns\n", w.name, times[i][rounds/2])
	}
	fmt.Printf("figure call_hot_minus_c_ns %.2f ns\n", times[1][rounds/2]-times[0][rounds/2])
	fmt.Printf("figure call_hot_allocs %.0f allocs/op\n", testing.AllocsPerRun(1000, func() { Hot(add3, 1, 2, 3) }))
	fmt.Printf("figure call_fallback_allocs %.0f allocs/op\n", testing.AllocsPerRun(1000,
		func() { Slow(add3, 1, 2, 3) }))
	fmt.Printf("figure call_purego_allocs %.0f allocs/op\n", testing.AllocsPerRun(1000,
		func() { purego.SyscallN(add3, 1, 2, 3) }))
}
