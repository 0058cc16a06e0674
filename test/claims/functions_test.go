package claims

import (
	"debug/elf"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// function is a line of the list: what a Go program uses instead of a C function.
type function struct {
	name  string
	sign  string   // "=", "~" or "-", as the list explains
	names []string // Go names
	words string
}

// list is testdata/functions.txt.
type list struct {
	release  int // of rdma-core
	sections map[string]map[string]function
}

// libraries are the sections of exported functions. The others are of the inline functions of a header.
var libraries = []string{"libibverbs", "librdmacm", "libmlx5", "libefa"}

var headers = map[string]string{
	"verbs.h": "infiniband", "mlx5dv.h": "infiniband", "efadv.h": "infiniband",
	"rdma_cma.h": "rdma", "rdma_verbs.h": "rdma",
}

// readList parses the list, and returns what is wrong in it.
func readList(text string) (l list, wrong []string) {
	l.sections = map[string]map[string]function{}
	var section map[string]function
	for i, line := range strings.Split(text, "\n") {
		fail := func(why string) { wrong = append(wrong, fmt.Sprintf("line %d: %s: %q", i+1, why, line)) }
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || strings.HasPrefix(line, "#"):
		case f[0] == "release" && len(f) == 2:
			l.release, _ = strconv.Atoi(f[1])
		case strings.HasPrefix(line, "["):
			name := strings.Trim(line, "[]")
			if l.sections[name] != nil {
				fail("a section twice")
			}
			section = map[string]function{}
			l.sections[name] = section
		case section == nil:
			fail("before the first section")
		case len(f) < 3 || !slices.Contains([]string{"=", "~", "-"}, f[1]):
			fail("want NAME = GO, NAME ~ GO or NAME - WORDS")
		case section[f[0]].name != "":
			fail("a function twice")
		default:
			fn := function{name: f[0], sign: f[1], words: strings.Join(f[2:], " ")}
			if fn.sign != "-" {
				names, words, _ := strings.Cut(fn.words, ": ")
				fn.names, fn.words = strings.Split(names, ", "), words
			}
			section[fn.name] = fn
		}
	}
	for _, name := range slices.Concat(libraries, slices.Collect(maps.Keys(headers))) {
		if len(l.sections[name]) == 0 {
			wrong = append(wrong, "no section "+name)
		}
	}
	if l.release == 0 {
		wrong = append(wrong, "no release")
	}
	return l, wrong
}

// compare returns the differences of a section from the functions that a library or a header has. Those that it lacks
// are differences only if it is as new as the list.
func compare(section map[string]function, has []string, complete bool) (wrong []string) {
	for _, name := range has {
		if section[name].name == "" {
			wrong = append(wrong, name+" is not in the list: add NAME = GO, NAME ~ GO or NAME - WORDS")
		}
	}
	for name := range section {
		if complete && !slices.Contains(has, name) {
			wrong = append(wrong, name+" is in the list, and does not exist")
		}
	}
	slices.Sort(wrong)
	return wrong
}

func functions(t *testing.T) list {
	t.Helper()
	text, err := os.ReadFile("testdata/functions.txt")
	if err != nil {
		t.Fatal(err)
	}
	l, wrong := readList(string(text))
	if len(wrong) > 0 {
		t.Fatalf("functions.txt: %s", strings.Join(wrong, "\n"))
	}
	return l
}

// TestFunctions holds the Go names of the list to the packages, and to the C functions that comments of functions name;
// and its signs to the names that internal/bind calls.
func TestFunctions(t *testing.T) {
	l := functions(t)
	names := map[string]bool{}          // and whether it is a function
	documented := map[string][]string{} // C functions that a comment names, and where
	for _, dir := range []string{"ibv", "rdmacm", "rdmacm/rsocket", "mlx5dv", "efadv"} {
		addNames(t, dir, names, documented)
	}
	called := literals(t, filepath.Join(root, "internal/bind"))
	known, goNames := map[string]function{}, map[string][]string{}
	for name, section := range l.sections {
		for _, f := range section {
			for _, n := range f.names {
				if _, ok := names[n]; !ok {
					t.Errorf("%s: no package has %s", f.name, n)
				}
			}
			if f.sign != "-" && len(f.names) == 0 || f.sign == "-" && f.words == "" {
				t.Errorf("%s: neither a name nor a reason", f.name)
			}
			if slices.Contains(libraries, name) && called[f.name] != (f.sign == "=") {
				t.Errorf("%s: the list says %q; internal/bind calls it by name: %v", f.name, f.sign, called[f.name])
			}
			known[f.name], goNames[f.name] = f, append(goNames[f.name], f.names...)
		}
	}
	for name, at := range documented {
		for _, at := range at {
			if f := known[name]; f.name == "" || f.sign == "-" || names[at] && !slices.Contains(goNames[name], at) {
				t.Errorf("the comment of %s names %s, and the list does not say so", at, name)
			}
		}
	}
}

