package steps

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"
)

// load loads a file with a text.
func load(t *testing.T, name, text string) *Source {
	t.Helper()
	s, err := Load(stubs, Package{Path: "home", Files: map[string]string{name: text}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var stubs = map[string]string{"sync/atomic": `package atomic
	type Int32 struct{}
	func (*Int32) Load() int32
	func (*Int32) Store(int32)
	func (*Int32) CompareAndSwap(old, new int32) bool`,
	"time": "package time; type Time struct{}; func Now() Time; func (Time) After(Time) bool"}

// TestSample compares functions with their compiled source.
func TestSample(t *testing.T) {
	b, err := os.ReadFile("sample_test.go")
	if err != nil {
		t.Fatal(err)
	}
	got := Value(0)
	model := &Model[struct{}]{Primitives: map[string]Primitive[struct{}]{"result": {Local: true,
		Do: func(_ *Machine[struct{}], in, _ []Value) bool { got = in[0]; return true }}}}
	for name, f := range map[string]func(int) int{"sampleLoops": sampleLoops, "sampleSwitch": sampleSwitch,
		"sampleStructs": sampleStructs, "samplePointers": samplePointers, "sampleResults": sampleResults,
		"sampleApply": sampleApply} {
		s := load(t, "sample_test.go", string(b)+"func call(n int) { result("+name+"(n)) }; func result(int)")
		for n := range 12 {
			p, err := Compile(s, model, "call", []Value{Value(n)})
			if err != nil {
				t.Fatal(err)
			}
			m := Machine[struct{}]{World: new(struct{})}
			if at := p.Start(&m); at != 0 || m.Wrong != "" {
				t.Fatalf("%s(%d): %d, %s", name, n, at, m.Wrong)
			}
			if want := Value(f(n)); got != want {
				t.Errorf("%s(%d) = %d, want %d", name, n, got, want)
			}
		}
	}
}

// shelf is a world: a number, a channel with room for one, and what was seen.
type shelf struct {
	n    int32
	full bool
	held Value
	seen [8]Value
}

// model returns what goroutines do with a shelf. The channel is 1.
func model() *Model[shelf] {
	load := Primitive[shelf]{Do: func(m *Machine[shelf], _, out []Value) bool {
		out[0] = Value(m.World.n)
		return true
	}}
	swap := Primitive[shelf]{Do: func(m *Machine[shelf], in, out []Value) bool {
		if out[0] = Bool(m.World.n == int32(in[0])); out[0] == 1 {
			m.World.n = int32(in[1])
		}
		return true
	}}
	joined := swap
	joined.Joins = func(m *Machine[shelf], _ []Value) bool { return m.Last == "load" }
	see := Primitive[shelf]{Local: true, Do: func(m *Machine[shelf], in, _ []Value) bool {
		m.World.seen[in[0]]++
		return true
	}}
	return &Model[shelf]{
		Primitives: map[string]Primitive[shelf]{"load": load, "swap": swap, "joined": joined, "see": see,
			"time.Now": {Local: true, Do: func(_ *Machine[shelf], _, out []Value) bool { out[0] = Any; return true }},
			"store":    {Do: func(m *Machine[shelf], in, _ []Value) bool { m.World.n = int32(in[0]); return true }},
			"time.Time.After": {Local: true, Do: func(_ *Machine[shelf], _, out []Value) bool {
				out[0] = Any
				return true
			}}},
		Consts: map[string]Value{"ch": 1},
		Ready:  func(m *Machine[shelf], _ Value, send bool) bool { return m.World.full != send },
		Pass: func(m *Machine[shelf], _ Value, send bool, v Value) Value {
			m.World.full = send
			if send {
				m.World.held = v
				return 0
			}
			v, m.World.held = m.World.held, 0
			return v
		},
	}
}

const shelves = `package home
import "time"
var ch chan int
func load() int
func swap(old, new int) bool
func joined(old, new int) bool
func store(int)
func see(int)
func add() { store(load() + 1) }
func addByLoop() { for n := load(); !swap(n, n+1); n = load() {} }
func addJoined() { for n := load(); !joined(n, n+1); n = load() {} }
func put(n int) { ch <- n }
func get() { see(<-ch) }
func either() {
	select {
	case ch <- 3:
		see(5)
	case n := <-ch:
		see(n)
	}
}
func attempt() {
	select {
	case ch <- 3:
		see(5)
	default:
		see(6)
	}
}
func later() {
	load()
	defer see(1)
	if now := time.Now(); now.After(time.Now()) {
		return
	}
	defer see(2)
	store(1)
}
func forever() { for { see(0) } }
func deep() { deep() }
`

// ends runs goroutines in all orders, and returns the worlds in which none goes on, and whether all have ended there.
func ends(t *testing.T, first shelf, names []string, without ...Statement) (worlds []shelf, stuck int, states int) {
	t.Helper()
	src := load(t, "shelves.go", shelves)
	type state struct {
		w  shelf
		at [3]At
	}
	var m Machine[shelf]
	var programs []*Program[shelf]
	m.World = &first
	s := state{w: first}
	for i, name := range names {
		var args []Value
		if name == "put" {
			args = []Value{4}
		}
		p, err := Compile(src, model(), name, args, without...)
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, p)
		s.at[i] = p.Start(&m)
	}
	s.w = first
	list, known := []state{s}, map[state]bool{s: true}
	for i := 0; i < len(list); i++ {
		moved, over := false, true
		for a, p := range programs {
			if list[i].at[a] == 0 {
				continue
			}
			over = false
			p.Step(&m, &list[i].w, list[i].at[a], func(w *shelf, at At) {
				moved = true
				if m.Wrong != "" {
					t.Error(m.Wrong)
				}
				next := list[i]
				next.w, next.at[a] = *w, at
				if !known[next] {
					known[next] = true
					list = append(list, next)
				}
			})
		}
		if !moved && !slices.Contains(worlds, list[i].w) {
			worlds = append(worlds, list[i].w)
			if !over {
				stuck++
			}
		}
	}
	return worlds, stuck, len(list)
}

// TestSteps runs a few goroutines in all orders.
func TestSteps(t *testing.T) {
	numbers := func(worlds []shelf) (list []int32) {
		for _, w := range worlds {
			list = append(list, w.n)
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	if w, _, _ := ends(t, shelf{}, []string{"add", "add"}); !slices.Equal(numbers(w), []int32{1, 2}) {
		t.Errorf("two that add: %v, want a lost update too", w)
	}
	w, _, loop := ends(t, shelf{}, []string{"addByLoop", "addByLoop"})
	v, _, joined := ends(t, shelf{}, []string{"addJoined", "addJoined"})
	if !slices.Equal(numbers(w), []int32{2}) || !slices.Equal(numbers(v), []int32{2}) || joined >= loop {
		t.Errorf("two that add in a loop: %v after %d states, %v after %d", w, loop, v, joined)
	}
	if w, stuck, _ := ends(t, shelf{}, []string{"put", "get"}); len(w) != 1 || stuck != 0 || w[0].seen[4] != 1 {
		t.Errorf("a channel: %+v", w)
	}
	if _, stuck, _ := ends(t, shelf{}, []string{"get"}); stuck != 1 {
		t.Error("it receives from an empty channel")
	}
	if w, stuck, _ := ends(t, shelf{}, []string{"either", "either"}); len(w) != 1 || stuck != 0 || w[0].seen[3] != 1 ||
		w[0].seen[5] != 1 {
		t.Errorf("select: %+v", w)
	}
	if w, _, _ := ends(t, shelf{full: true}, []string{"attempt"}); len(w) != 1 || w[0].seen[6] != 1 {
		t.Errorf("select with a default: %+v", w)
	}
	w, _, _ = ends(t, shelf{}, []string{"later"})
	if len(w) != 2 || w[0].seen[1]+w[1].seen[1] != 2 || w[0].seen[2]+w[1].seen[2] != 1 {
		t.Errorf("a condition on the time, and deferred calls: %+v", w)
	}
}

// TestErrors compiles what does not compile, and runs what has no end.
func TestErrors(t *testing.T) {
	src := load(t, "shelves.go", shelves)
	m := model()
	delete(m.Primitives, "store")
	for name, want := range map[string]string{"deep": "recursion", "add": "the model has no store",
		"no": "no function"} {
		if _, err := Compile(src, m, name, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	for text, want := range map[string]string{
		"package home; func f() { go f() }":                          "*ast.GoStmt",
		"package home; func f() { if n := 0; n == 0 { defer f() } }": "a defer in a block",
		"package home; func f() { var s []int; s[0] = 1 }":           "*ast.IndexExpr",
		"package home; func f() { m := map[int]int{1: 2}; _ = m }":   "a literal of map[int]int",
	} {
		if _, err := Compile(load(t, "f.go", text), m, "f", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	p, err := Compile(src, m, "forever", nil)
	if err != nil {
		t.Fatal(err)
	}
	machine := Machine[shelf]{World: new(shelf)}
	if p.Start(&machine); !strings.Contains(machine.Wrong, "a step does not end: shelves.go:") {
		t.Error(machine.Wrong)
	}
}

// TestWithout compiles a function without each of its statements.
func TestWithout(t *testing.T) {
	src := load(t, "shelves.go", shelves)
	p, err := Compile(src, model(), "later", nil)
	if err != nil {
		t.Fatal(err)
	}
	returns, falls := shelf{seen: [8]Value{0, 1}}, shelf{n: 1, seen: [8]Value{0, 1, 1}}
	want := []struct {
		text string
		ends []shelf
	}{
		{"later: load()", nil}, // then the choice comes before the first step
		{"later: defer see(1)", []shelf{{}, {n: 1, seen: [8]Value{0, 0, 1}}}},
		{"later: if now := time.Now(); now.After(time.Now()) {", []shelf{falls}},
		{"later: defer see(2)", []shelf{returns, {n: 1, seen: [8]Value{0, 1}}}},
		{"later: store(1)", []shelf{returns, {seen: [8]Value{0, 1, 1}}}},
	}
	if len(p.Statements) != len(want) {
		t.Fatalf("%+v, want %d", p.Statements, len(want))
	}
	for i, st := range p.Statements {
		if got := st.Function + ": " + st.Text; got != want[i].text {
			t.Errorf("%s, want %s", got, want[i].text)
		}
		if want[i].ends == nil {
			continue
		}
		got, _, _ := ends(t, shelf{}, []string{"later"}, st)
		slices.SortFunc(got, func(a, b shelf) int {
			return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.seen[2], b.seen[2]))
		})
		if !slices.Equal(got, want[i].ends) {
			t.Errorf("without %s: %+v, want %+v", st.Text, got, want[i].ends)
		}
	}
}
