package walls

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What a part of the library may grow to. Where something was larger when the limit came, testdata/shape.txt has its
// figure, which may only fall.
const (
	fieldsMost = 30  // fields of a struct
	linesMost  = 450 // lines of a file
	upwardMost = 20  // percent of the references between the files of a package that run upwards
)

// shaped are the trees that the limits apply to.
var shaped = []string{"ibv", "rdma", "rdmacm", "mlx5dv", "efadv", "loader", "internal"}

// unshaped are folders of these trees without the limits: mirrors of C's structs are as long as C has them.
var unshaped = []string{"internal/abi", "internal/testutil"}

// pack is a package's sources without its tests.
type pack struct {
	dir   string
	set   *token.FileSet
	files []*ast.File
	lines map[string]int
}

func packs(t *testing.T) []pack {
	t.Helper()
	byDir := map[string]*pack{}
	for _, f := range files(t) {
		if !within(f.dir, shaped...) || within(f.dir, unshaped...) || strings.HasSuffix(f.name, "_test.go") {
			continue
		}
		dir := filepath.Join(repository, filepath.FromSlash(f.dir))
		if ok, err := build.Default.MatchFile(dir, f.name); err != nil || !ok {
			continue // for another system
		}
		src, err := os.ReadFile(filepath.Join(dir, f.name))
		if err != nil {
			t.Fatal(err)
		}
		p := byDir[f.dir]
		if p == nil {
			p = &pack{dir: f.dir, set: token.NewFileSet(), lines: map[string]int{}}
			byDir[f.dir] = p
		}
		if err := p.add(f.name, src); err != nil {
			t.Fatal(err)
		}
	}
	var out []pack
	for _, dir := range slices.Sorted(maps.Keys(byDir)) {
		out = append(out, *byDir[dir])
	}
	return out
}

func (p *pack) add(name string, src []byte) error {
	tree, err := parser.ParseFile(p.set, name, src, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return err
	}
	p.files = append(p.files, tree)
	p.lines[name] = bytes.Count(src, []byte("\n"))
	return nil
}

// sizes returns the figures of the package that exceed a limit, by what they are of.
func (p *pack) sizes() map[string]int {
	out := map[string]int{}
	for name, n := range p.lines {
		if n > linesMost {
			out["lines of "+p.dir+"/"+name] = n
		}
	}
	for _, f := range p.files {
		for _, d := range f.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range decl.Specs {
				spec, ok := s.(*ast.TypeSpec)
				if !ok {
					continue
				}
				if st, ok := spec.Type.(*ast.StructType); ok && st.Fields.NumFields() > fieldsMost {
					out["fields of "+p.dir+"."+spec.Name.Name] = st.Fields.NumFields()
				}
			}
		}
	}
	return out
}

// references returns which file of the package uses a name that another one declares.
func (p *pack) references() map[[2]string]bool {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: strangers{}, Error: func(error) {}, FakeImportC: true}
	pkg, _ := conf.Check(p.dir, p.set, p.files, info) // what comes from other packages is unknown
	out := map[[2]string]bool{}
	for id, obj := range info.Uses {
		if obj.Pkg() != pkg || obj.Parent() != pkg.Scope() && !member(obj) {
			continue
		}
		from, to := p.set.File(id.Pos()).Name(), p.set.File(obj.Pos()).Name()
		if from != to {
			out[[2]string{from, to}] = true
		}
	}
	return out
}

// member reports whether an object is a method or a field.
func member(obj types.Object) bool {
	switch o := obj.(type) {
	case *types.Var:
		return o.IsField()
	case *types.Func:
		return o.Signature().Recv() != nil
	}
	return false
}

// strangers knows no other package but the standard library's unsafe.
type strangers struct{}

func (strangers) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return importer.Default().Import(path)
	}
	return nil, errors.New("not looked at")
}

// upward returns how many references run from a file to one above it, given the order from top to bottom, and how many
// there are.
func upward(refs map[[2]string]bool, order []string) (up, all int) {
	at := map[string]int{}
	for i, f := range order {
		at[f] = i
	}
	for r := range refs {
		all++
		if at[r[1]] < at[r[0]] {
			up++
		}
	}
	return up, all
}

// orders reads the table of files in docs/architecture.md: the files of a package from top to bottom.
func orders(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, row := range table(t, architecture, "package", "files, from top to bottom") {
		for _, f := range strings.Fields(row[1]) {
			out[row[0]] = append(out[row[0]], f+".go")
		}
	}
	return out
}

