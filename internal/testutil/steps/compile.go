package steps

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
)

// Model has what compiled functions share. A name has the package as a prefix, unless that is home.
type Model[W any] struct {
	// Primitives are operations. A name is that of
	//   - a function, F, or a method, T.M; arguments are the receiver, if there is one, and those of the call
	//   - a method of a field that is a struct of another package, such as an atomic: T.field.M; the first argument is
	//     the T, or the pointer to it. T.field.Do of a sync.Once has two: T.field.DoBegin reports whether the function
	//     is to be called, T.field.DoEnd comes after it
	//   - a field behind a pointer, T.field, and T.field= to set it
	//   - a variable, v
	//   - make(chan), of a channel that is made
	// One takes precedence over a function whose source was loaded.
	Primitives map[string]Primitive[W]
	// Calls has functions of the source that are called instead of others, such as methods of interfaces.
	Calls map[string]string
	// Consts has variables and fields that are constant, and constants that have another value.
	Consts map[string]Value
	// Ready reports whether a channel takes a value, or has one or is closed. It may be any but nil.
	Ready func(m *Machine[W], ch Value, send bool) bool
	// Pass sends, or receives: it returns what it received.
	Pass func(m *Machine[W], ch Value, send bool, v Value) Value
	// Close closes a channel.
	Close func(m *Machine[W], ch Value)
}

// Compile compiles a function of the home package with arguments, and without some statements.
func Compile[W any](s *Source, model *Model[W], name string, args []Value, without ...Statement) (p *Program[W],
	err error) {
	d := s.find(name)
	if d == nil {
		return nil, fmt.Errorf("no function %s", name)
	}
	c := &compiler[W]{src: s, model: model, consts: make(map[Value]int), without: without}
	defer func() {
		if e, ok := recover().(compileError); ok {
			err = fmt.Errorf("%s: %s", s.Position(e.pos), e.what)
		}
	}()
	c.p = &Program[W]{src: s, model: model, ats: make([]local, 1), known: make(map[local]At)}
	c.pos = d.Pos()
	c.emit(instr[W]{kind: halt})
	var list []arg[W]
	for _, v := range args {
		list = append(list, arg[W]{slot: c.constant(v)})
	}
	c.within = name
	c.inline(c.declared(d), list)
	c.pos = d.End()
	c.emit(instr[W]{kind: halt})
	c.finish()
	return c.p, nil
}

type compileError struct {
	pos  token.Pos
	what string
}

type compiler[W any] struct {
	src     *Source
	model   *Model[W]
	p       *Program[W]
	consts  map[Value]int
	slots   int
	labels  []int // addresses
	reached []bool
	without []Statement
	pos     token.Pos
	within  string // function
	depth   int
}

func (c *compiler[W]) fail(n ast.Node, format string, args ...any) {
	panic(compileError{n.Pos(), fmt.Sprintf(format, args...)})
}

func (c *compiler[W]) emit(in instr[W]) {
	in.pos, in.within = c.pos, c.within
	if in.kind == choose || in.kind == closes {
		in.name = Channel
	}
	c.p.code = append(c.p.code, in)
}

func (c *compiler[W]) slot() int {
	c.slots++
	return c.slots - 1
}

// constant returns a slot that always has a value.
func (c *compiler[W]) constant(v Value) int {
	slot, ok := c.consts[v]
	if !ok {
		slot = c.slot()
		c.consts[v] = slot
	}
	return slot
}

// value returns that of a constant slot.
func (c *compiler[W]) value(slot int) (v Value, ok bool) {
	for v, s := range c.consts {
		if s == slot {
			return v, true
		}
	}
	return 0, false
}

func (c *compiler[W]) label() int {
	c.labels, c.reached = append(c.labels, -1), append(c.reached, false)
	return len(c.labels) - 1
}

func (c *compiler[W]) place(label int) { c.labels[label] = len(c.p.code) }

func (c *compiler[W]) jump(label int) {
	c.reached[label] = true
	c.emit(instr[W]{kind: jump, next: label})
}

// branch continues at one of two labels.
func (c *compiler[W]) branch(cond, yes, no int) {
	if v, ok := c.value(cond); ok && v != Any {
		if v == 0 {
			yes = no
		}
		c.jump(yes)
		return
	}
	c.reached[yes], c.reached[no] = true, true
	c.emit(instr[W]{kind: branch, a: cond, next: yes, alt: no})
}

func (c *compiler[W]) move(dst, from int) {
	if dst != from {
		c.emit(instr[W]{kind: move, dst: dst, a: from})
	}
}

// call emits the operation of that name, and returns its results.
func (c *compiler[W]) call(n ast.Node, name string, args []int, results int) []int {
	prim, ok := c.model.Primitives[name]
	if !ok {
		c.fail(n, "the model has no %s", name)
	}
	outs := make([]int, results)
	for i := range outs {
		outs[i] = c.slot()
	}
	c.emit(instr[W]{kind: call, prim: &prim, name: name, shared: !prim.Local, args: args, outs: outs})
	return outs
}

