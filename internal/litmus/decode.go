package litmus

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// instruction is an instruction in parts.
type instruction struct {
	op          string
	operands    []string
	ends        bool   // the program ends here, by a fault
	returns     bool   //
	jump, call  string // where to
	conditional bool
	sources     []string // registers that a conditional jump compares
}

var (
	arm64Jumps = regexp.MustCompile(`^(B(EQ|NE|LT|LE|GT|GE|LO|LS|HI|HS|CC|CS|MI|PL|VS|VC)|T?CBN?ZW?|TBN?Z)$`)
	memory86   = regexp.MustCompile(`^(-?(?:0x)?[0-9a-f]+)?\((\w+)\)(?:\((\w+)\*\d\))?$`)
	memory64   = regexp.MustCompile(`^(-?\d+)?\((\w+)\)(?:\((\w+)(?:<<\d)?\))?$`)
	register   = regexp.MustCompile(`^[A-Z][A-Z0-9]*$`)
)

// decode takes an instruction apart.
func decode(m Model, text string) instruction {
	op, rest, _ := strings.Cut(text, " ")
	if op == "LOCK" {
		op, rest, _ = strings.Cut(rest, " ")
		op = "LOCK " + op
	}
	n := instruction{op: op, operands: operands(rest)}
	switch {
	case op == "RET":
		n.returns = true
	case op == "INT" || op == "UD2" || op == "BRK" || op == "UNDEF":
		n.ends = true
	case op == "CALL":
		n.call = rest
	case op == "JMP":
		n.jump = rest
	case m == AMD64 && op[0] == 'J':
		n.jump, n.conditional = rest, true
	case m == ARM64 && arm64Jumps.MatchString(op):
		n.jump, n.conditional = n.operands[len(n.operands)-1], true
		n.sources = n.operands[:len(n.operands)-1]
	}
	return n
}

// operands divides at the commas outside of brackets.
func operands(s string) []string {
	var out []string
	depth, start := 0, 0
	for i, c := range s {
		switch c {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case ',':
			if depth == 0 {
				out = append(out, strings.TrimSpace(s[start:i]))
				start = i + 1
			}
		}
	}
	if s = strings.TrimSpace(s[start:]); s != "" {
		out = append(out, s)
	}
	return out
}

var fences = map[string]Kind{
	"SFENCE": CombineFence, "MFENCE": Fence, "DMB $1": LoadsFence, "DMB $2": StoresFence, "DMB $3": Fence,
	"DMB $9": InnerFence, "DMB $10": InnerFence, "DMB $11": InnerFence, "DSB $14": StoresDone,
}

// step executes an instruction that neither jumps nor calls.
func (r *Reader) step(w *walk, n instruction) error {
	if k, ok := fences[strings.TrimSpace(n.op+" "+strings.Join(n.operands, " "))]; ok {
		w.program = append(w.program, Op{Kind: k})
		return nil
	}
	op, o := n.op, n.operands
	switch op {
	case "DMB", "DSB", "LFENCE":
		return fmt.Errorf("an unknown barrier")
	case "NOP", "NOPL", "NOPW", "NOOP", "?", "PCDATA":
		return nil
	case "PUSHQ":
		w.sp -= 8
		return nil
	case "POPQ":
		w.sp += 8
		return nil
	}
	if len(o) == 0 {
		return nil
	}
	if r.Model == AMD64 {
		return r.step86(w, op, o)
	}
	return r.stepArm(w, op, o)
}

// place returns where a memory operand points; ok is false for other operands. On the stack it has an offset only.
func (r *Reader) place(w *walk, operand string) (at value, onStack, ok bool) {
	form, sp := memory86, "SP"
	if r.Model == ARM64 {
		form, sp = memory64, "RSP"
	}
	m := form.FindStringSubmatch(operand)
	if m == nil {
		if strings.HasSuffix(operand, "(SB)") || strings.HasPrefix(operand, "FS:") {
			return value{from: operand}, false, true
		}
		return value{}, false, false
	}
	off, _ := strconv.ParseInt(m[1], 0, 64)
	if m[2] == sp {
		return value{off: w.sp + int(off)}, true, true
	}
	at = w.regs[m[2]]
	if m[3] != "" {
		at = join(at, w.regs[m[3]])
	}
	at.off += int(off)
	return at, false, true
}

