// Package steps runs Go functions one step at a time, for model checkers. It compiles their source, so a model needs no
// copy of it. A step is one access to what goroutines share, with all that the goroutine does alone until the next.
//
// The model supplies what the functions share, as a comparable struct, and a [Primitive] for each access: to a field
// that is reached by a pointer, to an atomic, a mutex, a variable, or a function of another package. A channel is a
// number. Everything else is compiled: calls of functions whose source was loaded are inlined, and local variables
// become part of the goroutine's state while they are in use.
//
// The language is a subset of Go: no recursion, slices, maps, strings, interfaces with several implementations, or
// pointers, but to what the model has and to local variables. Anything else does not compile.
package steps

import (
	"fmt"
	"go/token"
	"math"
)

// Value is the value of a variable: a number, a bool as 0 or 1, the fields of a small struct as [Pack] puts them
// together, or the number that the model gives to a pointer, a channel or an error. nil is 0.
type Value int32

// Any is a value that is not known, for example a time. A condition on it is true in one run, and false in another.
const Any Value = math.MinInt32

// Bool returns the value of a bool.
func Bool(b bool) Value {
	if b {
		return 1
	}
	return 0
}

// structBits is how many bits the fields of a struct have together.
const structBits = 16

// Pack returns the value of a struct with these fields. Each has an equal part of 16 bits.
func Pack(fields ...Value) Value {
	bits, v := structBits/len(fields), Value(0)
	for i, f := range fields {
		if f < 0 || f >= 1<<bits {
			panic(fmt.Sprintf("field %d of a struct is %d, and has %d bits", i, f, bits))
		}
		v |= f << (i * bits)
	}
	return v
}

// Primitive is one operation of the model.
type Primitive[W any] struct {
	// Do does it, and sets out, the results. It returns false, and has changed nothing, if the goroutine has to wait.
	Do func(m *Machine[W], in, out []Value) bool
	// Local means that it begins no step: only one goroutine at a time may do it, or nobody else sees it.
	Local bool
	// Joins reports whether it begins no step this time, because it is local, or because it belongs to the step of the
	// operation before, m.Last. A compare-and-swap may belong to the load of the value that it expects: if another
	// goroutine came between, it would fail, as if the load had come later. nil means that it always begins one.
	Joins func(m *Machine[W], in []Value) bool
}

// Machine executes steps of all programs of a model.
type Machine[W any] struct {
	World *W     // that is changed
	Actor int    // whose step it is
	Last  string // name of the last operation of the step that is not local
	Wrong string // what was wrong in the step

	held    bool
	choices []int // that were made, and how many there were
	among   []int
	made    int
	in, out [16]Value
}

// Hold makes all operations until Release a single step, those between Lock and Unlock for example.
func (m *Machine[W]) Hold() { m.held = true }

// Release ends Hold.
func (m *Machine[W]) Release() { m.held = false }

// Choose returns a number below n. Each is tried.
func (m *Machine[W]) Choose(n int) int {
	if n == 1 {
		return 0
	}
	if m.made == len(m.choices) {
		m.choices, m.among = append(m.choices, 0), append(m.among, n)
	}
	m.made++
	return m.choices[m.made-1]
}

// Fail reports that a step is wrong.
func (m *Machine[W]) Fail(format string, args ...any) {
	if m.Wrong == "" {
		m.Wrong = fmt.Sprintf(format, args...)
	}
}

// next begins the next combination of choices, and reports whether there is one.
func (m *Machine[W]) next() bool {
	n := m.made
	for n > 0 && m.choices[n-1]+1 == m.among[n-1] {
		n--
	}
	if n == 0 {
		m.choices, m.among = m.choices[:0], m.among[:0]
		return false
	}
	m.choices, m.among = m.choices[:n], m.among[:n]
	m.choices[n-1]++
	return true
}

// At is where a goroutine is, and its local variables. The zero value is one that has ended.
type At uint16

