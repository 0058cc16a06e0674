package litmus

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kind says what an operation does.
type Kind uint8

const (
	Load         Kind = iota
	LoadAcquire       // LDAR
	Store             //
	StoreRelease      // STLR
	Combine           // a store to a write-combining register, which on amd64 only SFENCE orders
	Swap              // a locked instruction: waits until the place has Old, and stores Val
	Await             // waits until the place has Old
	Branch            // ends the thread unless Reg has Old, or Old is Anything
	LoadsFence        // DMB OSHLD
	StoresFence       // DMB OSHST
	Fence             // DMB OSH; MFENCE
	StoresDone        // DSB ST
	CombineFence      // SFENCE
	InnerFence        // a barrier of the inner shareable domain, which does not include a device
)

func (k Kind) load() bool  { return k == Load || k == LoadAcquire || k == Swap || k == Await }
func (k Kind) store() bool { return k == Store || k == StoreRelease || k == Combine || k == Swap }

// IsFence reports whether operations of this kind do nothing but order others.
func (k Kind) IsFence() bool { return k >= LoadsFence }

func (k Kind) String() string {
	return [...]string{"R", "LDAR", "W", "STLR", "WC", "SWAP", "WAIT", "B", "DMB OSHLD", "DMB OSHST", "DMB OSH",
		"DSB ST", "SFENCE", "DMB ISH"}[k]
}

// Anything in Old lets a branch or an exchange continue with all values.
const Anything = -1

// Op is an operation.
type Op struct {
	Kind  Kind
	Place string
	Reg   string   // what a load loads, and what a branch compares
	Val   int      // what a store stores
	Old   int      // see Kind
	Deps  []string // loads that the address or the value depends on
}

func (o Op) String() string {
	switch {
	case o.Kind.IsFence():
		return o.Kind.String()
	case o.Kind == Branch:
		return fmt.Sprintf("B %s==%d", o.Reg, o.Old)
	case o.Kind.store():
		return fmt.Sprintf("%v %s=%d", o.Kind, o.Place, o.Val)
	}
	return fmt.Sprintf("%v %s", o.Kind, o.Place)
}

// Program has the operations of a thread.
type Program []Op

func (p Program) String() string {
	var s []string
	for _, o := range p {
		s = append(s, o.String())
	}
	return strings.Join(s, "; ")
}

// Without returns p without its operation i.
func (p Program) Without(i int) Program { return slices.Delete(slices.Clone(p), i, i+1) }

// Model is an order of memory.
type Model string

const (
	AMD64  Model = "amd64"
	ARM64  Model = "arm64"
	Device Model = "device"
)

// Thread is a program and the model that it runs on.
type Thread struct {
	Model Model
	Program
}

// End is a state in which no thread can continue.
type End struct {
	Regs    map[string]int   // by the number of the thread, a colon and the register's name; absent before its load
	History map[string][]int // of each of the device's registers: what was stored, in order
}

// first returns for each operation the set of those that are performed before it, as bits.
func (t Thread) first() []uint64 {
	out := make([]uint64, len(t.Program))
	for j, b := range t.Program {
		for i, a := range t.Program[:j] {
			if t.ordered(a, b, t.Program[i+1:j]) {
				out[j] |= 1 << i
			}
		}
	}
	return out
}

// ordered reports whether a is performed before b, which comes later in the program, with others between them.
func (t Thread) ordered(a, b Op, between Program) bool {
	if t.Model == Device {
		return true
	}
	memory := func(o Op) bool { return o.Kind.load() || o.Kind.store() }
	if memory(a) && memory(b) {
		if a.Place == b.Place && (!a.Kind.store() || b.Kind.store()) {
			return true
		}
		if t.Model == AMD64 && t.ordered86(a, b) || t.Model == ARM64 && orderedArm(a, b) {
			return true
		}
		for _, f := range between {
			if f.Kind.orders(a.Kind, b.Kind) {
				return true
			}
		}
	}
	switch {
	case a.Kind == Await:
		return true // its loop branches, and acquires
	case a.Kind.load() && b.Kind == Branch:
		return a.Reg == b.Reg
	case a.Kind.load():
		return a.Reg != "" && slices.Contains(b.Deps, a.Reg)
	case a.Kind == Branch:
		return b.Kind.store() || b.Kind == Branch || t.Model == AMD64 && b.Kind.load()
	}
	return false
}

func (t Thread) ordered86(a, b Op) bool {
	switch {
	case a.Kind == Swap || b.Kind == Swap:
		return true
	case a.Kind.load():
		return true
	}
	return b.Kind.store() && a.Kind != Combine && b.Kind != Combine
}

