package litmus

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Place is a place of memory that a program is about. Reader leaves out accesses of all other places.
type Place struct {
	Name string // in the program
	// Path is how the function comes to it, from its arguments: "a0+36" is a field of the first one, "*(a0+72)+0" what
	// another field points to. With "~" before it, any place whose path has this in it.
	Path string
	Val  int  // what stores to it store
	Old  int  // what a locked instruction finds
	Go   *int // what branches on what was loaded have to find; nil for anything
	Kind Kind // Combine for a register
}

// Reader follows the functions of a binary.
type Reader struct {
	Code   Code
	Model  Model
	Places []Place
	Leave  []string // functions; ways that call them are left out
}

// value describes the contents of a register: where they come from, and the loads that they depend on.
type value struct {
	from string
	off  int
	deps []string
}

func (v value) path() string { return fmt.Sprintf("%s+%d", v.from, v.off) }

// walk is one way through a function.
type walk struct {
	regs    map[string]value
	stack   map[int]value // by the offset from the stack pointer at the start
	sp      int
	flags   []string // the loads that the flags depend on
	visits  map[uint64]int
	program Program
	loads   map[string]int // of each place, for the names of registers
}

func (w *walk) clone() *walk {
	c := *w
	c.regs, c.stack = maps.Clone(w.regs), maps.Clone(w.stack)
	c.visits, c.loads = maps.Clone(w.visits), maps.Clone(w.loads)
	c.program = slices.Clone(w.program)
	return &c
}

// Paths returns the programs of all ways through steps: names of functions, and programs that are as they are. "a" of
// the first function's arguments becomes "b" for the second one, and so on. Loops are passed once or twice.
func (r *Reader) Paths(steps ...any) ([]Program, error) {
	walks := []*walk{{loads: map[string]int{}}}
	prefix := 'a'
	for _, step := range steps {
		var next []*walk
		for _, w := range walks {
			w = w.clone()
			if p, ok := step.(Program); ok {
				w.program = append(w.program, p...)
				next = append(next, w)
				continue
			}
			f := step.(string)
			w.enter(r.Model, string(prefix), strings.HasSuffix(f, ".abi0"))
			ends, err := r.function(w, f)
			if err != nil {
				return nil, err
			}
			next = append(next, ends...)
		}
		if len(next) == 0 {
			return nil, fmt.Errorf("%s has no end", step)
		}
		if _, ok := step.(string); ok {
			prefix++
		}
		walks = distinct(next, func(w *walk) string { return fmt.Sprintf("%#v", w.program) })
	}
	var out []Program
	for _, w := range walks {
		out = append(out, w.program)
	}
	return out, nil
}

// distinct leaves one of the walks with the same key.
func distinct(walks []*walk, key func(*walk) string) []*walk {
	seen := map[string]bool{}
	return slices.DeleteFunc(walks, func(w *walk) bool {
		k := key(w)
		again := seen[k]
		seen[k] = true
		return again
	})
}

// Registers of arguments in Go's internal ABI.
var arguments = map[Model][]string{
	AMD64: {"AX", "BX", "CX", "DI", "SI", "R8", "R9", "R10", "R11"},
	ARM64: {"R0", "R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8"},
}

// enter puts a function's arguments into their places.
func (w *walk) enter(m Model, prefix string, onStack bool) {
	w.regs, w.stack, w.sp, w.flags, w.visits = map[string]value{}, map[int]value{}, 0, nil, map[uint64]int{}
	for i, r := range arguments[m] {
		v := value{from: prefix + strconv.Itoa(i)}
		if onStack {
			w.stack[8+8*i] = v
		} else {
			w.regs[r] = v
		}
	}
}

