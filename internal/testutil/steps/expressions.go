package steps

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// operate emits a binary operation.
func (c *compiler[W]) operate(op token.Token, a, b int) int {
	if x, ok := c.value(a); ok && x != Any {
		if y, ok := c.value(b); ok && y != Any {
			var m Machine[W]
			return c.constant(m.binary(op, x, y))
		}
	}
	dst := c.slot()
	c.emit(instr[W]{kind: binary, op: op, a: a, b: b, dst: dst})
	return dst
}

// expr emits an expression with one value.
func (f *frame[W]) expr(e ast.Expr) int {
	if tv, ok := f.src.info.Types[e]; ok && tv.Value != nil {
		if id, ok := e.(*ast.Ident); ok {
			if v, ok := f.compiler.named(f.src.info.Uses[id]); ok {
				return f.constant(v)
			}
		}
		if v, ok := number(tv.Value); ok {
			return f.constant(v)
		}
	}
	switch x := ast.Unparen(e).(type) {
	case *ast.Ident:
		return f.ident(x)
	case *ast.BinaryExpr:
		if x.Op == token.LAND || x.Op == token.LOR {
			return f.truth(x)
		}
		return f.operate(x.Op, f.expr(x.X), f.expr(x.Y))
	case *ast.UnaryExpr:
		return f.unary(x)
	case *ast.StarExpr:
		return f.target(x)
	case *ast.SelectorExpr:
		return f.selector(x)
	case *ast.CompositeLit:
		return f.composite(x)
	case *ast.CallExpr:
		list := f.exprs(x)
		if len(list) != 1 {
			f.fail(x, "%d values", len(list))
		}
		return list[0]
	}
	f.fail(e, "expression %T", e)
	return 0
}

func (f *frame[W]) ident(x *ast.Ident) int {
	obj := f.src.info.ObjectOf(x)
	if _, ok := obj.(*types.Nil); ok {
		return f.constant(0)
	}
	if a, ok := f.variable(obj); ok {
		if a.fn != nil || a.pointer {
			f.fail(x, "the value of %s", x.Name)
		}
		return a.slot
	}
	return f.global(x, obj)
}

// global is a constant or a variable of a package.
func (f *frame[W]) global(n ast.Node, obj types.Object) int {
	if v, ok := f.compiler.named(obj); ok {
		return f.constant(v)
	}
	return f.call(n, f.src.name(obj), nil, 1)[0]
}

func (f *frame[W]) unary(x *ast.UnaryExpr) int {
	switch x.Op {
	case token.ARROW:
		ch, to := f.expr(x.X), f.slot()
		f.emit(instr[W]{kind: choose, shared: true, dst: f.slot(), cases: []comm{{ch: ch, to: to}}})
		return to
	case token.NOT:
		return f.truth(x)
	}
	f.fail(x, "operator %s", x.Op)
	return 0
}

// target returns the local variable that a pointer points to.
func (f *frame[W]) target(x *ast.StarExpr) int {
	if id, ok := ast.Unparen(x.X).(*ast.Ident); ok {
		if a, ok := f.variable(f.src.info.Uses[id]); ok && a.pointer {
			return a.slot
		}
	}
	f.fail(x, "a pointer")
	return 0
}

// truth is a condition as a value.
func (f *frame[W]) truth(e ast.Expr) int {
	dst, yes, no, end := f.slot(), f.label(), f.label(), f.label()
	f.condition(e, yes, no)
	f.place(yes)
	f.move(dst, f.constant(1))
	f.jump(end)
	f.place(no)
	f.move(dst, f.constant(0))
	f.place(end)
	return dst
}

// condition continues at one of two labels.
func (f *frame[W]) condition(e ast.Expr, yes, no int) {
	e = ast.Unparen(e)
	switch x := e.(type) {
	case *ast.UnaryExpr:
		if x.Op == token.NOT {
			f.condition(x.X, no, yes)
			return
		}
	case *ast.BinaryExpr:
		if x.Op == token.LAND || x.Op == token.LOR {
			second := f.label()
			if x.Op == token.LAND {
				f.condition(x.X, second, no)
			} else {
				f.condition(x.X, yes, second)
			}
			f.place(second)
			f.condition(x.Y, yes, no)
			return
		}
	}
	f.branch(f.expr(e), yes, no)
}