// exceptions reads testdata/shape.txt.
func exceptions(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "shape.txt"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		figure, what, _ := strings.Cut(line, " ")
		n, err := strconv.Atoi(figure)
		if err != nil {
			t.Fatal(err)
		}
		out[what] = n
	}
	return out
}

// misfits compares figures above the limits with those that are allowed to be.
func misfits(got, allowed map[string]int) []string {
	var out []string
	for _, what := range slices.Sorted(maps.Keys(got)) {
		switch have, was := got[what], allowed[what]; {
		case was == 0:
			out = append(out, fmt.Sprintf("%s: %d, above the limit", what, have))
		case have > was:
			out = append(out, fmt.Sprintf("%s: %d, more than before (%d)", what, have, was))
		case have < was:
			out = append(out, fmt.Sprintf("%s: %d, write that into testdata/shape.txt in place of %d", what, have, was))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(allowed)) {
		if got[what] == 0 {
			out = append(out, what+" is within the limit: remove the line from testdata/shape.txt")
		}
	}
	return out
}

// TestShape holds structs, files and the order of files to the limits.
func TestShape(t *testing.T) {
	got := map[string]int{}
	order := orders(t)
	for _, p := range packs(t) {
		maps.Copy(got, p.sizes())
		list, ordered := order[p.dir]
		delete(order, p.dir)
		have := slices.Sorted(maps.Keys(p.lines))
		switch {
		case !ordered && within(p.dir, "rdma") && len(have) > 1:
			t.Errorf("docs/architecture.md does not have the order of the files of %s", p.dir)
		case !ordered:
		case !slices.Equal(slices.Sorted(slices.Values(list)), have):
			t.Errorf("docs/architecture.md lists for %s\n%q, but it has\n%q", p.dir, list, have)
		default:
			up, all := upward(p.references(), list)
			t.Logf("%s: %d of %d references run upwards", p.dir, up, all)
			if share := 100 * up / max(all, 1); share > upwardMost {
				got["percent upwards in "+p.dir] = share
			}
		}
	}
	for dir := range order {
		t.Errorf("docs/architecture.md has the order of files of %s, which is no package here", dir)
	}
	for _, m := range misfits(got, exceptions(t)) {
		t.Error(m)
	}
}

// TestShapeFails checks that TestShape can fail.
func TestShapeFails(t *testing.T) {
	p := pack{dir: "x", set: token.NewFileSet(), lines: map[string]int{}}
	for name, src := range map[string]string{
		"top.go":    "package x\n\nimport \"net\"\n\nfunc Top(c net.Conn) { new(T).m(); low() }\n",
		"middle.go": "package x\n\ntype T struct{ a, b int; c string }\n\nfunc (t *T) m() { t.a = low() }\n",
		"low.go":    "package x\n\nfunc low() int { Top(nil); return 1 }\n" + strings.Repeat("\n", linesMost),
		"wide.go":   "package x\n\ntype W struct {\n" + strings.Repeat("_, _ int\n", 16) + "}\n",
	} {
		if err := p.add(name, []byte(src)); err != nil {
			t.Fatal(err)
		}
	}
	if up, all := upward(p.references(), []string{"top.go", "wide.go", "middle.go", "low.go"}); up != 1 || all != 4 {
		t.Errorf("%d of %d references run upwards, want 1 of 4: %v", up, all, p.references())
	}
	got := p.sizes()
	want := map[string]int{"fields of x.W": 32, "lines of x/low.go": 453}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for name, tc := range map[string]struct {
		allowed map[string]int
		want    []string
	}{
		"as it is": {want, nil},
		"no line": {map[string]int{"fields of x.W": 32},
			[]string{"lines of x/low.go: 453, above the limit"}},
		"grown": {map[string]int{"fields of x.W": 31, "lines of x/low.go": 453},
			[]string{"fields of x.W: 32, more than before (31)"}},
		"shrunk": {map[string]int{"fields of x.W": 32, "lines of x/low.go": 454},
			[]string{"lines of x/low.go: 453, write that into testdata/shape.txt in place of 454"}},
		"gone": {map[string]int{"fields of x.W": 32, "lines of x/low.go": 453, "fields of x.V": 40},
			[]string{"fields of x.V is within the limit: remove the line from testdata/shape.txt"}},
	} {
		if out := misfits(got, tc.allowed); !slices.Equal(out, tc.want) {
			t.Errorf("%s: %q, want %q", name, out, tc.want)
		}
	}
}
