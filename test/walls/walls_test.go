package walls

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/pureverbs/pureverbs/"

// file is a Go file, by its folder in the repository, and what it imports.
type file struct {
	dir, name string
	imports   []string
}

func files(t *testing.T) []file {
	t.Helper()
	var out []file
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (name[0] == '.' || name == "testdata" || name == "tools"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		tree, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		f := file{dir: filepath.ToSlash(dir), name: name}
		for _, i := range tree.Imports {
			p, _ := strconv.Unquote(i.Path.Value)
			f.imports = append(f.imports, p)
		}
		out = append(out, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 100 {
		t.Fatalf("%d files found", len(out))
	}
	return out
}

// within reports whether dir is one of the trees.
func within(dir string, trees ...string) bool {
	return slices.ContainsFunc(trees, func(t string) bool { return dir == t || strings.HasPrefix(dir, t+"/") })
}

// TestUnsafe keeps package unsafe in files that say so in their names, but for packages whose business is memory.
func TestUnsafe(t *testing.T) {
	for _, f := range files(t) {
		if slices.Contains(f.imports, "unsafe") && !strings.Contains(f.name, "_unsafe") && !within(f.dir, "internal/mmio", "internal/ccall") && f.dir+"/"+f.name != "internal/dma/mem_linux_test.go" {
			t.Errorf("%s/%s imports unsafe: name it *_unsafe.go", f.dir, f.name)
		}
	}
}

// wall keeps packages of the trees from importing others of this module, tests excepted.
type wall struct {
	from, not []string
	but       []string
	why       string
}

var walls = []wall{
	{from: []string{"internal/emu", "cmd/emu"}, not: []string{"."}, but: []string{"internal/emu"}, why: "the emulator reads the formats a second time, by itself"},
	{from: []string{"ibv", "rdmacm", "mlx5dv", "loader", "cmd/perf", "cmd/show_gids", "examples"}, not: []string{"internal/emu"}, why: "nothing rests on the emulator"},
	{from: []string{"internal/abi", "internal/ccall", "internal/cmem", "internal/dma", "internal/flags", "internal/friend", "internal/gid", "internal/leak", "internal/level", "internal/life", "internal/mlx5", "internal/mmio", "internal/ops", "internal/pollfd", "internal/printable", "internal/sockaddr", "internal/spin", "internal/sysfs"},
		not: []string{"ibv", "rdmacm", "mlx5dv", "loader", "cmd", "examples", "test", "internal/testutil"}, why: "imports point down"},
	{from: []string{"internal/bind"}, not: []string{"ibv", "rdmacm", "mlx5dv"}, why: "imports point down"},
	{from: []string{"loader"}, not: []string{"ibv", "rdmacm", "mlx5dv"}, why: "imports point down"},
	{from: []string{"ibv"}, not: []string{"rdmacm", "mlx5dv"}, why: "imports point down"},
	{from: []string{"rdmacm"}, not: []string{"mlx5dv"}, why: "imports point down"},
	{from: []string{"examples"}, not: []string{"internal"}, why: "people copy examples"},
	{from: []string{"ibv", "rdmacm", "mlx5dv", "loader", "internal"}, not: []string{"cmd", "examples", "test"}, why: "a library needs no program"},
}

func TestWalls(t *testing.T) {
	for _, f := range files(t) {
		if strings.HasSuffix(f.name, "_test.go") {
			continue
		}
		for _, p := range f.imports {
			p, ours := strings.CutPrefix(p, module)
			if !ours {
				continue
			}
			for _, w := range walls {
				if within(f.dir, w.from...) && !within(f.dir, "internal/testutil") && (slices.Contains(w.not, ".") || within(p, w.not...)) && !within(p, w.but...) {
					t.Errorf("%s/%s imports %s: %s", f.dir, f.name, p, w.why)
				}
			}
		}
	}
}

// few lists packages that few may import, tests excepted: all that knows how C is called.
var few = []struct {
	what string
	who  []string
	why  string
}{
	{"github.com/ebitengine/purego", []string{"internal/ccall", "loader"}, "internal/ccall calls C, loader opens it"},
	{module + "internal/ccall", []string{"internal/bind", "internal/ops", "loader"},
		"C is called by name in internal/bind, by pointer in internal/ops"},
	{module + "internal/bind", []string{"internal/bind", "ibv", "mlx5dv", "rdmacm"},
		"programs use the packages above it"},
	{module + "internal/friend", []string{"ibv", "mlx5dv", "rdmacm"}, "it is the key to ibv.Internal"},
	{module + "loader", []string{"loader", "internal/bind", "internal/testutil", "ibv/errors.go"},
		"symbols are looked up in internal/bind"},
}

// crossed returns what a file imports that it may not.
func crossed(f file) (bad []string) {
	if strings.HasSuffix(f.name, "_test.go") {
		return nil
	}
	for _, p := range f.imports {
		for _, x := range few {
			if within(p, x.what) && !within(f.dir, x.who...) && !slices.Contains(x.who, f.dir+"/"+f.name) {
				bad = append(bad, p+": "+x.why)
			}
		}
	}
	return bad
}

// TestFew keeps C behind its floor: above internal/bind nobody calls it, or looks up a symbol.
func TestFew(t *testing.T) {
	for _, f := range files(t) {
		for _, bad := range crossed(f) {
			t.Errorf("%s/%s imports %s", f.dir, f.name, bad)
		}
	}
}

// TestFewCrossed crosses the walls on purpose.
func TestFewCrossed(t *testing.T) {
	for _, c := range []struct {
		dir, name, imports string
		allowed            bool
	}{
		{"ibv", "qp.go", module + "internal/bind/libibverbs", true},
		{"ibv", "qp_test.go", module + "internal/ccall", true},
		{"ibv", "errors.go", module + "loader", true},
		{"ibv", "qp.go", module + "loader", false},
		{"ibv", "qp.go", module + "internal/ccall", false},
		{"rdmacm/rsocket", "lib.go", "github.com/ebitengine/purego", false},
		{"mlx5dv", "lib.go", module + "loader", false},
		{"cmd/perf", "main.go", module + "internal/bind/librdmacm", false},
		{"cmd/perf", "main.go", module + "internal/friend", false},
	} {
		bad := crossed(file{dir: c.dir, name: c.name, imports: []string{"fmt", c.imports}})
		if (len(bad) == 0) != c.allowed {
			t.Errorf("%s/%s importing %s: %q, want allowed %v", c.dir, c.name, c.imports, bad, c.allowed)
		}
	}
}

// TestDependencies keeps to the modules of which RATIONALE.md tells, each where it is needed.
func TestDependencies(t *testing.T) {
	library := []string{"github.com/ebitengine/purego", "golang.org/x/sys"}
	program := append(slices.Clone(library), "github.com/spf13/pflag", "github.com/HdrHistogram/hdrhistogram-go", "golang.org/x/term")
	for _, f := range files(t) {
		allowed := library
		if within(f.dir, "cmd", "examples", "test") {
			allowed = program
		}
		if strings.HasSuffix(f.name, "_test.go") || within(f.dir, "internal/testutil", "internal/sysfs/sysfstest", "test") {
			allowed = append(slices.Clone(program), "github.com/google/go-cmp")
		}
		for _, p := range f.imports {
			first, _, _ := strings.Cut(p, "/")
			if strings.Contains(first, ".") && !strings.HasPrefix(p, module) && !within(p, allowed...) {
				t.Errorf("%s/%s imports %s, which is not for it", f.dir, f.name, p)
			}
		}
	}
}
