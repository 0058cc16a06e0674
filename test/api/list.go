package main

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// exported returns the list of each public package, by its path in the module: packages that other modules can import,
// without those that only tests and examples use.
func exported() (map[string][]string, error) {
	const importable = `{{if ne .Name "main"}}{{if .GoFiles}}{{.ImportPath}}{{end}}{{end}}`
	out, err := command("go", "list", "-f", importable, "./...")
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, p := range strings.Fields(out) {
		name := strings.TrimPrefix(p, module+"/")
		inside := slices.Contains(strings.Split(name, "/"), "internal")
		tree, _, _ := strings.Cut(name, "/")
		if !inside && tree != "test" && tree != "examples" {
			paths = append(paths, p)
		}
	}
	data := map[string]string{}
	args := []string{"go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	out, err = command(append(args, paths...)...)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(out) {
		p, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		data[p] = file
	}
	open := func(p string) (io.ReadCloser, error) { return os.Open(data[p]) }
	imp := importer.ForCompiler(token.NewFileSet(), "gc", open)
	lists := map[string][]string{}
	for _, p := range paths {
		pkg, err := imp.Import(p)
		if err != nil {
			return nil, err
		}
		lists[strings.TrimPrefix(p, module+"/")] = listOf(pkg)
	}
	return lists, nil
}

// listOf returns a line for each exported name of a package, sorted.
func listOf(pkg *types.Package) []string {
	l := &lister{pkg: pkg}
	for _, name := range pkg.Scope().Names() {
		if obj := pkg.Scope().Lookup(name); obj.Exported() {
			l.object(obj)
		}
	}
	slices.Sort(l.lines)
	return slices.Compact(l.lines)
}

type lister struct {
	pkg   *types.Package
	lines []string
}

func (l *lister) add(format string, a ...any) { l.lines = append(l.lines, fmt.Sprintf(format, a...)) }

func (l *lister) typ(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string {
		if p == l.pkg {
			return ""
		}
		return p.Name()
	})
}

func (l *lister) object(obj types.Object) {
	switch obj := obj.(type) {
	case *types.Const:
		l.add("const %s %s = %s", obj.Name(), l.typ(obj.Type()), obj.Val().ExactString())
	case *types.Var:
		l.add("var %s %s", obj.Name(), l.typ(obj.Type()))
	case *types.Func:
		l.add("func %s%s", obj.Name(), l.signature(obj.Signature()))
	case *types.TypeName:
		l.typeName(obj)
	}
}

// signature is that of a function, without the names of parameters.
func (l *lister) signature(s *types.Signature) string {
	if s.TypeParams() == nil {
		s = types.NewSignatureType(nil, nil, nil, nameless(s.Params()), nameless(s.Results()), s.Variadic())
	}
	return strings.TrimPrefix(l.typ(s), "func")
}

func nameless(t *types.Tuple) *types.Tuple {
	var out []*types.Var
	for v := range t.Variables() {
		out = append(out, types.NewParam(token.NoPos, nil, "", v.Type()))
	}
	return types.NewTuple(out...)
}

func (l *lister) typeName(obj *types.TypeName) {
	name := obj.Name()
	if obj.IsAlias() {
		l.add("type %s = %s", name, l.typ(types.Unalias(obj.Type())))
		return
	}
	switch u := obj.Type().Underlying().(type) {
	case *types.Struct:
		l.add("type %s struct", name)
		for f := range u.Fields() {
			if f.Exported() {
				l.add("type %s struct, %s %s", name, f.Name(), l.typ(f.Type()))
			} else {
				l.add("type %s struct, with unexported fields", name)
			}
		}
	case *types.Interface:
		l.add("type %s interface", name)
		for m := range u.ExplicitMethods() {
			if m.Exported() {
				l.add("type %s interface, %s%s", name, m.Name(), l.signature(m.Signature()))
			} else {
				l.add("type %s interface, with unexported methods", name)
			}
		}
		for t := range u.EmbeddedTypes() {
			l.add("type %s interface, %s", name, l.typ(t))
		}
	default:
		l.add("type %s %s", name, l.typ(u))
	}
	if types.IsInterface(obj.Type()) {
		return
	}
	values := types.NewMethodSet(obj.Type())
	pointers := types.NewMethodSet(types.NewPointer(obj.Type()))
	for i := range pointers.Len() {
		m := pointers.At(i).Obj().(*types.Func)
		if !m.Exported() {
			continue
		}
		recv := "*" + name
		if values.Lookup(m.Pkg(), m.Name()) != nil {
			recv = name
		}
		l.add("method (%s) %s%s", recv, m.Name(), l.signature(m.Signature()))
	}
}

// difference returns the lines of each package that are only in one of two sets, those of the first behind "-".
func difference(old, now map[string][]string) []string {
	all := maps.Clone(old)
	maps.Copy(all, now)
	var out []string
	for _, p := range slices.Sorted(maps.Keys(all)) {
		for _, line := range only(old[p], now[p]) {
			out = append(out, "- "+p+": "+line)
		}
		for _, line := range only(now[p], old[p]) {
			out = append(out, "+ "+p+": "+line)
		}
	}
	return out
}

// only returns the lines of a that are not in b.
func only(a, b []string) []string {
	in := map[string]bool{}
	for _, line := range b {
		in[line] = true
	}
	var out []string
	for _, line := range a {
		if !in[line] {
			out = append(out, line)
		}
	}
	return out
}
