package abi

import (
	"runtime"
	"strings"
	"testing"
)

func TestExpLayouts(t *testing.T) {
	for _, v := range []string{"v4.9", "v4.9-arm64"} {
		var l layout
		readJSON(t, "ofed-"+v+".json", &l)
		for _, m := range mirrors["ofed-v4.9"] {
			for _, p := range m.compare(l, true) {
				t.Errorf("%s: %s", v, p)
			}
		}
		if len(l) != len(mirrors["ofed-v4.9"])+1 { // the table itself
			t.Errorf("%s: %d structs are on file, %d mirrored", v, len(l), len(mirrors["ofed-v4.9"]))
		}
		checkExpSlots(t, l["struct verbs_context_exp"])
	}
	for _, m := range mirrors["ofed-v4.9"] {
		for _, p := range hostLayout(m.t) {
			t.Errorf("%s: %s", m.c, p)
		}
	}
}

// checkExpSlots compares the distances with the table of C.
func checkExpSlots(t *testing.T, c *cStruct) {
	ours := packageConsts(t, "exp.go", "DistExp")
	for name, f := range c.Fields {
		op := name
		for _, prefix := range []string{"drv_", "lib_", "exp_", "ibv_"} {
			op = strings.TrimPrefix(op, prefix)
		}
		if name == "sz" {
			if d := c.Size - f[0]; d != distExpSize {
				t.Errorf("sz is %d below the end, here %d", d, distExpSize)
			}
			continue
		}
		found := false
		for d, v := range ours {
			if plain(strings.TrimPrefix(d, "DistExp")) == plain(op) {
				found = true
				if int(v) != c.Size-f[0] {
					t.Errorf("%s is %d, in C %d", d, v, c.Size-f[0])
				}
			}
		}
		if !found {
			t.Errorf("%s has no distance", name)
		}
	}
	if len(ours) != len(c.Fields)-1 {
		t.Errorf("%d distances are here, %d slots on file", len(ours), len(c.Fields)-1)
	}
}

func TestExpConstants(t *testing.T) {
	var want map[string]map[string]int64
	readJSON(t, "ofed-consts.json", &want)
	ours := packageConsts(t, "consts_gen.go", "IBV_EXP_")
	for name, v := range ours {
		if w, ok := want[name]["v4.9"]; !ok || w != v {
			t.Errorf("%s is %d, in C %d (%v)", name, v, w, ok)
		}
	}
	if len(ours) < 10 {
		t.Errorf("only %d constants are here", len(ours))
	}
}

// TestExpOp looks for a verb in tables that are there, short, implausible, or of a library that has none.
func TestExpOp(t *testing.T) {
	for _, mutex := range []uintptr{40, 48} {
		const below = 104 // of verbs_context, in 4.9
		f, ctx := newFakeContext(uint64(below+288+mutex), mutex)
		f.set(-below-8, 664)
		f.set(-below-DistExpPostSend, 0x1234)
		if got := ExpOp(ctx, DistExpPostSend); got != 0 {
			t.Errorf("mutex %d: %#x without the mark", mutex, got)
		}
		f.set(-16, 1<<62)
		if got := ExpOp(ctx, DistExpPostSend); got != 0x1234 {
			t.Errorf("mutex %d: %#x", mutex, got)
		}
		if got := ExpOp(ctx, DistExpCreateQP); got != 0 {
			t.Errorf("mutex %d: a verb left empty: %#x", mutex, got)
		}
		for _, size := range []uint64{0, DistExpPostSend - 8, 667, maxExpSize + 8, 1 << 60} {
			f.set(-below-8, size)
			if got := ExpOp(ctx, DistExpPostSend); got != 0 {
				t.Errorf("mutex %d: %#x in a table of %d bytes", mutex, got, size)
			}
		}
		f.set(-below-8, DistExpPostSend)
		if got := ExpOp(ctx, DistExpPostSend); got != 0x1234 {
			t.Errorf("mutex %d: %#x of the first verb of a table", mutex, got)
		}
		runtime.KeepAlive(f)
	}
}
