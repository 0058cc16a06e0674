package steps

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// frame is a call of a function that was inlined.
type frame[W any] struct {
	*compiler[W]
	vars    map[types.Object]arg[W]
	body    *ast.BlockStmt
	outer   *frame[W] // of a function literal
	results []int
	end     int // label
	defers  []*ast.CallExpr
	targets []target
}

// arg is the value of a variable in a frame.
type arg[W any] struct {
	slot    int
	pointer bool         // it points to slot
	fn      *function[W] // it is a function
}

// function is a function value that is known when it is compiled.
type function[W any] struct {
	name  string // "" is a literal
	typ   *ast.FuncType
	recv  *ast.FieldList
	body  *ast.BlockStmt
	bound []arg[W]  // the receiver of a method value
	outer *frame[W] // of a function literal
}

// target is a statement that break or continue ends.
type target struct{ brk, cont int }

const noLabel = -1

// inline emits a function's body, and returns the slots of its results. args begin with the receiver.
func (c *compiler[W]) inline(fn *function[W], args []arg[W]) []int {
	if c.depth++; c.depth > 30 {
		c.fail(fn.typ, "recursion")
	}
	pos, within := c.pos, c.within
	if fn.name != "" {
		c.within = fn.name
	}
	f := &frame[W]{compiler: c, vars: make(map[types.Object]arg[W]), body: fn.body, outer: fn.outer, end: c.label()}
	for _, list := range []*ast.FieldList{fn.recv, fn.typ.Params} {
		if list == nil {
			continue
		}
		for _, p := range list.List {
			names := p.Names
			if len(names) == 0 {
				names = []*ast.Ident{nil}
			}
			for _, name := range names {
				a := args[0]
				args = args[1:]
				if name == nil || name.Name == "_" {
					continue
				}
				obj := c.src.info.Defs[name]
				if a.fn == nil && !a.pointer && c.assigned(fn.body, obj) {
					own := c.slot()
					c.move(own, a.slot)
					a.slot = own
				}
				f.vars[obj] = a
			}
		}
	}
	if fn.typ.Results != nil {
		for _, r := range fn.typ.Results.List {
			for i := range max(len(r.Names), 1) {
				slot := c.slot()
				f.results = append(f.results, slot)
				if len(r.Names) > 0 {
					c.move(slot, c.constant(0))
					if obj := c.src.info.Defs[r.Names[i]]; obj != nil {
						f.vars[obj] = arg[W]{slot: slot}
					}
				}
			}
		}
	}
	f.block(fn.body.List)
	c.pos = fn.body.Rbrace
	f.leave()
	c.place(f.end)
	c.depth--
	c.pos, c.within = pos, within
	return f.results
}

// assigned reports whether a variable is assigned to.
func (c *compiler[W]) assigned(body ast.Node, obj types.Object) (found bool) {
	is := func(e ast.Expr) {
		for {
			switch x := e.(type) {
			case *ast.SelectorExpr:
				e = x.X
				continue
			case *ast.Ident:
				found = found || c.src.info.Uses[x] == obj
			}
			return
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, l := range n.Lhs {
				is(l)
			}
		case *ast.IncDecStmt:
			is(n.X)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				is(n.X)
			}
		}
		return true
	})
	return found
}

// variable returns what a variable is.
func (f *frame[W]) variable(obj types.Object) (arg[W], bool) {
	for ; f != nil; f = f.outer {
		if a, ok := f.vars[obj]; ok {
			return a, true
		}
	}
	return arg[W]{}, false
}

func (f *frame[W]) declare(id *ast.Ident) int {
	slot := f.slot()
	if obj := f.src.info.Defs[id]; obj != nil {
		f.vars[obj] = arg[W]{slot: slot}
	}
	return slot
}

func (f *frame[W]) block(list []ast.Stmt) {
	for _, s := range list {
		f.statement(s)
	}
}

// removed reports whether a statement is left out.
func (c *compiler[W]) removed(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.AssignStmt:
		if s.Tok == token.DEFINE {
			return false
		}
	case *ast.IfStmt: // if err := f(); err != nil
		if s.Init == nil || s.Else != nil {
			return false
		}
	case *ast.ExprStmt, *ast.SendStmt, *ast.IncDecStmt, *ast.DeferStmt:
	default:
		return false
	}
	st := c.src.statement(s, c.within)
	if !slices.Contains(c.p.Statements, st) {
		c.p.Statements = append(c.p.Statements, st)
	}
	return slices.Contains(c.without, st)
}