// field resolves x.f: what x is, the name of the field, and its bits if x is a struct.
func (f *frame[W]) field(x *ast.SelectorExpr) (base int, name string, bits, lo uint8) {
	sel := f.src.info.Selections[x]
	if len(sel.Index()) != 1 {
		f.fail(x, "an embedded field")
	}
	base, name = f.expr(x.X), f.src.typeName(sel.Recv())+"."+x.Sel.Name
	if _, ok := sel.Recv().Underlying().(*types.Pointer); ok {
		return base, name, 0, 0
	}
	s := sel.Recv().Underlying().(*types.Struct)
	bits = uint8(structBits / s.NumFields())
	return base, name, bits, bits * uint8(sel.Index()[0])
}

func (f *frame[W]) selector(x *ast.SelectorExpr) int {
	sel := f.src.info.Selections[x]
	if sel == nil {
		return f.global(x, f.src.info.Uses[x.Sel])
	}
	if sel.Kind() != types.FieldVal {
		return f.constant(0) // a method value, for an operation of the model
	}
	if v, ok := f.model.Consts[f.src.typeName(sel.Recv())+"."+x.Sel.Name]; ok {
		return f.constant(v)
	}
	base, name, bits, lo := f.field(x)
	if bits == 0 {
		return f.call(x, name, []int{base}, 1)[0]
	}
	dst := f.slot()
	f.emit(instr[W]{kind: field, a: base, dst: dst, bits: bits, lo: lo})
	return dst
}

func (f *frame[W]) composite(x *ast.CompositeLit) int {
	s, ok := f.src.info.Types[x].Type.Underlying().(*types.Struct)
	if !ok {
		f.fail(x, "a literal of %s", f.src.info.Types[x].Type)
	}
	bits := uint8(structBits / max(s.NumFields(), 1))
	dst := f.slot()
	f.move(dst, f.constant(0))
	for i, e := range x.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			e = kv.Value
			for n := range s.NumFields() {
				if s.Field(n).Name() == kv.Key.(*ast.Ident).Name {
					i = n
				}
			}
		}
		f.emit(instr[W]{kind: put, dst: dst, a: f.expr(e), bits: bits, lo: bits * uint8(i)})
	}
	return dst
}

// declared returns a function of the source.
func (c *compiler[W]) declared(d *ast.FuncDecl) *function[W] {
	return &function[W]{name: c.src.name(c.src.info.Defs[d.Name]), typ: d.Type, recv: d.Recv, body: d.Body}
}

func (f *frame[W]) literal(x *ast.FuncLit) *function[W] {
	return &function[W]{typ: x.Type, body: x.Body, outer: f}
}

// argument is an expression, a function, or a pointer to a local variable.
func (f *frame[W]) argument(e ast.Expr) arg[W] {
	switch x := ast.Unparen(e).(type) {
	case *ast.FuncLit:
		return arg[W]{fn: f.literal(x)}
	case *ast.Ident:
		obj := f.src.info.Uses[x]
		if a, ok := f.variable(obj); ok {
			return a
		}
		if d := f.src.decls[obj]; d != nil {
			return arg[W]{fn: f.declared(d)}
		}
	case *ast.UnaryExpr:
		if id, ok := x.X.(*ast.Ident); ok && x.Op == token.AND {
			if a, ok := f.variable(f.src.info.Uses[id]); ok {
				return arg[W]{slot: a.slot, pointer: true}
			}
		}
	case *ast.SelectorExpr:
		if sel := f.src.info.Selections[x]; sel != nil && sel.Kind() != types.FieldVal {
			if d := f.src.decls[sel.Obj()]; d != nil {
				fn := f.declared(d)
				if sel.Kind() == types.MethodVal {
					fn.bound = []arg[W]{{slot: f.expr(x.X)}}
				}
				return arg[W]{fn: fn}
			}
		}
	}
	return arg[W]{slot: f.expr(e)}
}