func orderedArm(a, b Op) bool {
	acquires := a.Kind == LoadAcquire || a.Kind == Swap
	releases := b.Kind == StoreRelease || b.Kind == Swap
	return acquires || releases || a.Kind == StoreRelease && b.Kind == LoadAcquire
}

// orders reports whether a fence orders a before b.
func (k Kind) orders(a, b Kind) bool {
	switch k {
	case Fence:
		return true
	case LoadsFence:
		return a.load()
	case StoresFence, CombineFence:
		return a.store() && b.store()
	case StoresDone:
		return a.store()
	}
	return false
}

// explorer has the numbers of places and registers, which are the same in all states.
type explorer struct {
	threads      []Thread
	first        [][]uint64 // of each thread: before each operation, as bits
	places, regs map[string]int
}

// state is a state of the model. Threads have at most 64 operations each.
type state struct {
	mem  [8]uint8  // of each place
	regs [16]uint8 // of each register: what it has plus 1, or 0 before its load
	hist [8]uint64 // of each place: all that was stored to it as a register of the device plus 1, in base 8
	done [4]uint64 // of each thread: operations, as bits
	dead [4]bool   // of each thread
}

// Explore visits all states from memory with the contents init, 0 elsewhere. It returns the ends and the number of
// states. Values are below 7.
func Explore(threads []Thread, init map[string]int) (ends []End, states int) {
	x := &explorer{threads: threads, places: map[string]int{}, regs: map[string]int{}}
	number := func(m map[string]int, name string) {
		if _, ok := m[name]; !ok {
			m[name] = len(m)
		}
	}
	var start state
	for t, th := range threads {
		x.first = append(x.first, th.first())
		for i, o := range th.Program {
			switch {
			case o.Kind.IsFence():
				start.done[t] |= 1 << i
			case o.Kind == Branch:
				number(x.regs, regOf(t, o.Reg))
			default:
				number(x.places, o.Place)
				number(x.regs, regOf(t, o.Reg))
			}
		}
	}
	for p := range init {
		number(x.places, p)
	}
	for p, v := range init {
		start.mem[x.places[p]] = uint8(v)
	}
	seen, stack := map[state]bool{start: true}, []state{start}
	for len(stack) > 0 {
		s := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		moved := false
		for t, th := range threads {
			for j := range th.Program {
				bit := uint64(1) << j
				if s.dead[t] || s.done[t]&bit != 0 || x.first[t][j]&^s.done[t] != 0 {
					continue
				}
				if next, ok := x.perform(s, t, j); ok {
					moved = true
					next.done[t] |= bit
					if !seen[next] {
						seen[next] = true
						stack = append(stack, next)
					}
				}
			}
		}
		if !moved {
			ends = append(ends, x.end(s))
		}
	}
	return ends, len(seen)
}

// perform returns the state after operation j of a thread, unless it has to wait.
func (x *explorer) perform(s state, t, j int) (n state, ok bool) {
	program := x.threads[t].Program
	o := program[j]
	place, reg := x.places[o.Place], x.regs[regOf(t, o.Reg)]
	if (o.Kind == Await || o.Kind == Swap) && o.Old != Anything && int(s.mem[place]) != o.Old {
		return s, false
	}
	n = s
	switch {
	case o.Kind == Load || o.Kind == LoadAcquire:
		v := s.mem[place]
		for i := j - 1; i >= 0; i-- {
			if p := program[i]; p.Kind.store() && p.Place == o.Place {
				if s.done[t]>>i&1 == 0 {
					v = uint8(p.Val)
				}
				break
			}
		}
		n.regs[reg] = v + 1
	case o.Kind == Branch:
		n.dead[t] = o.Old != Anything && int(s.regs[reg]) != o.Old+1
	case o.Kind.store():
		n.mem[place] = uint8(o.Val)
		if o.Kind == Combine {
			n.hist[place] = s.hist[place]<<3 | (uint64(o.Val) + 1)
		}
	}
	return n, true
}

func regOf(t int, name string) string { return strconv.Itoa(t) + ":" + name }

func (x *explorer) end(s state) End {
	e := End{map[string]int{}, map[string][]int{}}
	for name, i := range x.regs {
		if s.regs[i] > 0 {
			e.Regs[name] = int(s.regs[i]) - 1
		}
	}
	for name, i := range x.places {
		for h := s.hist[i]; h > 0; h >>= 3 {
			e.History[name] = append(e.History[name], int(h&7)-1)
		}
		slices.Reverse(e.History[name])
	}
	return e
}