func (f *frame[W]) statement(s ast.Stmt) {
	if s == nil || f.removed(s) {
		return
	}
	f.pos = s.Pos()
	switch s := s.(type) {
	case *ast.EmptyStmt:
	case *ast.BlockStmt:
		f.block(s.List)
	case *ast.ExprStmt:
		f.exprs(s.X)
	case *ast.SendStmt:
		f.emit(instr[W]{kind: choose, shared: true, dst: f.slot(),
			cases: []comm{{send: true, ch: f.expr(s.Chan), val: f.expr(s.Value), to: -1}}})
	case *ast.IncDecStmt:
		op := token.ADD
		if s.Tok == token.DEC {
			op = token.SUB
		}
		f.store(s.X, f.operate(op, f.expr(s.X), f.constant(1)))
	case *ast.AssignStmt:
		f.assign(s)
	case *ast.DeferStmt:
		f.later(s)
	case *ast.ReturnStmt:
		f.give(s)
	case *ast.BranchStmt:
		f.leap(s)
	case *ast.IfStmt:
		f.statement(s.Init)
		yes, no, end := f.label(), f.label(), f.label()
		f.condition(s.Cond, yes, no)
		if f.reached[yes] {
			f.place(yes)
			f.block(s.Body.List)
			f.jump(end)
		}
		f.place(no)
		if f.reached[no] {
			f.statement(s.Else)
		}
		f.place(end)
	case *ast.ForStmt:
		f.loop(s)
	case *ast.RangeStmt:
		f.count(s)
	case *ast.SwitchStmt:
		f.choice(s)
	case *ast.SelectStmt:
		f.choose(s)
	case *ast.DeclStmt:
		for _, spec := range s.Decl.(*ast.GenDecl).Specs {
			v := spec.(*ast.ValueSpec)
			for i, name := range v.Names {
				slot := f.constant(0)
				if v.Values != nil {
					slot = f.expr(v.Values[i])
				}
				f.move(f.declare(name), slot)
			}
		}
	default:
		f.fail(s, "statement %T", s)
	}
}

// store assigns to a variable or a field.
func (f *frame[W]) store(to ast.Expr, slot int) {
	switch x := ast.Unparen(to).(type) {
	case *ast.Ident:
		if x.Name == "_" {
			return
		}
		a, ok := f.variable(f.src.info.ObjectOf(x))
		if !ok {
			f.fail(x, "variable %s", x.Name)
		}
		f.move(a.slot, slot)
	case *ast.StarExpr:
		f.move(f.target(x), slot)
	case *ast.SelectorExpr:
		base, name, bits, lo := f.field(x)
		if bits == 0 {
			f.call(x, name+"=", []int{base, slot}, 0)
			return
		}
		f.emit(instr[W]{kind: put, dst: base, a: slot, bits: bits, lo: lo})
	default:
		f.fail(to, "assignment to %T", to)
	}
}

func (f *frame[W]) assign(s *ast.AssignStmt) {
	if op, ok := operators[s.Tok]; ok {
		f.store(s.Lhs[0], f.operate(op, f.expr(s.Lhs[0]), f.expr(s.Rhs[0])))
		return
	}
	if lit, ok := s.Rhs[0].(*ast.FuncLit); ok && len(s.Rhs) == 1 {
		f.vars[f.src.info.Defs[s.Lhs[0].(*ast.Ident)]] = arg[W]{fn: f.literal(lit)}
		return
	}
	from := f.values(s.Rhs)
	for i, to := range s.Lhs {
		if id, ok := to.(*ast.Ident); ok && s.Tok == token.DEFINE && f.src.info.Defs[id] != nil {
			f.move(f.declare(id), from[i])
		} else {
			f.store(to, from[i])
		}
	}
}

// values emits one expression with any number of values, or several that have one each.
func (f *frame[W]) values(list []ast.Expr) (out []int) {
	if len(list) == 1 {
		return f.exprs(list[0])
	}
	for _, e := range list {
		slot := f.slot()
		f.move(slot, f.expr(e))
		out = append(out, slot)
	}
	return out
}

var operators = map[token.Token]token.Token{token.ADD_ASSIGN: token.ADD, token.SUB_ASSIGN: token.SUB,
	token.MUL_ASSIGN: token.MUL, token.OR_ASSIGN: token.OR, token.AND_ASSIGN: token.AND,
	token.XOR_ASSIGN: token.XOR, token.AND_NOT_ASSIGN: token.AND_NOT, token.SHL_ASSIGN: token.SHL,
	token.SHR_ASSIGN: token.SHR}

// give is a return statement.
func (f *frame[W]) give(s *ast.ReturnStmt) {
	for i, slot := range f.values(s.Results) {
		f.move(f.results[i], slot)
	}
	f.leave()
	f.jump(f.end)
}

