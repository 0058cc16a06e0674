package walls

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What a part of this module may grow to. What exceeds a limit is in testdata/shape.txt with its figure, which may only
// fall. Generated files and tests have no limits.
//
// An embedded struct of the same package counts as its fields, because the methods of the outer type use them as their
// own. Any other embedded type counts as one field. A method counts for the struct that declares it or the interface
// that lists it, not for a type that embeds that one, because it can use only the fields of the embedded type.
const (
	fieldsMost  = 30  // of a struct
	methodsMost = 60  // of a type
	linesMost   = 450 // of a file
	funcMost    = 60  // lines of a function
)

var update = flag.Bool("update", false, "lower the figures in testdata/shape.txt to those of today")

// packages returns the sources by package, without tests, generated files and other modules.
func packages(list []source) map[string][]source {
	out := map[string][]source{}
	for _, s := range list {
		if !s.nested && !s.test() && !ast.IsGenerated(s.tree) {
			out[s.dir] = append(out[s.dir], s)
		}
	}
	return out
}

func (s source) lines() int { return bytes.Count(s.text, []byte("\n")) }

func (s source) span(n ast.Node) int {
	return s.set.Position(n.End()).Line - s.set.Position(n.Pos()).Line + 1
}

// shape collects the figures of a package. If files for different systems declare the same thing, the larger one
// counts.
type shape struct {
	dir     string
	structs map[string][]*ast.StructType
	methods map[string]map[string]bool // names of a type
	figures map[string]int             // above a limit, by what they are of
}

// measure returns the figures of a package above a limit.
func measure(dir string, list []source) map[string]int {
	s := shape{dir, map[string][]*ast.StructType{}, map[string]map[string]bool{}, map[string]int{}}
	for _, src := range list {
		s.limit("lines of "+src.path(), src.lines(), linesMost)
		for _, d := range src.tree.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				s.function(src, d)
			case *ast.GenDecl:
				s.declaration(src, d)
			}
		}
	}
	for name := range s.structs {
		s.limit("fields of "+dir+"."+name, s.fields(name, nil), fieldsMost)
	}
	for name, m := range s.methods {
		s.limit("methods of "+dir+"."+name, len(m), methodsMost)
	}
	if used := built(list); len(used) > filesFew {
		refs, lines, all := references(used), map[string]int{}, 0
		for _, src := range used {
			lines[src.path()] = src.lines()
			all += src.lines()
		}
		s.limit("pairs of files that use each other in "+dir, refs.pairs(), 0)
		s.limit("percent of the lines in one cycle of files in "+dir, 100*refs.cycle(lines)/all, 0)
	}
	return s.figures
}

func (s *shape) limit(what string, n, most int) {
	if n > most {
		s.figures[what] = max(s.figures[what], n)
	}
}

func (s *shape) method(of, name string) {
	if s.methods[of] == nil {
		s.methods[of] = map[string]bool{}
	}
	s.methods[of][name] = true
}

func (s *shape) function(src source, d *ast.FuncDecl) {
	name := d.Name.Name
	if d.Recv != nil {
		of := base(d.Recv.List[0].Type)
		s.method(of, name)
		name = of + "." + name
	}
	s.limit("lines of func "+s.dir+"."+name, src.span(d), funcMost)
}

// declaration measures types, and functions that are values of variables.
func (s *shape) declaration(src source, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			switch t := spec.Type.(type) {
			case *ast.StructType:
				s.structs[spec.Name.Name] = append(s.structs[spec.Name.Name], t)
			case *ast.InterfaceType:
				for _, f := range t.Methods.List {
					for _, name := range f.Names {
						s.method(spec.Name.Name, name.Name)
					}
				}
			}
		case *ast.ValueSpec:
			ast.Inspect(spec, func(n ast.Node) bool {
				if lit, ok := n.(*ast.FuncLit); ok {
					s.limit("lines of func in "+s.dir+"."+spec.Names[0].Name, src.span(lit), funcMost)
				}
				return true
			})
		}
	}
}

// base returns the name of a receiver's or embedded type of this package, "" for one of another.
func base(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.Ident:
		return t.Name
	case *ast.StarExpr:
		return base(t.X)
	case *ast.ParenExpr:
		return base(t.X)
	case *ast.IndexExpr:
		return base(t.X)
	case *ast.IndexListExpr:
		return base(t.X)
	}
	return ""
}

// fields counts the fields of a struct with those of the structs that it embeds. outer are the structs around it.
func (s *shape) fields(name string, outer []string) (most int) {
	outer = append(slices.Clone(outer), name)
	for _, st := range s.structs[name] {
		n := 0
		for _, f := range st.Fields.List {
			inner := base(f.Type)
			switch {
			case f.Names != nil:
				n += len(f.Names)
			case s.structs[inner] != nil && !slices.Contains(outer, inner):
				n += s.fields(inner, outer)
			default:
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// figures measures all packages.
func figures(list []source) map[string]int {
	out := map[string]int{}
	for dir, list := range packages(list) {
		maps.Copy(out, measure(dir, list))
	}
	return out
}

// onFile reads the rows of testdata/shape.txt, FIGURE WHAT, and the comment above them.
func onFile(text string) (head string, rows map[string]int, err error) {
	rows = map[string]int{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			head += line
			continue
		}
		figure, what, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		n, err := strconv.Atoi(figure)
		if err != nil || n <= 0 || what == "" || rows[what] != 0 {
			return "", nil, fmt.Errorf("%q is not FIGURE WHAT, or WHAT is there twice", line)
		}
		rows[what] = n
	}
	return head, rows, nil
}

// written returns the text of testdata/shape.txt, sorted by what the figures are of.
func written(head string, rows map[string]int) string {
	for _, what := range slices.Sorted(maps.Keys(rows)) {
		head += fmt.Sprintln(rows[what], what)
	}
	return head
}

// lowered returns the rows with today's figures where these are lower.
func lowered(rows, got map[string]int) map[string]int {
	out := map[string]int{}
	for what, n := range rows {
		if got[what] > 0 {
			out[what] = min(n, got[what])
		}
	}
	return out
}

// misfits compares figures above the limits with those on file.
func misfits(got, rows map[string]int) []string {
	const how = "row of testdata/shape.txt (go test ./test/walls -run TestShape -update)"
	var out []string
	for _, what := range slices.Sorted(maps.Keys(got)) {
		switch have, was := got[what], rows[what]; {
		case was == 0:
			out = append(out, fmt.Sprintf("%s: %d, above the limit", what, have))
		case have > was:
			out = append(out, fmt.Sprintf("%s: %d, more than before (%d)", what, have, was))
		case have < was:
			out = append(out, fmt.Sprintf("%s: %d, less than before (%d): lower the %s", what, have, was, how))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(rows)) {
		if got[what] == 0 {
			out = append(out, fmt.Sprintf("%s: gone, or within the limit: remove the %s", what, how))
		}
	}
	return out
}

// TestShape holds types, files, functions and packages to the limits. With -update it lowers the figures on file; it
// raises none and adds none.
func TestShape(t *testing.T) {
	path := filepath.Join("testdata", "shape.txt")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rows, err := onFile(string(text))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	got := figures(sources(t))
	if *update {
		rows = lowered(rows, got)
		text = []byte(written(head, rows))
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := written(head, rows); string(text) != want {
		t.Errorf("%s is not sorted by what its figures are of: -update sorts it", path)
	}
	for _, m := range misfits(got, rows) {
		t.Error(m)
	}
}