// function follows a function to its ends. Those in which it panics or grows the stack are none.
func (r *Reader) function(w *walk, name string) ([]*walk, error) {
	body := r.Code[name]
	if body == nil {
		return nil, fmt.Errorf("the binary has no %s", name)
	}
	index := map[uint64]int{}
	for i, in := range body {
		index[in.Addr] = i
	}
	type at struct {
		w *walk
		i int
	}
	todo := []at{{w, 0}}
	var ends []*walk
	for len(todo) > 0 {
		t := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for w, i := t.w, t.i; ; {
			if i >= len(body) {
				return nil, fmt.Errorf("%s runs past its end", name)
			}
			in := body[i]
			if w.visits[in.Addr]++; w.visits[in.Addr] > 2 {
				break
			}
			n := decode(r.Model, in.Text)
			if n.jump != "" && !strings.HasSuffix(n.jump, "(SB)") {
				to, err := target(r.Model, n.jump, i, index)
				if err != nil {
					return nil, fmt.Errorf("%s: %s: %w", name, in.Text, err)
				}
				if !n.conditional {
					i = to
					continue
				}
				r.branch(w, n)
				todo = append(todo, at{w.clone(), to})
				i++
				continue
			}
			if n.ends {
				break
			}
			if n.returns {
				ends = append(ends, w)
				break
			}
			if callee := n.call + n.jump; callee != "" {
				after, err := r.call(w, short(callee), n.call != "")
				if err != nil {
					return nil, fmt.Errorf("%s: %s: %w", name, in.Text, err)
				}
				if n.jump != "" { // a tail call
					ends = append(ends, after...)
				} else {
					for _, a := range after {
						todo = append(todo, at{a, i + 1})
					}
				}
				break
			}
			if err := r.step(w, n); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", name, in.Text, err)
			}
			i++
		}
	}
	return distinct(ends, func(w *walk) string { return fmt.Sprintf("%#v %v", w.program, w.regs) }), nil
}

// call follows a call, or a tail call, whose return address is on the stack already.
func (r *Reader) call(w *walk, name string, pushes bool) ([]*walk, error) {
	if strings.HasPrefix(name, "runtime.") || slices.Contains(r.Leave, name) {
		return nil, nil
	}
	pushes = pushes && r.Model == AMD64
	if pushes {
		w.sp -= 8
	}
	visits := w.visits
	w.visits = map[uint64]int{}
	after, err := r.function(w, name)
	for _, a := range after {
		a.visits = maps.Clone(visits)
		if pushes {
			a.sp += 8
		}
	}
	return after, err
}

// target is the index of the instruction that a jump goes to.
func target(m Model, to string, i int, index map[uint64]int) (int, error) {
	if rel, ok := strings.CutSuffix(to, "(PC)"); ok && m == ARM64 {
		n, err := strconv.Atoi(rel)
		return i + n, err
	}
	addr, err := strconv.ParseUint(to, 0, 64)
	if err != nil {
		return 0, err
	}
	if n, ok := index[addr]; ok {
		return n, nil
	}
	return 0, fmt.Errorf("a jump out of the function")
}

// branch adds what the thread needs to have loaded to go on.
func (r *Reader) branch(w *walk, n instruction) {
	deps := w.flags
	for _, o := range n.sources {
		if v, ok := w.regs[o]; ok {
			deps = union(deps, v.deps)
		}
	}
	for _, d := range deps {
		b := Op{Kind: Branch, Reg: d, Old: Anything}
		name, _, _ := strings.Cut(d, "#")
		for _, p := range r.Places {
			if p.Name == name && p.Go != nil {
				b.Old = *p.Go
			}
		}
		w.program = append(w.program, b)
	}
}

func union(a, b []string) []string {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

// exchange is Swap for the reader, with whatever the place has.
const exchange Kind = 255

// access adds an access of memory at a path, and returns what it loads.
func (r *Reader) access(w *walk, at value, kind Kind, stored []string) value {
	path := at.path()
	loaded := value{from: "*(" + path + ")", deps: at.deps}
	i := slices.IndexFunc(r.Places, func(p Place) bool {
		part, inside := strings.CutPrefix(p.Path, "~")
		return path == p.Path || inside && strings.Contains(path, part)
	})
	if i < 0 {
		return loaded
	}
	p := r.Places[i]
	op := Op{Kind: kind, Place: p.Name, Val: p.Val, Old: p.Old, Deps: union(at.deps, stored)}
	switch {
	case kind == Store && p.Kind == Combine:
		op.Kind = Combine
	case kind == exchange:
		op.Kind, op.Old = Swap, Anything
	}
	if kind.load() {
		op.Reg = fmt.Sprintf("%s#%d", p.Name, w.loads[p.Name])
		w.loads[p.Name]++
		loaded.deps = []string{op.Reg}
		op.Deps = at.deps
	}
	if n := len(w.program); n > 0 && fmt.Sprint(w.program[n-1]) == fmt.Sprint(op) {
		return loaded // another part of the place
	}
	w.program = append(w.program, op)
	return loaded
}