// leap is a break or continue statement.
func (f *frame[W]) leap(s *ast.BranchStmt) {
	if s.Label != nil {
		f.fail(s, "a label")
	}
	for i := len(f.targets) - 1; i >= 0; i-- {
		switch t := f.targets[i]; {
		case s.Tok == token.BREAK:
			f.jump(t.brk)
			return
		case s.Tok == token.CONTINUE && t.cont != noLabel:
			f.jump(t.cont)
			return
		}
	}
	f.fail(s, "%s", s.Tok)
}

// inside emits a body that break, and continue unless cont is noLabel, leave.
func (f *frame[W]) inside(brk, cont int, body []ast.Stmt) {
	f.targets = append(f.targets, target{brk, cont})
	f.block(body)
	f.targets = f.targets[:len(f.targets)-1]
}

func (f *frame[W]) loop(s *ast.ForStmt) {
	f.statement(s.Init)
	top, body, next, end := f.label(), f.label(), f.label(), f.label()
	f.place(top)
	if s.Cond != nil {
		f.pos = s.Cond.Pos()
		f.condition(s.Cond, body, end)
	}
	f.place(body)
	f.inside(end, next, s.Body.List)
	f.place(next)
	f.statement(s.Post)
	f.jump(top)
	f.place(end)
}

// count is a loop over the numbers below another. Its body does not assign to the variable.
func (f *frame[W]) count(s *ast.RangeStmt) {
	n, i := f.expr(s.X), f.slot()
	f.move(i, f.constant(0))
	top, body, next, end := f.label(), f.label(), f.label(), f.label()
	f.place(top)
	f.branch(f.operate(token.LSS, i, n), body, end)
	f.place(body)
	if id, ok := s.Key.(*ast.Ident); ok {
		f.vars[f.src.info.Defs[id]] = arg[W]{slot: i}
	}
	f.inside(end, next, s.Body.List)
	f.place(next)
	f.move(i, f.operate(token.ADD, i, f.constant(1)))
	f.jump(top)
	f.place(end)
}

func (f *frame[W]) choice(s *ast.SwitchStmt) {
	f.statement(s.Init)
	tag := -1
	if s.Tag != nil {
		tag = f.expr(s.Tag)
	}
	end := f.label()
	otherwise, bodies := end, make([]int, len(s.Body.List))
	for i, st := range s.Body.List {
		clause := st.(*ast.CaseClause)
		bodies[i] = f.label()
		if clause.List == nil {
			otherwise = bodies[i]
		}
		for _, e := range clause.List {
			f.pos = e.Pos()
			no := f.label()
			if tag < 0 {
				f.condition(e, bodies[i], no)
			} else {
				f.branch(f.operate(token.EQL, tag, f.expr(e)), bodies[i], no)
			}
			f.place(no)
		}
	}
	f.jump(otherwise)
	for i, st := range s.Body.List {
		if f.reached[bodies[i]] {
			f.place(bodies[i])
			f.inside(end, noLabel, st.(*ast.CaseClause).Body)
			f.jump(end)
		}
	}
	f.place(end)
}

func (f *frame[W]) choose(s *ast.SelectStmt) {
	in := instr[W]{kind: choose, shared: true, dst: f.slot()}
	end := f.label()
	var bodies []*ast.CommClause
	var otherwise *ast.CommClause
	for _, st := range s.Body.List {
		clause := st.(*ast.CommClause)
		c := comm{to: -1}
		switch st := clause.Comm.(type) {
		case nil:
			in.fallback, otherwise = true, clause
			continue
		case *ast.SendStmt:
			c.send, c.ch, c.val = true, f.expr(st.Chan), f.expr(st.Value)
		case *ast.ExprStmt:
			c.ch = f.expr(st.X.(*ast.UnaryExpr).X)
		case *ast.AssignStmt:
			c.ch = f.expr(st.Rhs[0].(*ast.UnaryExpr).X)
			c.to = f.declare(st.Lhs[0].(*ast.Ident))
		}
		in.cases, bodies = append(in.cases, c), append(bodies, clause)
	}
	f.pos = s.Pos()
	f.emit(in)
	for i, clause := range bodies {
		yes, no := f.label(), f.label()
		if i < len(bodies)-1 || otherwise != nil {
			f.branch(f.operate(token.EQL, in.dst, f.constant(Value(i))), yes, no)
		}
		f.place(yes)
		f.inside(end, noLabel, clause.Body)
		f.jump(end)
		f.place(no)
	}
	if otherwise != nil {
		f.inside(end, noLabel, otherwise.Body)
	}
	f.place(end)
}