// join is a value that depends on several.
func join(vs ...value) value {
	var out value
	var from []string
	for _, v := range vs {
		if v.from != "" {
			from = append(from, v.path())
		}
		out.deps = union(out.deps, v.deps)
	}
	if out.from = strings.Join(from, ","); len(out.from) > 500 {
		out.from = "much"
	}
	return out
}

// load returns what an operand has: memory, a register, a constant, or an expression of registers.
func (r *Reader) load(w *walk, operand string, kind Kind) value {
	if at, onStack, ok := r.place(w, operand); onStack {
		return w.stack[at.off]
	} else if ok {
		return r.access(w, at, kind, nil)
	}
	if register.MatchString(operand) {
		return w.regs[operand]
	}
	var vs []value
	for _, f := range strings.FieldsFunc(operand, func(c rune) bool { return strings.ContainsRune("<>-@()[],. ", c) }) {
		if v, ok := w.regs[f]; ok {
			vs = append(vs, v)
		}
	}
	return join(vs...)
}

// all returns what depends on all of some operands.
func (r *Reader) all(w *walk, operands []string) value {
	var vs []value
	for _, x := range operands {
		vs = append(vs, r.load(w, x, Load))
	}
	return join(vs...)
}

// put stores to an operand: memory or a register.
func (r *Reader) put(w *walk, operand string, kind Kind, v value) {
	if at, onStack, ok := r.place(w, operand); onStack {
		w.stack[at.off] = v
	} else if ok {
		r.access(w, at, kind, v.deps)
	} else {
		w.regs[operand] = v
	}
}

// constant returns the number that an operand like $8 or $0x8 adds; SUB adds a negative one.
func constant(op, operand string) (int, bool) {
	s, ok := strings.CutPrefix(operand, "$")
	n, err := strconv.ParseInt(s, 0, 64)
	if strings.HasPrefix(op, "SUB") {
		n = -n
	}
	return int(n), ok && err == nil
}

// starts reports whether an instruction's name begins so.
func starts(op string, with ...string) bool {
	return slices.ContainsFunc(with, func(s string) bool { return strings.HasPrefix(op, s) })
}

func (r *Reader) step86(w *walk, op string, o []string) error {
	last := o[len(o)-1]
	base := strings.TrimRight(op, "BWLQ")
	switch {
	case strings.HasPrefix(op, "XCHG"):
		r.put(w, last, exchange, value{})
		r.put(w, o[0], Load, value{})
	case strings.HasPrefix(op, "LOCK "):
		r.put(w, last, Swap, value{})
		w.flags = nil
	case base == "CMP" || base == "TEST" || base == "BT" || strings.HasPrefix(base, "UCOMIS"):
		w.flags = r.all(w, o).deps
	case strings.HasPrefix(op, "LEA"):
		v, _, _ := r.place(w, o[0])
		w.regs[last] = v
	case strings.HasPrefix(op, "CMOV"):
		v := join(r.load(w, o[0], Load), w.regs[last])
		v.deps = union(v.deps, w.flags)
		w.regs[last] = v
	case strings.HasPrefix(op, "SET"):
		r.put(w, last, Store, value{deps: w.flags})
	case strings.HasPrefix(op, "MOV") && len(o) == 2:
		r.put(w, last, Store, r.load(w, o[0], Load))
	case (op == "ADDQ" || op == "SUBQ") && last == "SP":
		n, _ := constant(op, o[0])
		w.sp += n
	default: // arithmetic on the last operand
		v := r.load(w, last, Load)
		if n, ok := constant(op, o[0]); ok && (op == "ADDQ" || op == "SUBQ") && len(o) == 2 {
			v.off += n
		} else if len(o) > 1 {
			vs := []value{v}
			for _, x := range o[:len(o)-1] {
				vs = append(vs, r.load(w, x, Load))
			}
			if v = join(vs...); strings.HasPrefix(op, "XOR") && o[0] == last {
				v = value{}
			}
		}
		r.put(w, last, Store, v)
		w.flags = v.deps
	}
	return nil
}