// locals is how many local variables may be in use between two steps.
const locals = 14

// local is the state that an At is the number of.
type local struct {
	pc   uint16
	vars [locals]uint16
}

const packedAny = math.MaxUint16

func packValue(v Value) (packed uint16, ok bool) {
	if v == Any {
		return packedAny, true
	}
	return uint16(v), v >= 0 && v < packedAny
}

func unpackValue(v uint16) Value {
	if v == packedAny {
		return Any
	}
	return Value(v)
}

// Program is a function that was compiled.
type Program[W any] struct {
	Statements []Statement // that it can be compiled without

	src   *Source
	model *Model[W]
	code  []instr[W]
	frame []Value // with the constants
	ats   []local // by their At
	known map[local]At
}

type kind uint8

const (
	halt   kind = iota
	move        // dst = a
	binary      // dst = a op b
	field       // dst = a's bits from lo on
	put         // the same bits of dst = a
	jump
	branch // to next if a, else to alt
	call
	choose // dst = the number of a case that can be done, which is done
	closes // the channel a
)

type instr[W any] struct {
	kind      kind
	op        token.Token
	bits, lo  uint8
	shared    bool
	fallback  bool // choose: there is a default, -1
	a, b, dst int
	next, alt int // labels, at last addresses
	prim      *Primitive[W]
	name      string // of the operation
	within    string // function
	args      []int
	outs      []int
	cases     []comm
	pos       token.Pos
	live      []int // what is in use before it, if it is shared
}

// comm is a case of a select statement.
type comm struct {
	send        bool
	ch, val, to int
}

// Start returns the state of a goroutine that is about to make the first step of the function. Before that it makes no
// choice.
func (p *Program[W]) Start(m *Machine[W]) At {
	m.Last, m.Wrong, m.held, m.made = Channel, "", false, 0
	at, ok := p.run(m, 1)
	if !ok || m.made > 0 {
		panic("a choice, or a wait, before the first step")
	}
	return at
}

// Step makes a step in all ways. It calls found with each world and each state of the goroutine that follow, and not at
// all if the goroutine has to wait.
func (p *Program[W]) Step(m *Machine[W], w *W, at At, found func(w *W, at At)) {
	m.choices, m.among = m.choices[:0], m.among[:0]
	for more := true; more; more = m.next() {
		v := *w
		m.World, m.made, m.Last, m.Wrong, m.held = &v, 0, "", "", false
		for i, slot := range p.code[p.ats[at].pc].live {
			p.frame[slot] = unpackValue(p.ats[at].vars[i])
		}
		if next, ok := p.run(m, int(p.ats[at].pc)); ok {
			found(&v, next)
		}
	}
}

// Channel is the name of each operation on channels.
const Channel = "channel"

// Next returns the operation that begins the next step, the function that does it, and its file and line.
func (p *Program[W]) Next(at At) (operation, function, where string) {
	in := &p.code[p.ats[at].pc]
	return in.name, in.within, p.src.Position(in.pos)
}

func (p *Program[W]) at(l local) At {
	at, ok := p.known[l]
	if !ok {
		if len(p.ats) > math.MaxUint16 {
			panic("a goroutine has too many states")
		}
		at = At(len(p.ats))
		p.ats, p.known[l] = append(p.ats, l), at
	}
	return at
}

// longest is how many instructions a step has at most.
const longest = 10_000

