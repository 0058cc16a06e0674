package walls

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// within reports whether dir is one of the trees.
func within(dir string, trees ...string) bool {
	return slices.ContainsFunc(trees, func(t string) bool { return dir == t || strings.HasPrefix(dir, t+"/") })
}

// rule is a line of importsFile: the packages of this module that the packages of a tree may import, besides each
// other.
type rule struct {
	tree string
	may  []string
}

const (
	importsFile = "test/walls/imports.txt"
	unsafeFile  = "test/walls/unsafe.txt"
)

// pairs reads a file with lines "NAME: TEXT", and returns both of each.
func pairs(t *testing.T, path string) (out [][2]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, ok := strings.Cut(line, ":")
		twice := slices.ContainsFunc(out, func(p [2]string) bool { return p[0] == name })
		if !ok || strings.Contains(name, " ") || twice {
			t.Fatalf("%s: want NAME: TEXT, and each name once: %q", path, line)
		}
		out = append(out, [2]string{name, strings.TrimSpace(rest)})
	}
	return out
}

var quoted = regexp.MustCompile("`([^`]+)`")

// names returns what is in backquotes.
func names(cell string) (out []string) {
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		out = append(out, m[1])
	}
	return out
}

// table reads the table with these columns in a page: the cells of each row. The first one has a name.
func table(t *testing.T, page string, columns ...string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	head := "\n| " + strings.Join(columns, " | ") + " |\n" + strings.Repeat("|---", len(columns)) + "|\n"
	_, rest, ok := strings.Cut(string(text), head)
	if !ok {
		t.Fatalf("%s has no table with %q", page, columns)
	}
	for line := range strings.Lines(rest) {
		cells := strings.Split(line, "|")
		if len(cells) != len(columns)+2 {
			break
		}
		cells = cells[1 : len(cells)-1]
		if names(cells[0]) == nil {
			t.Fatalf("%s: no name in %q", page, line)
		}
		cells[0] = names(cells[0])[0]
		rows = append(rows, cells)
	}
	return rows
}

// rules reads the list of imports. "*" stands for anything.
func rules(t *testing.T) []rule {
	t.Helper()
	var out []rule
	for _, p := range pairs(t, importsFile) {
		out = append(out, rule{p[0], strings.Fields(p[1])})
	}
	return out
}

// overWall returns the imports that no rule allows, tests excepted, and the packages without a rule.
func overWall(rules []rule, files []file) []string {
	var out []string
	homeless := make(map[string]bool)
	for _, f := range files {
		var r rule
		for _, c := range rules {
			if within(f.dir, c.tree) && len(c.tree) > len(r.tree) {
				r = c
			}
		}
		if r.tree == "" && !homeless[f.dir] {
			homeless[f.dir] = true
			out = append(out, f.dir+" has no line in "+importsFile)
		}
		if r.tree == "" || strings.HasSuffix(f.name, "_test.go") || slices.Contains(r.may, "*") {
			continue
		}
		for _, p := range f.imports {
			p, ours := strings.CutPrefix(p, module)
			if ours && !within(p, append(r.may, r.tree)...) {
				out = append(out, f.dir+"/"+f.name+" imports "+p+": "+importsFile+" lets "+r.tree+" import "+
					strings.Join(r.may, ", "))
			}
		}
	}
	return out
}

func TestWalls(t *testing.T) {
	all, table := files(t), rules(t)
	for _, s := range overWall(table, all) {
		t.Error(s)
	}
	for _, r := range table {
		for _, tree := range append(r.may, r.tree) {
			if tree != "*" && !slices.ContainsFunc(all, func(f file) bool { return within(f.dir, tree) }) {
				t.Errorf("%s: no package is in %s", importsFile, tree)
			}
		}
	}
}

// The tree in testdata crosses each wall once, and each crossing is found.
func TestWalls_Crossed(t *testing.T) {
	got := overWall(rules(t), filesIn(t, filepath.Join("testdata", "crossed")))
	want := []string{
		"emu/internal/wire/shared.go imports internal/mlx5",
		"examples/nosy/main.go imports internal/abi",
		"homeless has no line in",
		"ibv/up.go imports rdmacm",
		"internal/mlx5/objects.go imports ibv",
		"rdmacm/emulated.go imports emu/internal/hca",
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// few lists the packages that only a few packages may import, tests excepted: those that know how to call C.
var few = []struct {
	what string
	who  []string
	why  string
}{
	{"github.com/ebitengine/purego", []string{"internal/ccall", "internal/cuda", "loader"},
		"internal/ccall calls C, loader opens it, internal/cuda opens NVIDIA's"},
	{module + "internal/ccall", []string{"internal/bind", "internal/cuda", "internal/ops", "loader"},
		"C is called by name in internal/bind, by pointer in internal/ops"},
	{module + "internal/bind", []string{"internal/bind", "ibv", "efadv", "rdmacm"},
		"programs use the packages above it"},
	{module + "internal/friend", []string{"ibv", "mlx5dv", "efadv", "rdmacm"}, "it is the key to ibv.Internal"},
	{module + "loader", []string{"loader", "internal/bind", "internal/testutil", "ibv/errors.go",
		"cmd/perf/internal/doctor"}, "symbols are looked up in internal/bind"},
}

// crossed returns the forbidden imports of a file.
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

// TestFew checks that no package above internal/bind calls C or looks up a symbol.
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

// TestDependencies allows only the modules that RATIONALE.md lists, each where it is needed.
func TestDependencies(t *testing.T) {
	library := []string{"github.com/ebitengine/purego", "golang.org/x/sys"}
	program := append(slices.Clone(library), "github.com/spf13/pflag", "github.com/HdrHistogram/hdrhistogram-go",
		"golang.org/x/term")
	for _, f := range files(t) {
		allowed := library
		if within(f.dir, "cmd", "examples", "test") || f.dir == "emu" {
			allowed = program
		}
		if strings.HasSuffix(f.name, "_test.go") || within(f.dir, "internal/testutil",
			"internal/sysfs/sysfstest", "test") {
			allowed = append(slices.Clone(program), "github.com/google/go-cmp")
		}
		if f.dir == perfRooms+"command" {
			allowed = append(slices.Clone(allowed), "github.com/spf13/cobra") // a dozen commands
		}
		if within(f.dir, "cmd/perf") && strings.HasSuffix(f.name, "_test.go") {
			allowed = append(slices.Clone(allowed), "golang.org/x/net/html") // what reads perf report's page
		}
		if f.dir == "rdma" && strings.HasSuffix(f.name, "_test.go") {
			allowed = append(allowed, "golang.org/x/net/nettest") // what a net.Conn is held to
		}
		if f.dir == perfRooms+"command" && strings.HasSuffix(f.name, "_test.go") || f.dir == "test/tiers" ||
			f.dir == "test/workflows" {
			allowed = append(slices.Clone(allowed), "go.yaml.in/yaml/v3") // deploy's manifests, tiers.yaml, .github
		}
		if within(f.dir, "test/grpc", "examples/grpc") { // modules of their own
			allowed = append(slices.Clone(allowed), "google.golang.org/grpc", "google.golang.org/protobuf",
				"golang.org/x/net/http2") // gRPC needs them anyway
		}
		for _, p := range f.imports {
			first, _, _ := strings.Cut(p, "/")
			if strings.Contains(first, ".") && !strings.HasPrefix(p, module) && !within(p, allowed...) {
				t.Errorf("%s/%s imports %s, which is not for it", f.dir, f.name, p)
			}
		}
	}
}