// TestLibFunctions holds the list to the symbols of the newest libraries on this machine: those of rdma-core's newest
// release, if scripts/debian-root has them, else the system's.
func TestLibFunctions(t *testing.T) {
	l := functions(t)
	dirs := []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"}
	more, err := filepath.Glob(root + "/.build/debian/*/usr/lib/x86_64-linux-gnu")
	if err != nil {
		t.Fatal(err)
	}
	for _, lib := range libraries {
		t.Run(lib, func(t *testing.T) {
			file, release := newest(append(dirs, more...), lib)
			if file == "" {
				t.Skipf("no %s here: make setup installs it", lib)
			}
			t.Logf("%s: rdma-core %d", file, release)
			has, err := exported(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(has) < 5 {
				t.Fatalf("only %d symbols", len(has))
			}
			for _, w := range compare(l.sections[lib], has, release >= l.release) {
				t.Error(w)
			}
		})
	}
}

// newest returns the file of a library that is of the newest release. The number before the last in its name is that of
// the release, as in libibverbs.so.1.18.65.0.
func newest(dirs []string, lib string) (file string, release int) {
	for _, d := range dirs {
		to, err := filepath.EvalSymlinks(filepath.Join(d, lib+".so.1"))
		if err != nil {
			continue
		}
		parts := strings.Split(filepath.Base(to), ".")
		if n, err := strconv.Atoi(parts[max(0, len(parts)-2)]); err == nil && n > release {
			file, release = to, n
		}
	}
	return file, release
}

// exported returns the functions that a library exports to programs. Those for its own plug-ins are of a version whose
// name has PRIVATE in it.
func exported(file string) (names []string, err error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return nil, err
	}
	for _, s := range symbols {
		if s.Section == elf.SHN_UNDEF || elf.ST_TYPE(s.Info) != elf.STT_FUNC {
			continue
		}
		if !strings.Contains(s.Version, "PRIVATE") {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

var (
	cComment = regexp.MustCompile(`(?s)/\*.*?\*/`)
	inline   = regexp.MustCompile(`static\s+(?:inline|MLX5DV_ALWAYS_INLINE)\s+[^;{}()]*?(\w+)\s*\(`)
)

// TestHeaderFunctions holds the list to the inline functions of this machine's headers. It does not show that all those
// of the newest release are there: the headers are the system's.
func TestHeaderFunctions(t *testing.T) {
	l := functions(t)
	for name, dir := range headers {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("/usr/include", dir, name))
			if errors.Is(err, fs.ErrNotExist) {
				t.Skip("no headers of rdma-core (Debian: libibverbs-dev, librdmacm-dev)")
			}
			if err != nil {
				t.Fatal(err)
			}
			var has []string
			for _, m := range inline.FindAllStringSubmatch(cComment.ReplaceAllString(string(text), ""), -1) {
				has = append(has, m[1])
			}
			if len(has) == 0 {
				t.Fatalf("found %q", has)
			}
			for _, w := range compare(l.sections[name], has, false) {
				t.Error(w)
			}
		})
	}
}

var inComment = regexp.MustCompile(`\b(_*(?:ibv|rdma|mlx5dv|efadv|mbps|mult)_\w+)\(3\)`)

// addNames adds the exported names of a package, as in "ibv.PD.AllocMR" and "ibv.WC.ID", with whether they are
// functions, and the C functions that its comments name behind "C: ".
func addNames(t *testing.T, dir string, names map[string]bool, documented map[string][]string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", dir, len(files), err)
	}
	pkg := filepath.Base(dir)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		isFunc := false
		add := func(name string, doc *ast.CommentGroup) {
			names[pkg+"."+name] = isFunc
			if _, c, ok := strings.Cut(doc.Text(), "C: "); ok {
				for _, m := range inComment.FindAllStringSubmatch(c, -1) {
					documented[m[1]] = append(documented[m[1]], pkg+"."+name)
				}
			}
		}
		for _, d := range tree.Decls {
			_, isFunc = d.(*ast.FuncDecl)
			switch d := d.(type) {
			case *ast.FuncDecl:
				if name := d.Name.Name; ast.IsExported(name) {
					if d.Recv != nil {
						name = receiver(d.Recv.List[0].Type) + "." + name
					}
					add(name, d.Doc)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					addSpec(s, d.Doc, add)
				}
			}
		}
	}
}

func addSpec(s ast.Spec, doc *ast.CommentGroup, add func(string, *ast.CommentGroup)) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			if n.IsExported() {
				add(n.Name, s.Doc)
			}
		}
	case *ast.TypeSpec:
		if !s.Name.IsExported() {
			return
		}
		add(s.Name.Name, doc)
		fields, ok := s.Type.(*ast.StructType)
		if !ok {
			return
		}
		for _, f := range fields.Fields.List {
			for _, n := range f.Names {
				if n.IsExported() {
					add(s.Name.Name+"."+n.Name, f.Doc)
				}
			}
		}
	}
}

func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return "?"
}

// literals returns the strings in the code below a folder, tests excepted.
func literals(t *testing.T, dir string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		tree, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil {
					found[s] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestCompare shows that the comparison can fail.
func TestCompare(t *testing.T) {
	section := map[string]function{"ibv_a": {name: "ibv_a"}, "ibv_b": {name: "ibv_b"}}
	for _, c := range []struct {
		name     string
		has      []string
		complete bool
		want     int
	}{
		{"the same", []string{"ibv_a", "ibv_b"}, true, 0},
		{"a new function", []string{"ibv_a", "ibv_b", "ibv_new"}, true, 1},
		{"an older library", []string{"ibv_a"}, false, 0},
		{"a function that is gone", []string{"ibv_a"}, true, 1},
	} {
		if wrong := compare(section, c.has, c.complete); len(wrong) != c.want {
			t.Errorf("%s: %q", c.name, wrong)
		}
	}
	for text, want := range map[string]string{
		"ibv_a = ibv.A":               "before the first section",
		"[verbs.h]\nibv_a ibv.A":      "want NAME",
		"[verbs.h]\na - b\na - c":     "a function twice",
		"[verbs.h]\na - b\n[verbs.h]": "a section twice",
	} {
		if _, wrong := readList(text); !strings.Contains(strings.Join(wrong, "\n"), want) {
			t.Errorf("%q: %q", text, wrong)
		}
	}
}