func (r *Reader) stepArm(w *walk, op string, o []string) error {
	last := o[len(o)-1]
	base, update, _ := strings.Cut(op, ".")
	switch {
	case starts(base, "CAS", "SWP", "LDADD", "LDCLR", "LDOR"): // old, (address), new
		if !strings.Contains(base, "AL") {
			return fmt.Errorf("a locked instruction that does not order")
		}
		r.put(w, o[1], Swap, value{})
		w.regs[o[0]], w.regs[last] = value{}, value{}
	case strings.HasPrefix(base, "LDAXR"): // of a loop that ends with STLXR
		w.regs[last] = value{}
	case strings.HasPrefix(base, "STLXR"):
		r.put(w, o[1], Swap, value{})
		w.regs[last] = value{}
	case starts(base, "LDXR", "STXR"):
		return fmt.Errorf("a locked instruction that does not order")
	case strings.HasPrefix(base, "LDAR"):
		w.regs[last] = r.load(w, o[0], LoadAcquire)
	case strings.HasPrefix(base, "STLR"):
		r.put(w, last, StoreRelease, r.load(w, o[0], Load))
	case slices.Contains([]string{"CMP", "CMPW", "CMN", "CMNW", "TST", "TSTW"}, base) || starts(base, "CCM", "FCMP"):
		w.flags = r.all(w, o).deps
	case starts(base, "CSEL", "CSET", "CSINC"):
		v := r.all(w, o[:len(o)-1])
		v.deps = union(v.deps, w.flags)
		w.regs[last] = v
	case strings.HasPrefix(base, "LDP"):
		to := strings.Split(strings.Trim(last, "()"), ", ")
		v, err := r.pair(o[0], len(base) > 3)
		if err != nil {
			return err
		}
		w.regs[to[0]], w.regs[to[1]] = r.load(w, v[0], Load), r.load(w, v[1], Load)
	case strings.HasPrefix(base, "STP"):
		from := strings.Split(strings.Trim(o[0], "()"), ", ")
		v, err := r.pair(last, len(base) > 3)
		if err != nil {
			return err
		}
		r.put(w, v[0], Store, w.regs[from[0]])
		r.put(w, v[1], Store, w.regs[from[1]])
	case starts(base, "MOV", "FMOV", "VLD", "VST"):
		return r.moveArm(w, update, o[0], last)
	case (base == "ADD" || base == "SUB") && len(o) == 3:
		n, ok := constant(base, o[0])
		v := r.load(w, o[1], Load)
		switch {
		case ok && last == "RSP":
			w.sp += n
		case ok && o[1] != "RSP":
			v.off += n
			w.regs[last] = v
		default:
			w.regs[last] = join(r.load(w, o[0], Load), v)
		}
	default: // arithmetic on registers
		if starts(base, "LD", "ST", "PRFM") {
			return fmt.Errorf("an instruction that the reader does not know")
		}
		from := o[:len(o)-1]
		if strings.HasPrefix(base, "BF") {
			from = o
		}
		v := r.all(w, from)
		w.regs[last] = v
		if strings.HasSuffix(base, "S") || strings.HasSuffix(base, "SW") {
			w.flags = v.deps
		}
	}
	return nil
}

// moveArm is a load, a store, or a move between registers. W and P update the address before and after it.
func (r *Reader) moveArm(w *walk, update, from, to string) error {
	for _, x := range []string{from, to} {
		m := memory64.FindStringSubmatch(x)
		if m == nil || update == "" {
			continue
		}
		off, _ := strconv.Atoi(m[1])
		plain := "(" + m[2] + ")"
		move := func() {
			if m[2] == "RSP" {
				w.sp += off
			} else {
				v := w.regs[m[2]]
				v.off += off
				w.regs[m[2]] = v
			}
		}
		if update == "W" {
			move()
		} else {
			defer move()
		}
		if x == from {
			from = plain
		} else {
			to = plain
		}
		break
	}
	r.put(w, to, Store, r.load(w, from, Load))
	return nil
}

// pair is the memory operands of a pair of registers at an operand.
func (r *Reader) pair(operand string, words bool) (out [2]string, err error) {
	m := memory64.FindStringSubmatch(operand)
	if m == nil || m[3] != "" {
		return out, fmt.Errorf("an unknown pair")
	}
	off, _ := strconv.Atoi(m[1])
	size := 8
	if words {
		size = 4
	}
	return [2]string{operand, fmt.Sprintf("%d(%s)", off+size, m[2])}, nil
}