// exprs emits an expression with any number of values.
func (f *frame[W]) exprs(e ast.Expr) []int {
	x, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return []int{f.expr(e)}
	}
	if tv := f.src.info.Types[x.Fun]; tv.IsType() {
		return []int{f.expr(x.Args[0])}
	} else if tv.IsBuiltin() {
		return f.builtin(x)
	}
	var obj types.Object
	var args []arg[W]
	name := ""
	switch fun := ast.Unparen(x.Fun).(type) {
	case *ast.Ident:
		obj = f.src.info.Uses[fun]
	case *ast.SelectorExpr:
		sel := f.src.info.Selections[fun]
		if sel == nil {
			obj = f.src.info.Uses[fun.Sel]
			break
		}
		obj, name = sel.Obj(), f.src.name(sel.Obj())
		switch inner, fields := ast.Unparen(fun.X).(*ast.SelectorExpr); {
		case sel.Kind() == types.FieldVal: // a function in a field
			name = f.src.typeName(sel.Recv()) + "." + fun.Sel.Name
		case sel.Kind() == types.MethodExpr:
		case fields && f.foreign(fun.X, sel):
			owner := f.src.info.Selections[inner]
			name = f.src.typeName(owner.Recv()) + "." + inner.Sel.Name + "." + fun.Sel.Name
			args = append(args, arg[W]{slot: f.expr(inner.X)})
		default:
			args = append(args, f.argument(fun.X))
		}
	case *ast.FuncLit:
		return f.apply(f.literal(fun), x, nil)
	default:
		f.fail(x, "a call of %T", fun)
	}
	if a, ok := f.variable(obj); ok && a.fn != nil {
		return f.apply(a.fn, x, slices.Clone(a.fn.bound))
	}
	if name == "" {
		name = f.src.name(obj)
	}
	if other, ok := f.model.Calls[name]; ok {
		return f.apply(f.declared(f.src.find(other)), x, args)
	}
	if _, ok := f.model.Primitives[name+"Begin"]; ok && obj.Name() == "Do" {
		return f.once(x, name, args)
	}
	if d := f.src.decls[obj]; d != nil && d.Body != nil {
		if _, ok := f.model.Primitives[name]; !ok {
			return f.apply(f.declared(d), x, args)
		}
	}
	var slots []int
	for _, a := range args {
		slots = append(slots, a.slot)
	}
	for _, e := range x.Args {
		slots = append(slots, f.argument(e).slot)
	}
	return f.call(x, name, slots, obj.Type().Underlying().(*types.Signature).Results().Len())
}

// foreign reports whether a method belongs to a field that is a struct of a package without source.
func (f *frame[W]) foreign(x ast.Expr, sel *types.Selection) bool {
	_, ok := f.src.info.Types[x].Type.Underlying().(*types.Struct)
	return ok && f.src.decls[sel.Obj()] == nil
}

// apply inlines a function with what args has already, and the arguments of the call.
func (f *frame[W]) apply(fn *function[W], x *ast.CallExpr, args []arg[W]) []int {
	for _, e := range x.Args {
		args = append(args, f.argument(e))
	}
	return f.inline(fn, args)
}

// once is a call of sync.Once.Do.
func (f *frame[W]) once(x *ast.CallExpr, name string, args []arg[W]) []int {
	slots := []int{args[0].slot}
	yes, end := f.label(), f.label()
	f.branch(f.call(x, name+"Begin", slots, 1)[0], yes, end)
	f.place(yes)
	f.inline(f.literal(x.Args[0].(*ast.FuncLit)), nil)
	f.call(x, name+"End", slots, 0)
	f.place(end)
	return nil
}

func (f *frame[W]) builtin(x *ast.CallExpr) []int {
	switch name := ast.Unparen(x.Fun).(*ast.Ident).Name; name {
	case "make":
		return f.call(x, "make(chan)", nil, 1)
	case "close":
		f.emit(instr[W]{kind: closes, shared: true, a: f.expr(x.Args[0])})
		return nil
	case "min", "max":
		dst := f.slot()
		f.move(dst, f.expr(x.Args[0]))
		op := token.LSS
		if name == "max" {
			op = token.GTR
		}
		for _, e := range x.Args[1:] {
			v, yes, no := f.expr(e), f.label(), f.label()
			f.branch(f.operate(op, v, dst), yes, no)
			f.place(yes)
			f.move(dst, v)
			f.place(no)
		}
		return []int{dst}
	default:
		f.fail(x, "%s", name)
	}
	return nil
}
