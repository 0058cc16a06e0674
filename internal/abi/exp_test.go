package abi

import (
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func expMirrors() []mirror {
	dct := m[ExpDCT]("struct ibv_exp_dct")
	dct.part = true
	return []mirror{
		dct,
		m[ExpCQInitAttr]("struct ibv_exp_cq_init_attr"),
		m[ExpQPInitAttr]("struct ibv_exp_qp_init_attr"),
		m[ExpQPAttr]("struct ibv_exp_qp_attr"),
		m[ExpDCTInitAttr]("struct ibv_exp_dct_init_attr"),
		m[ExpDCTAttr]("struct ibv_exp_dct_attr"),
		m[ExpSendWR]("struct ibv_exp_send_wr"),
		m[ExpWC]("struct ibv_exp_wc"),
		m[ExpClockInfo]("struct ibv_exp_clock_info"),
		m[ExpValues]("struct ibv_exp_values"),
		m[ExpDeviceAttr]("struct ibv_exp_device_attr"),
		m[ExpExtAtomicsParams]("struct ibv_exp_ext_atomics_params"),
		m[ExpMaskedAtomicParams]("struct ibv_exp_masked_atomic_params"),
	}
}

func TestExpLayouts(t *testing.T) {
	for _, v := range []string{"v4.9", "v4.9-arm64"} {
		var l layout
		readJSON(t, "ofed-"+v+".json", &l)
		for _, m := range expMirrors() {
			for _, p := range m.compare(l, true) {
				t.Errorf("%s: %s", v, p)
			}
		}
		if len(l) != len(expMirrors())+1 { // the table itself
			t.Errorf("%s: %d structs are on file, %d mirrored", v, len(l), len(expMirrors()))
		}
		checkExpSlots(t, l["struct verbs_context_exp"])
	}
	for _, m := range expMirrors() {
		for _, p := range hostLayout(m.t) {
			t.Errorf("%s: %s", m.c, p)
		}
	}
	src, err := os.ReadFile("exp.go")
	if err != nil {
		t.Fatal(err)
	}
	doc := regexp.MustCompile(`(?m)^// (\w+) is (?:the start of )?(struct \w+)[.,]`)
	found := doc.FindAllStringSubmatch(string(src), -1)
	for _, d := range found {
		if !slices.ContainsFunc(expMirrors(), func(m mirror) bool { return m.t.Name() == d[1] && m.c == d[2] }) {
			t.Errorf("%s is said to mirror %s, and no test checks that", d[1], d[2])
		}
	}
	if len(found) != len(expMirrors()) {
		t.Errorf("%d mirrors are documented, %d checked", len(found), len(expMirrors()))
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
	ours := packageConsts(t, "exp.go", "IBV_EXP_")
	for name, v := range ours {
		if w, ok := want[name]["v4.9"]; !ok || w != v {
			t.Errorf("%s is %d, in C %d (%v)", name, v, w, ok)
		}
	}
	if len(want) != len(ours) || len(ours) < 20 {
		t.Errorf("%d constants are here, %d on file", len(ours), len(want))
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
