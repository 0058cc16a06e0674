package steps

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"strings"
)

// Package is one whose functions are compiled.
type Package struct {
	Path  string
	Files map[string]string // their text, by name
}

// Source is the source of packages. The last one is home: its names have no prefix.
type Source struct {
	fset  *token.FileSet
	info  types.Info
	home  *types.Package
	decls map[types.Object]*ast.FuncDecl
}

// Load parses packages, each after those that it imports, and checks their types. stubs has what is known of other
// packages, by path: declarations, of functions without a body.
func Load(stubs map[string]string, packages ...Package) (*Source, error) {
	s := &Source{fset: token.NewFileSet(), decls: make(map[types.Object]*ast.FuncDecl), info: types.Info{
		Types: make(map[ast.Expr]types.TypeAndValue), Defs: make(map[*ast.Ident]types.Object),
		Uses: make(map[*ast.Ident]types.Object), Selections: make(map[*ast.SelectorExpr]*types.Selection),
		Implicits: make(map[ast.Node]types.Object)}}
	known := &known{fset: s.fset, stubs: stubs, done: make(map[string]*types.Package)}
	for _, p := range packages {
		var files []*ast.File
		for name, text := range p.Files {
			f, err := parser.ParseFile(s.fset, name, text, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			files = append(files, f)
		}
		pkg, err := (&types.Config{Importer: known}).Check(p.Path, s.fset, files, &s.info)
		if err != nil {
			return nil, err
		}
		known.done[p.Path], s.home = pkg, pkg
		for _, f := range files {
			for _, d := range f.Decls {
				if d, ok := d.(*ast.FuncDecl); ok {
					s.decls[s.info.Defs[d.Name]] = d
				}
			}
		}
	}
	return s, nil
}

// known imports packages that were loaded, and stubs.
type known struct {
	fset  *token.FileSet
	stubs map[string]string
	done  map[string]*types.Package
}

// Import implements types.Importer.
func (k *known) Import(path string) (*types.Package, error) {
	if p := k.done[path]; p != nil {
		return p, nil
	}
	text, ok := k.stubs[path]
	if !ok {
		return nil, fmt.Errorf("no stub of package %s", path)
	}
	f, err := parser.ParseFile(k.fset, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	p, err := (&types.Config{Importer: k}).Check(path, k.fset, []*ast.File{f}, nil)
	k.done[path] = p
	return p, err
}

// Position returns the file and line of a position.
func (s *Source) Position(p token.Pos) string {
	at := s.fset.Position(p)
	return fmt.Sprintf("%s:%d", at.Filename, at.Line)
}

// find returns the declaration of a function or method of the home package: F or T.M.
func (s *Source) find(name string) *ast.FuncDecl {
	for obj, d := range s.decls {
		if s.name(obj) == name {
			return d
		}
	}
	return nil
}

// name returns the name of an object: F, T.M for a method, with the package as a prefix unless that is home.
func (s *Source) name(obj types.Object) string {
	name := obj.Name()
	if f, ok := obj.(*types.Func); ok {
		if recv := f.Signature().Recv(); recv != nil {
			return s.typeName(recv.Type()) + "." + name
		}
	}
	return s.prefix(obj.Pkg()) + name
}

func (s *Source) prefix(p *types.Package) string {
	if p == nil || p == s.home {
		return ""
	}
	return p.Name() + "."
}

// typeName returns the name of a type, or of what it points to.
func (s *Source) typeName(t types.Type) string {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := types.Unalias(t).(*types.Named); ok {
		return s.prefix(n.Obj().Pkg()) + n.Obj().Name()
	}
	return t.String()
}

// Statement is one that a function can be compiled without: it neither declares something for others nor jumps. It is
// left out of all calls of the function.
type Statement struct {
	Where    string // file and line
	Function string // F or T.M
	Text     string // its first line

	offset int
}

func (s *Source) statement(n ast.Stmt, function string) Statement {
	var text bytes.Buffer
	_ = printer.Fprint(&text, s.fset, n)
	line, _, _ := strings.Cut(text.String(), "\n")
	return Statement{Where: s.Position(n.Pos()), Function: function, Text: line,
		offset: s.fset.Position(n.Pos()).Offset}
}
