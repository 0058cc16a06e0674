package payload

import (
	"strings"
	"testing"
)

func TestWalker(t *testing.T) {
	for _, tc := range []struct {
		size, cycle, line uint64
		want              []uint64
	}{
		{2, 256, 64, []uint64{0, 64, 128, 192, 0}},
		{65, 256, 64, []uint64{0, 128, 0}},
		{96, 320, 64, []uint64{0, 128, 0}}, // two places fit, a third does not
		{129, 256, 64, []uint64{0, 0, 0}},
		{2, 0, 64, []uint64{0, 0}},
	} {
		w := NewWalker(tc.size, tc.cycle, tc.line)
		for i, want := range tc.want {
			if got := w.Next(); got != want {
				t.Errorf("size %d, cycle %d: step %d is %d, want %d", tc.size, tc.cycle, i, got, want)
			}
		}
	}
}

func TestPattern(t *testing.T) {
	for _, n := range []int{1, 250, 251, 252, 1000, 70000} {
		mem := make([]byte, n)
		Fill(mem, 3)
		p := pattern(3)
		for i := range mem {
			if mem[i] != p[i%patternLen] || mem[i] == 0 {
				t.Fatalf("length %d: byte %d is %#x, want %#x", n, i, mem[i], p[i%patternLen])
			}
		}
	}
}

func TestCheckPattern(t *testing.T) {
	mem := make([]byte, 4096)
	Fill(mem, 0)
	if err := Check(mem, 0, 100, 4096, 64, 1000, -1); err != nil {
		t.Errorf("the right payload: %v", err)
	}
	if err := Check(mem, 1, 100, 4096, 64, 1000, -1); err == nil {
		t.Error("the payload of another queue pair passed")
	}
	mem[3*128+99]++
	err := Check(mem, 0, 100, 4096, 64, 1000, -1)
	if err == nil || !strings.Contains(err.Error(), "byte 483") {
		t.Errorf("one wrong byte: %v, want byte 483", err)
	}
	if err := Check(mem, 0, 100, 4096, 64, 3, -1); err != nil {
		t.Errorf("a wrong byte beyond the three messages: %v", err)
	}
	if err := Check(mem, 0, 4096, 0, 64, 9, 483); err != nil {
		t.Errorf("a byte to skip: %v", err)
	}
	if err := Check(make([]byte, 64), 0, 64, 0, 64, 1, -1); err == nil {
		t.Error("an empty buffer passed")
	}
}