// run executes instructions until the next one that begins a step.
func (p *Program[W]) run(m *Machine[W], pc int) (At, bool) {
	f := p.frame
	for n := 0; ; n++ {
		if n == longest {
			m.Fail("a step does not end: %s", p.src.Position(p.code[pc].pos))
			return 0, true
		}
		in := &p.code[pc]
		if in.shared && !m.held && m.Last != "" && !p.joins(m, in) {
			at := local{pc: uint16(pc)}
			for i, slot := range in.live {
				var ok bool
				if at.vars[i], ok = packValue(f[slot]); !ok {
					m.Fail("a variable is %d", f[slot])
				}
			}
			return p.at(at), true
		}
		pc++
		switch in.kind {
		case halt:
			return 0, true
		case move:
			f[in.dst] = f[in.a]
		case binary:
			f[in.dst] = m.binary(in.op, f[in.a], f[in.b])
		case field:
			f[in.dst] = f[in.a] >> in.lo & (1<<in.bits - 1)
		case put:
			f[in.dst] = f[in.dst]&^((1<<in.bits-1)<<in.lo) | f[in.a]<<in.lo
		case jump:
			pc = in.next
		case branch:
			if pc = in.alt; m.True(f[in.a]) {
				pc = in.next
			}
		case call:
			out := m.out[:len(in.outs)]
			if !in.prim.Do(m, p.arguments(m, in), out) {
				return 0, false
			}
			for i, slot := range in.outs {
				f[slot] = out[i]
			}
			if in.shared {
				m.Last = in.name
			}
		case closes:
			p.model.Close(m, f[in.a])
			m.Last = Channel
		case choose:
			n, ok := p.choose(m, in)
			if !ok {
				return 0, false
			}
			f[in.dst] = Value(n)
			m.Last = Channel
		}
	}
}

func (p *Program[W]) arguments(m *Machine[W], in *instr[W]) []Value {
	args := m.in[:len(in.args)]
	for i, slot := range in.args {
		args[i] = p.frame[slot]
	}
	return args
}

func (p *Program[W]) joins(m *Machine[W], in *instr[W]) bool {
	return in.kind == call && in.prim.Joins != nil && in.prim.Joins(m, p.arguments(m, in))
}

// choose does one of the cases of a select statement that can be done, and returns its number.
func (p *Program[W]) choose(m *Machine[W], in *instr[W]) (n int, ok bool) {
	ready := make([]int, 0, 8)
	for i, c := range in.cases {
		if c.to >= 0 {
			p.frame[c.to] = 0
		}
		if ch := p.frame[c.ch]; ch != 0 && p.model.Ready(m, ch, c.send) {
			ready = append(ready, i)
		}
	}
	if len(ready) == 0 {
		return -1, in.fallback
	}
	n = ready[m.Choose(len(ready))]
	c := in.cases[n]
	v := Value(0)
	if c.send {
		v = p.frame[c.val]
	}
	v = p.model.Pass(m, p.frame[c.ch], c.send, v)
	if c.to >= 0 {
		p.frame[c.to] = v
	}
	return n, true
}

// True reports whether a condition holds.
func (m *Machine[W]) True(v Value) bool {
	if v == Any {
		return m.Choose(2) == 1
	}
	return v != 0
}

func (m *Machine[W]) binary(op token.Token, a, b Value) Value {
	compares := op == token.EQL || op == token.NEQ || op >= token.LSS && op <= token.GTR || op == token.LEQ ||
		op == token.GEQ
	switch {
	case a == Any || b == Any:
		if compares {
			return Value(m.Choose(2))
		}
		return Any
	case compares:
		return Bool(compare(op, a, b))
	}
	switch op {
	case token.ADD:
		return a + b
	case token.SUB:
		return a - b
	case token.MUL:
		return a * b
	case token.QUO:
		return a / b
	case token.REM:
		return a % b
	case token.AND:
		return a & b
	case token.OR:
		return a | b
	case token.XOR:
		return a ^ b
	case token.AND_NOT:
		return a &^ b
	case token.SHL:
		return a << b
	case token.SHR:
		return a >> b
	}
	panic("operator " + op.String())
}

func compare(op token.Token, a, b Value) bool {
	switch op {
	case token.EQL:
		return a == b
	case token.NEQ:
		return a != b
	case token.LSS:
		return a < b
	case token.LEQ:
		return a <= b
	case token.GTR:
		return a > b
	}
	return a >= b
}
