package walls

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"testing"
)

// guarded are the packages that call functions of the program only by internal/foreign.
var guarded = []string{"rdma", "rdmacm"}

// interfaces are the types of other packages whose methods are the program's, if a parameter has them.
var (
	interfaces = []string{"io.Reader", "io.Writer", "net.Addr"}
	methods    = []string{"Read", "Write", "Network", "String"}
)

// guard finds calls of the program's functions.
type guard struct {
	set    *token.FileSet
	fields map[string]bool              // names of fields that hold such functions
	locals map[ast.Node]map[string]bool // of a function: its parameters and variables that do
	ifaces map[ast.Node]map[string]bool // of a function: those that hold interfaces of the program's
	files  []*ast.File
	found  int
	wrong  []string
}

// calls returns the calls of the program's functions that internal/foreign does not make, and how many it makes. api
// has the exported fields that are functions.
func calls(set *token.FileSet, files []*ast.File, api []string) (wrong []string, guarded int) {
	g := &guard{set: set, files: files, fields: map[string]bool{}, locals: map[ast.Node]map[string]bool{},
		ifaces: map[ast.Node]map[string]bool{}}
	for _, f := range api {
		g.fields[f] = true
	}
	g.each(func(d *ast.FuncDecl) {
		g.locals[d], g.ifaces[d] = map[string]bool{}, map[string]bool{}
		for _, p := range d.Type.Params.List {
			_, isFunc := p.Type.(*ast.FuncType)
			sel, isSel := p.Type.(*ast.SelectorExpr)
			for _, name := range p.Names {
				if isFunc && d.Name.IsExported() {
					g.locals[d][name.Name] = true
				}
				if isSel && slices.Contains(interfaces, fmt.Sprint(sel.X, ".", sel.Sel)) {
					g.ifaces[d][name.Name] = true
				}
			}
		}
	})
	for before := -1; before != g.size(); { // functions are stored, and taken from where they are
		before = g.size()
		g.each(g.flow)
	}
	g.each(g.check)
	return g.wrong, g.found
}

func (g *guard) each(f func(*ast.FuncDecl)) {
	for _, file := range g.files {
		for _, d := range file.Decls {
			if d, is := d.(*ast.FuncDecl); is && d.Body != nil {
				f(d)
			}
		}
	}
}

func (g *guard) size() int {
	n := len(g.fields)
	for _, m := range g.locals {
		n += len(m)
	}
	for _, m := range g.ifaces {
		n += len(m)
	}
	return n
}

// holds reports whether an expression in a function is one of the program's functions, or a list of them.
func (g *guard) holds(d *ast.FuncDecl, e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return g.locals[d][e.Name]
	case *ast.SelectorExpr:
		return g.fields[e.Sel.Name]
	case *ast.IndexExpr:
		return g.holds(d, e.X)
	case *ast.SliceExpr:
		return g.holds(d, e.X)
	case *ast.CallExpr: // append, slices.Backward and the like
		if g.holds(d, e.Fun) {
			return false
		}
		return slices.ContainsFunc(e.Args, func(a ast.Expr) bool { return g.holds(d, a) })
	}
	return false
}

// store notes where a function of the program is stored.
func (g *guard) store(d *ast.FuncDecl, to ast.Expr) {
	switch to := to.(type) {
	case *ast.Ident:
		if to.Name != "_" && to.Name != "err" {
			g.locals[d][to.Name] = true
		}
	case *ast.SelectorExpr:
		g.fields[to.Sel.Name] = true
	}
}

func (g *guard) flow(d *ast.FuncDecl) {
	ast.Inspect(d.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, right := range n.Rhs {
				call, isCall := right.(*ast.CallExpr)
				lists := !isCall || regexp.MustCompile(`^(append|.*Clone|.*Concat)$`).MatchString(called(call.Fun))
				if lists && i < len(n.Lhs) && g.holds(d, right) {
					g.store(d, n.Lhs[i])
				}
			}
		case *ast.KeyValueExpr:
			if key, is := n.Key.(*ast.Ident); is && g.holds(d, n.Value) {
				g.fields[key.Name] = true
			}
		case *ast.RangeStmt:
			if n.Value != nil && g.holds(d, n.X) {
				g.store(d, n.Value)
			}
		case *ast.TypeSwitchStmt:
			if as, is := n.Assign.(*ast.AssignStmt); is {
				if x, is := as.Rhs[0].(*ast.TypeAssertExpr).X.(*ast.Ident); is && g.ifaces[d][x.Name] {
					g.ifaces[d][as.Lhs[0].(*ast.Ident).Name] = true
				}
			}
		}
		return true
	})
}

