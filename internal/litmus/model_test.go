package litmus

import (
	"slices"
	"strings"
	"testing"
)

func r(reg, place string, deps ...string) Op {
	return Op{Kind: Load, Place: place, Reg: reg, Deps: deps}
}

func w(place string, v int, deps ...string) Op {
	return Op{Kind: Store, Place: place, Val: v, Deps: deps}
}

func b(reg string, v int) Op { return Op{Kind: Branch, Reg: reg, Old: v} }

func fence(k Kind) Op { return Op{Kind: k} }

func kind(k Kind, o Op) Op {
	o.Kind = k
	return o
}

// The usual litmus tests, with the outcomes that the manuals of both architectures give.
func TestModel(t *testing.T) {
	for _, tt := range []struct {
		name         string
		threads      []Program
		bad          string // values of registers
		amd64, arm64 bool   // it can be seen
	}{
		{"MP", []Program{{w("x", 1), w("y", 1)}, {r("a", "y"), r("b", "x")}}, "1:a=1 1:b=0", false, true},
		{"MP, stores fenced", []Program{{w("x", 1), fence(StoresFence), w("y", 1)}, {r("a", "y"), r("b", "x")}},
			"1:a=1 1:b=0", false, true},
		{"MP, both fenced", []Program{{w("x", 1), fence(StoresFence), w("y", 1)},
			{r("a", "y"), fence(LoadsFence), r("b", "x")}}, "1:a=1 1:b=0", false, false},
		{"MP, inner shareable", []Program{{w("x", 1), fence(StoresFence), w("y", 1)},
			{r("a", "y"), fence(InnerFence), r("b", "x")}}, "1:a=1 1:b=0", false, true},
		{"MP, address", []Program{{w("x", 1), fence(StoresFence), w("y", 1)}, {r("a", "y"), r("b", "x", "a")}},
			"1:a=1 1:b=0", false, false},
		{"MP, branch", []Program{{w("x", 1), fence(StoresFence), w("y", 1)}, {r("a", "y"), b("a", 1), r("b", "x")}},
			"1:a=1 1:b=0", false, true},
		{"MP, release and acquire", []Program{{w("x", 1), kind(StoreRelease, w("y", 1))},
			{kind(LoadAcquire, r("a", "y")), r("b", "x")}}, "1:a=1 1:b=0", false, false},
		{"SB", []Program{{w("x", 1), r("a", "y")}, {w("y", 1), r("b", "x")}}, "0:a=0 1:b=0", true, true},
		{"SB, fenced", []Program{{w("x", 1), fence(Fence), r("a", "y")}, {w("y", 1), fence(Fence), r("b", "x")}},
			"0:a=0 1:b=0", false, false},
		{"SB, release and acquire", []Program{{kind(StoreRelease, w("x", 1)), kind(LoadAcquire, r("a", "y"))},
			{kind(StoreRelease, w("y", 1)), kind(LoadAcquire, r("b", "x"))}}, "0:a=0 1:b=0", true, false},
		{"SB, stores done", []Program{{w("x", 1), fence(StoresDone), r("a", "y")},
			{w("y", 1), fence(StoresDone), r("b", "x")}}, "0:a=0 1:b=0", false, false},
		{"LB", []Program{{r("a", "x"), w("y", 1)}, {r("b", "y"), w("x", 1)}}, "0:a=1 1:b=1", false, true},
		{"LB, branch", []Program{{r("a", "x"), b("a", Anything), w("y", 1)},
			{r("b", "y"), b("b", Anything), w("x", 1)}}, "0:a=1 1:b=1", false, false},
		{"LB, data", []Program{{r("a", "x"), w("y", 1, "a")}, {r("b", "y"), w("x", 1, "b")}}, "0:a=1 1:b=1",
			false, false},
		{"coherence", []Program{{w("x", 1)}, {r("a", "x"), r("b", "x")}}, "1:a=1 1:b=0", false, false},
		{"forwarding", []Program{{w("x", 1), r("a", "x")}}, "0:a=0", false, false},
		{"IRIW, loads fenced", []Program{{w("x", 1)}, {w("y", 1)}, {r("a", "x"), fence(LoadsFence), r("b", "y")},
			{r("c", "y"), fence(LoadsFence), r("d", "x")}}, "2:a=1 2:b=0 3:c=1 3:d=0", false, false},
		{"lock", []Program{{Op{Kind: Swap, Place: "l", Val: 1}, r("a", "x"), w("x", 1), kind(StoreRelease, w("l", 0))},
			{Op{Kind: Swap, Place: "l", Val: 1}, r("b", "x"), w("x", 1), kind(StoreRelease, w("l", 0))}},
			"0:a=0 1:b=0", false, false},
		{"lock, plain unlock", []Program{{Op{Kind: Swap, Place: "l", Val: 1}, r("a", "x"), w("x", 1), w("l", 0)},
			{Op{Kind: Swap, Place: "l", Val: 1}, r("b", "x"), w("x", 1), w("l", 0)}}, "0:a=0 1:b=0", false, true},
		{"combining", []Program{{w("x", 1), kind(Combine, w("reg", 1))},
			{Op{Kind: Await, Place: "reg", Old: 1}, r("a", "x")}}, "1:a=0", true, true},
		{"combining, fenced", []Program{{w("x", 1), fence(CombineFence), fence(StoresDone), kind(Combine, w("reg", 1))},
			{Op{Kind: Await, Place: "reg", Old: 1}, r("a", "x")}}, "1:a=0", false, false},
	} {
		for m, want := range map[Model]bool{AMD64: tt.amd64, ARM64: tt.arm64} {
			var threads []Thread
			for _, p := range tt.threads {
				threads = append(threads, Thread{m, p})
			}
			ends, _ := Explore(threads, nil)
			seen := slices.ContainsFunc(ends, func(e End) bool {
				for cond := range strings.SplitSeq(tt.bad, " ") {
					reg, v, _ := strings.Cut(cond, "=")
					if got, ok := e.Regs[reg]; !ok || got != int(v[0]-'0') {
						return false
					}
				}
				return true
			})
			if seen != want {
				t.Errorf("%s on %s: seen %v, want %v", tt.name, m, seen, want)
			}
		}
	}
}

// A device is in program order, and its stores to a register have a history.
func TestDevice(t *testing.T) {
	reg := func(v int) Op { return Op{Kind: Combine, Place: "reg", Val: v} }
	ends, _ := Explore([]Thread{{Device, Program{reg(1), reg(2)}}}, nil)
	if len(ends) != 1 || !slices.Equal(ends[0].History["reg"], []int{1, 2}) {
		t.Errorf("%v", ends)
	}
	waits := Thread{Device, Program{Op{Kind: Await, Place: "x", Old: 1}, w("y", 1)}}
	ends, _ = Explore([]Thread{waits}, map[string]int{"x": 2})
	if len(ends) != 1 || ends[0].History["y"] != nil {
		t.Errorf("it did not wait: %v", ends)
	}
}