// finish replaces labels by addresses, leaves out what is never reached, and finds out what is in use at each step.
func (c *compiler[W]) finish() {
	code := c.p.code
	for i := range code {
		if in := &code[i]; in.kind == jump || in.kind == branch {
			in.next = c.labels[in.next]
			if in.kind == branch {
				in.alt = c.labels[in.alt]
			}
		}
	}
	constant := make([]bool, c.slots)
	c.p.frame = make([]Value, c.slots)
	for v, slot := range c.consts {
		constant[slot], c.p.frame[slot] = true, v
	}
	live := c.liveness(constant)
	for i := range code {
		if in := &code[i]; in.shared {
			in.live = live[i]
			if len(in.live) > locals {
				panic(compileError{in.pos, fmt.Sprintf("%d local variables are in use", len(in.live))})
			}
		}
	}
	if len(code) > 1<<16 {
		panic(compileError{code[0].pos, "the function is too long"})
	}
}

// liveness returns, for each instruction, the slots whose values are used there or later.
func (c *compiler[W]) liveness(constant []bool) [][]int {
	code, words := c.p.code, (c.slots+63)/64
	sets := make([][]uint64, len(code))
	for i := range sets {
		sets[i] = make([]uint64, words)
	}
	set := make([]uint64, words)
	for changed := true; changed; {
		changed = false
		for i := len(code) - 1; i >= 0; i-- {
			in := &code[i]
			clear(set)
			for _, next := range in.successors(i) {
				for w := range set {
					set[w] |= sets[next][w]
				}
			}
			for _, slot := range in.writes() {
				set[slot/64] &^= 1 << (slot % 64)
			}
			for _, slot := range in.reads() {
				if !constant[slot] {
					set[slot/64] |= 1 << (slot % 64)
				}
			}
			if !slices.Equal(set, sets[i]) {
				copy(sets[i], set)
				changed = true
			}
		}
	}
	live := make([][]int, len(code))
	for i, set := range sets {
		for slot := range c.slots {
			if set[slot/64]>>(slot%64)&1 == 1 {
				live[i] = append(live[i], slot)
			}
		}
	}
	return live
}

func (in *instr[W]) successors(at int) []int {
	switch in.kind {
	case halt:
		return nil
	case jump:
		return []int{in.next}
	case branch:
		return []int{in.next, in.alt}
	}
	return []int{at + 1}
}

func (in *instr[W]) writes() []int {
	switch in.kind {
	case move, binary, field:
		return []int{in.dst}
	case call:
		return in.outs
	case choose:
		list := []int{in.dst}
		for _, c := range in.cases {
			if c.to >= 0 {
				list = append(list, c.to)
			}
		}
		return list
	}
	return nil
}

func (in *instr[W]) reads() []int {
	switch in.kind {
	case move, field, branch, closes:
		return []int{in.a}
	case binary:
		return []int{in.a, in.b}
	case put:
		return []int{in.a, in.dst}
	case call:
		return in.args
	case choose:
		var list []int
		for _, c := range in.cases {
			if list = append(list, c.ch); c.send {
				list = append(list, c.val)
			}
		}
		return list
	}
	return nil
}

// named returns the value of a constant, or what the model has in its place.
func (c *compiler[W]) named(obj types.Object) (Value, bool) {
	if obj.Parent() == nil || obj.Parent() == obj.Pkg().Scope() {
		if v, ok := c.model.Consts[c.src.name(obj)]; ok {
			return v, true
		}
	}
	if k, ok := obj.(*types.Const); ok {
		return number(k.Val())
	}
	return 0, false
}

func number(v constant.Value) (Value, bool) {
	switch v.Kind() {
	case constant.Bool:
		return Bool(constant.BoolVal(v)), true
	case constant.Int:
		if n, ok := constant.Int64Val(v); ok {
			return Value(n), true
		}
		return Any, true
	case constant.String, constant.Float:
		return Any, true
	}
	return 0, false
}

// later keeps a deferred call. Whether a run came to one in a block is not known where the function ends.
func (f *frame[W]) later(s *ast.DeferStmt) {
	if inner, ok := s.Call.Fun.(*ast.CallExpr); ok { // of a function that undoes it
		f.exprs(inner)
		return
	}
	if !slices.Contains(f.body.List, ast.Stmt(s)) {
		f.fail(s, "a defer in a block: move it out")
	}
	f.defers = append(f.defers, s.Call)
}

// leave runs the deferred calls.
func (f *frame[W]) leave() {
	for i := len(f.defers) - 1; i >= 0; i-- {
		f.exprs(f.defers[i])
	}
}