// called is the name that an expression calls.
func called(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return called(e.X) + "." + e.Sel.Name
	}
	return ""
}

func (g *guard) check(d *ast.FuncDecl) {
	inside := 0
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is {
			return true
		}
		sel, _ := call.Fun.(*ast.SelectorExpr)
		theirs := g.holds(d, call.Fun)
		if sel != nil {
			x, isIdent := sel.X.(*ast.Ident)
			theirs = theirs || isIdent && g.ifaces[d][x.Name] && slices.Contains(methods, sel.Sel.Name) ||
				isIdent && x.Name == "slog" // its handler is the program's
		}
		if theirs && inside > 0 {
			g.found++
		} else if theirs {
			g.wrong = append(g.wrong, fmt.Sprintf("%v: %s", g.set.Position(call.Pos()), called(call.Fun)))
		}
		guards := sel != nil && (called(sel) == "foreign.Call" || sel.Sel.Name == "Wait" && len(call.Args) == 2)
		if !guards {
			return true
		}
		for i, arg := range call.Args {
			first := called(sel) == "foreign.Call" && i == 0 || sel.Sel.Name == "Wait" && i == 1
			if lit, is := arg.(*ast.FuncLit); is && first {
				inside++
				ast.Inspect(lit.Body, visit)
				inside--
			} else if g.holds(d, arg) && first {
				g.found++
			} else {
				ast.Inspect(arg, visit)
			}
		}
		return false
	}
	ast.Inspect(d.Body, visit)
}

// TestForeign: functions of the program are called by internal/foreign alone.
func TestForeign(t *testing.T) {
	field := regexp.MustCompile(`(?m)^type \w+ struct, (\w+) func\(`)
	for _, dir := range guarded {
		api, err := os.ReadFile("../../testdata/api/" + dir + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		var fields []string
		for _, m := range field.FindAllStringSubmatch(string(api), -1) {
			fields = append(fields, m[1])
		}
		var list []source
		for _, s := range sources(t) {
			if s.dir == dir && !s.test() {
				list = append(list, s)
			}
		}
		wrong, found := calls(list[0].set, syntax(list), fields)
		for _, w := range wrong {
			t.Errorf("%s: is a function of the program, which internal/foreign calls", w)
		}
		if found < len(fields) {
			t.Errorf("%s: found %d calls of the %d functions of the program", dir, found, len(fields))
		}
	}
}

// TestForeignFails checks that TestForeign can fail.
func TestForeignFails(t *testing.T) {
	const head = `package p
type O struct { F func() error }
type s struct { g func(); list []func() error }
`
	for name, c := range map[string]struct {
		src   string
		wrong int
		found int
	}{
		"by foreign":  {`func f(o *O) { foreign.Call(func() { o.F() }, nil); c.Wait(nil, func() { o.F() }) }`, 0, 2},
		"itself":      {`func f(o *O) { foreign.Call(o.F, nil) }`, 0, 1},
		"alone":       {`func f(o *O) { o.F() }`, 1, 0},
		"afterwards":  {`func f(o *O) { foreign.Call(func() {}, func(bool) { o.F() }) }`, 1, 0},
		"a variable":  {`func f(o *O) { if g := o.F; g != nil { g() } }`, 1, 0},
		"a parameter": {`func F(f func()) { f() }; func own(f func()) { f() }`, 1, 0},
		"stored":      {`func F(f func()) *s { return &s{g: f} }; func (x *s) h() { go x.g() }`, 1, 0},
		"in a list": {`func (x *s) F(f func() error) { x.list = append(x.list, f) }
func h(x *s) { for _, y := range x.list { y() } }`, 1, 0},
		"an interface":  {`func f(r io.Reader) { r.Read(nil); foreign.Call(func() { r.Read(nil) }, nil) }`, 1, 1},
		"a log":         {`func f() { slog.Info(""); foreign.Call(func() { slog.Info("") }, nil) }`, 1, 1},
		"a type switch": {`func f(a net.Addr) { switch b := a.(type) { case nil: default: b.String() } }`, 1, 0},
	} {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, head+c.src, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if wrong, found := calls(set, []*ast.File{f}, []string{"F"}); len(wrong) != c.wrong || found != c.found {
			t.Errorf("%s: wrong are %q, and %d are right; want %d and %d", name, wrong, found, c.wrong, c.found)
		}
	}
}
