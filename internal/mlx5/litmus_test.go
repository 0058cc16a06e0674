//go:build amd64 && !race

// The test reads the code for both architectures. Once is enough, without the calls of the race detector.

package mlx5

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/litmus"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// at is the path of a field of a function's argument, such as a0.
func at[T any](argument, field string) string {
	t, off := reflect.TypeFor[T](), 0
	for name := range strings.SplitSeq(field, ".") {
		f, ok := t.FieldByName(name)
		if !ok {
			panic(fmt.Sprintf("%v has no field %s", t, name))
		}
		t, off = f.Type, off+int(f.Offset)
	}
	return fmt.Sprintf("%s+%d", argument, off)
}

// to is the path of what such a field points to; in is that of all that is found through it.
func to[T any](argument, field string, off int) string {
	return fmt.Sprintf("*(%s)+%d", at[T](argument, field), off)
}

func in[T any](argument, field string) string { return "~*(" + at[T](argument, field) + ")" }

// part is a thread of a row. steps are functions, and what the test adds to them.
type part struct {
	steps  []any
	places []litmus.Place
	must   []string // ways that do not access these places in this order are left out
}

// row is a question about what several threads see.
type row struct {
	name   string
	init   map[string]int
	parts  func(m litmus.Model) []part
	device []litmus.Program
	bad    func(regs map[string]int, e litmus.End) bool
	needs  map[litmus.Model][]string // without one of these, bad can be seen
}

func load(place string) litmus.Op { return litmus.Op{Kind: litmus.Load, Place: place, Reg: place} }

func store(place string, v int) litmus.Op {
	return litmus.Op{Kind: litmus.Store, Place: place, Val: v}
}

func await(place string, v int) litmus.Op {
	return litmus.Op{Kind: litmus.Await, Place: place, Old: v}
}

func branch(reg string, v int) litmus.Op { return litmus.Op{Kind: litmus.Branch, Reg: reg, Old: v} }

var one = 1 // for Place.Go

// posts is a thread that rings a send queue's doorbell after other steps.
func posts(before ...any) part {
	a := "a0"
	for _, b := range before {
		if _, ok := b.(string); ok {
			a = "b0"
		}
	}
	return part{
		steps: append(before, "mlx5.(*SQ).Ring"),
		places: []litmus.Place{
			{Name: "slot", Path: in[SQ]("a0", "slots"), Val: 1},
			{Name: "record", Path: to[SQ](a, "dbrec", 0), Val: 1},
			{Name: "register", Path: in[SQ](a, "reg"), Val: 1, Kind: litmus.Combine},
		},
		must: []string{"record", "register"},
	}
}

// looks is a thread that finds an entry written, and then takes other steps.
func looks(m litmus.Model, then ...any) part {
	p := part{must: []string{"owner"}}
	if m == litmus.AMD64 {
		p.steps = append(p.steps, "mlx5.(*CQ).tail")
		p.places = append(p.places, litmus.Place{Name: "owner", Path: fmt.Sprintf("a1+%d", offTail), Go: &one})
	} else {
		p.steps = append(p.steps, "mlx5.(*CQ).ready")
		p.places = append(p.places, litmus.Place{Name: "owner", Path: in[CQ]("a0", "buf"), Go: &one})
	}
	p.steps = append(p.steps, litmus.Program{branch("owner#0", 1)})
	p.steps = append(p.steps, then...)
	return p
}

// consumes is a thread that reads an entry and gives it to the device.
var consumes = part{
	steps: []any{litmus.Program{load("body")}, "mlx5.(*CQ).consume"},
	places: []litmus.Place{
		{Name: "index", Path: at[CQ]("a0", "ci"), Val: 1},
		{Name: "consumed", Path: to[CQ]("a0", "dbrec", 0), Val: 1},
	},
	must: []string{"index", "consumed"},
}

// looksEmpty is a thread that finds an entry of the lap before, and believes it.
var looksEmpty = part{
	steps: []any{"mlx5.empty.abi0"},
	places: []litmus.Place{
		{Name: "index", Path: at[CQ]("a0", "ci")},
		{Name: "ring", Path: at[CQ]("a0", "ring")},
		{Name: "owner", Path: in[CQ]("a0", "ring")},
	},
	must: []string{"ring", "index", "owner", "index", "ring"},
}

