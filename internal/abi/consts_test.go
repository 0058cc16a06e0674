package abi

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"
)

// constants are the integer constants of the package, by name, as its sources
// have them. Imports other than unsafe are left unresolved: no constant needs
// them.
func constants(t *testing.T) map[string]int64 {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range []string{"consts_gen.go", "context.go", "verbs_context.go"} {
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	conf := types.Config{Error: func(error) {}}
	pkg, _ := conf.Check("abi", fset, files, nil)
	values := make(map[string]int64)
	for _, name := range pkg.Scope().Names() {
		c, ok := pkg.Scope().Lookup(name).(*types.Const)
		if !ok {
			continue
		}
		if v, exact := constant.Int64Val(constant.ToInt(c.Val())); exact {
			values[name] = v
		}
	}
	return values
}

func TestConstants(t *testing.T) {
	var want map[string]map[string]int64
	readJSON(t, "consts.json", &want)
	checked := 0
	for name, got := range constants(t) {
		verbs := strings.HasPrefix(name, "IBV_") && !strings.HasPrefix(name, "IBV_EXP_")
		if !verbs && !strings.HasPrefix(name, "MLX5DV_") {
			continue
		}
		if len(want[name]) == 0 {
			t.Errorf("%s is in no release", name)
		}
		for version, v := range want[name] {
			checked++
			if got != v {
				t.Errorf("%s is %d, in %s %d", name, got, version, v)
			}
		}
	}
	if checked < 900 {
		t.Errorf("only %d values were compared", checked)
	}
}

// TestContextSlots checks the distances of the ops of verbs_context and the
// slots of ibv_context_ops.
func TestContextSlots(t *testing.T) {
	// Slots that are not for us: private, reserved, or with an exported
	// function of the same name.
	skipped := map[string]bool{
		"priv": true, "ABI_placeholder1": true, "ABI_placeholder2": true, "_ABI_placeholder3": true,
		"has_comp_mask": true, "sz": true, "context": true,
		"alloc_dmah": true, "dealloc_dmah": true, "reg_mr_ex": true, "dm_export_dmabuf_fd": true,
		"alloc_buf": true, "free_buf": true,
	}
	consts := constants(t)
	ours := make(map[string]int64)
	for name, v := range consts {
		if op, ok := strings.CutPrefix(name, "Dist"); ok {
			ours[plain(op)] = v
		}
	}
	for _, version := range versions {
		l := readLayout(t, version)
		vctx := l["struct verbs_context"]
		ctx := vctx.Fields["context"][0]
		known := make(map[string]bool)
		for name, f := range vctx.Fields {
			op := plain(strings.TrimPrefix(name, "ibv_"))
			dist, ok := ours[op]
			switch {
			case !ok && !skipped[name]:
				t.Errorf("%s: the op %s has no Dist constant", version, name)
			case ok && dist != int64(ctx-f[0]):
				t.Errorf("%s: %s is %d below the context, not %d", version, name, ctx-f[0], dist)
			}
			known[op] = ok
		}
		for op := range ours {
			if strings.HasPrefix(version, newest) && !known[op] {
				t.Errorf("%s has no op %s", version, op)
			}
		}
		if got := ctx - vctx.Fields["sz"][0]; got != distSize {
			t.Errorf("%s: sz is %d below the context, not %d", version, got, distSize)
		}
		// An op needs a verbs_context that is as large as from it to the end.
		for op, dist := range ours {
			if f, need := l["struct ibv_context"], int(dist)+offABICompat+8; known[op] {
				shift := f.Fields["abi_compat"][0] - offABICompat
				if need+shift != int(dist)+f.Size {
					t.Errorf("%s: %s needs %d bytes, not %d", version, op, int(dist)+f.Size, need+shift)
				}
			}
		}

		slots := l["struct ibv_context_ops"]
		if slots.Size != len(Context{}.Ops)*8 {
			t.Errorf("%s: ibv_context_ops has %d bytes", version, slots.Size)
		}
		found := 0
		for name, f := range slots.Fields {
			for c, v := range consts {
				if strings.HasPrefix(c, "Op") && plain(c[2:]) == plain(name) {
					found++
					if int64(f[0]) != 8*v {
						t.Errorf("%s: %s is slot %d, not %d", version, name, f[0]/8, v)
					}
				}
			}
		}
		if found != 8 {
			t.Errorf("%s: %d of 8 ops were found", version, found)
		}
	}
}

// TestTails checks the offsets of what follows a mutex.
func TestTails(t *testing.T) {
	for _, version := range versions {
		l := readLayout(t, version)
		shift := l["struct ibv_context"].Fields["mutex"][1] - 40
		for _, c := range []struct {
			c, field string
			off      int
		}{
			{"struct ibv_context", "abi_compat", offABICompat},
			{"struct ibv_cq", "cond", OffCQCond},
			{"struct ibv_cq", "comp_events_completed", OffCQCompEventsCompleted},
		} {
			if got := l[c.c].Fields[c.field][0]; got != c.off+shift {
				t.Errorf("%s: %s.%s is at %d, not %d+%d", version, c.c, c.field, got, c.off, shift)
			}
		}
		if shift != 0 && shift != bigMutex {
			t.Errorf("%s: a mutex of %d bytes", version, 40+shift)
		}
		tail := m[CQExTail]("").goFields()
		for name, f := range l["struct ibv_cq_ex"].Fields {
			if f[0] < OffCQEx+shift {
				continue
			}
			if got := tail[plain(name)]; got != (cField{f[0] - OffCQEx - shift, f[1]}) {
				t.Errorf("%s: ibv_cq_ex.%s is at %d with %d bytes, here %v", version, name, f[0], f[1], got)
			}
			delete(tail, plain(name))
		}
		if version >= newest && len(tail) > 0 {
			t.Errorf("%s: ibv_cq_ex has no %v", version, tail)
		}
	}
}