// arms is a thread that arms the CQ.
var arms = part{
	steps: []any{"mlx5.(*CQ).Arm"},
	places: []litmus.Place{
		{Name: "armed", Path: to[CQ]("a0", "dbrec", 4), Val: 1},
		{Name: "register", Path: to[CQ]("a0", "uar", armOffset), Val: 1, Kind: litmus.Combine},
	},
	must: []string{"armed", "register"},
}

// ways returns the programs of a thread.
func (p part) ways(code litmus.Code, m litmus.Model) ([]litmus.Program, error) {
	r := &litmus.Reader{Code: code, Model: m, Places: p.places, Leave: []string{"spin.wait", "spin.own"}}
	all, err := r.Paths(p.steps...)
	if err != nil {
		return nil, err
	}
	var out []litmus.Program
	for _, way := range all {
		must := p.must
		for _, o := range way {
			if len(must) > 0 && o.Place == must[0] {
				must = must[1:]
			}
		}
		if len(must) == 0 {
			out = append(out, way)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%v: no way through %v accesses %v", all, p.steps, p.must)
	}
	return out, nil
}

// barriers returns the operations of a program that order others, by their names, and how the program is without each.
func barriers(p litmus.Program) map[string][]litmus.Program {
	out := map[string][]litmus.Program{}
	for i, o := range p {
		switch {
		case o.Kind.IsFence():
			next := "the end"
			for _, n := range p[i+1:] {
				if n.Place != "" {
					next = n.Place
					break
				}
			}
			name := fmt.Sprintf("%v before %s", o.Kind, next)
			out[name] = append(out[name], p.Without(i))
		case o.Kind == litmus.StoreRelease || o.Kind == litmus.LoadAcquire:
			q := slices.Clone(p)
			if q[i].Kind = litmus.Store; o.Kind == litmus.LoadAcquire {
				q[i].Kind = litmus.Load
			}
			name := fmt.Sprintf("%v %s", o.Kind, o.Place)
			out[name] = append(out[name], q)
		}
	}
	return out
}

// TestLitmus reads from the machine code of the direct path what its functions do to memory. It checks that no thread
// sees that in a wrong order, that one does without each barrier of a row's needs, and none without the others.
func TestLitmus(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	for _, m := range []litmus.Model{litmus.AMD64, litmus.ARM64} {
		t.Run(string(m), func(t *testing.T) {
			code, err := litmus.Disassemble(ctx, t.TempDir(), string(m), ".",
				`internal/(mlx5|mmio|spin)\.|atomic\.[sS]tore`)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rows {
				t.Run(r.name, func(t *testing.T) { r.check(t, code, m) })
			}
		})
	}
}

func (r *row) check(t *testing.T, code litmus.Code, m litmus.Model) {
	var ways [][]litmus.Program
	for _, p := range r.parts(m) {
		w, err := p.ways(code, m)
		if err != nil {
			t.Fatal(err)
		}
		ways = append(ways, w)
	}
	needed, states := map[string]bool{}, 0
	for _, programs := range product(ways) {
		var threads []litmus.Thread
		for _, p := range programs {
			threads = append(threads, litmus.Thread{Model: m, Program: p})
		}
		for _, d := range r.device {
			threads = append(threads, litmus.Thread{Model: litmus.Device, Program: d})
		}
		seen := func() bool {
			ends, n := litmus.Explore(threads, r.init)
			states += n
			return slices.ContainsFunc(ends, func(e litmus.End) bool { return r.bad(e.Regs, e) })
		}
		if seen() {
			t.Errorf("seen with %v", threads)
		}
		for i, p := range programs {
			for name, without := range barriers(p) {
				for _, w := range without {
					threads[i].Program = w
					needed[name] = needed[name] || seen()
				}
			}
			threads[i].Program = p
		}
	}
	var got []string
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		if needed[name] {
			got = append(got, name)
		}
	}
	t.Logf("%d states, barriers %v; %v", states, needed, ways)
	if !slices.Equal(got, r.needs[m]) {
		t.Errorf("needs %q, want %q; %v", got, r.needs[m], ways)
	}
}

// product returns all choices of one of each.
func product(ways [][]litmus.Program) [][]litmus.Program {
	out := [][]litmus.Program{nil}
	for _, w := range ways {
		var next [][]litmus.Program
		for _, o := range out {
			for _, p := range w {
				next = append(next, append(slices.Clone(o), p))
			}
		}
		out = next
	}
	return out
}
