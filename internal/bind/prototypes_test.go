package bind

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// changed are functions that a header declares otherwise, and why.
var changed = map[string]string{
	"ibv_query_port": "its last parameter is a struct of libibverbs' own, the first part of struct ibv_port_attr",
}

// undeclared are functions that v65's headers do not declare, and why.
var undeclared = map[string]string{
	"gai_strerror":       "the C library's",
	"ibv_cmd_destroy_qp": "for providers",
	"mlx5dv_create_flow": "a macro of that name calls another function; the symbol is still there",
}

// prototype matches one in a comment; pointers to functions are ops of verbs_context, which have no declaration.
var prototype = regexp.MustCompile(`(?s)(?:^|\n)((?:const |struct |enum |unsigned )*\w+ \**(\w+)\([^;]*\);)`)

// TestPrototypesOnFile compares the prototypes of the packages below with those of rdma-core v65, of which
// testdata/abi/prototypes-v65.txt has the types. It needs neither a compiler nor headers. A function that is not on
// file is a failure: this machine's headers, the other check, may be too old to have it.
func TestPrototypesOnFile(t *testing.T) {
	text, err := os.ReadFile("../../testdata/abi/prototypes-v65.txt")
	if err != nil {
		t.Fatal(err)
	}
	onFile := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, types, _ := strings.Cut(strings.TrimSpace(line), " ")
		onFile[name] = types
	}
	for _, dir := range []string{"libibverbs", "libmlx5", "libefa", "librdmacm"} {
		declared, _ := functions(t, dir)
		if len(declared) < 5 {
			t.Fatalf("%s: %d prototypes found", dir, len(declared))
		}
		for name, text := range declared {
			switch want := onFile[name]; {
			case changed[name] != "" || undeclared[name] != "":
			case want == "":
				t.Errorf("%s is not in prototypes-v65.txt: testdata/abi/README.md says how to add it", name)
			case types(text) != want:
				t.Errorf("%s: the comment says %s, v65 has %s", name, types(text), want)
			}
		}
	}
}

// types returns the types of a prototype in the form of the file: stars, and the name of a struct or of a type.
func types(prototype string) string {
	prototype = cComment.ReplaceAllString(prototype, "")
	open := strings.IndexByte(prototype, '(')
	before := strings.TrimSpace(prototype[:open])
	cut := strings.LastIndexFunc(before, func(r rune) bool { return r == ' ' || r == '*' }) + 1
	var list []string
	if in := prototype[open+1 : strings.LastIndexByte(prototype, ')')]; in != "void" {
		for _, p := range strings.Split(in, ",") {
			list = append(list, typeOf(p, true))
		}
	}
	return typeOf(before[:cut], false) + "(" + strings.Join(list, ", ") + ")"
}

var (
	cComment = regexp.MustCompile(`/\*.*?\*/`)
	brackets = regexp.MustCompile(`\[\w*\]`)
)

// typeOf returns one type. named says that the name of a parameter may follow.
func typeOf(c string, named bool) string {
	stars := strings.Count(c, "*") + len(brackets.FindAllString(c, -1))
	c = strings.NewReplacer("*", " * ", "unsigned int", "unsigned").Replace(brackets.ReplaceAllString(c, ""))
	var words []string
	kind := ""
	for _, w := range strings.Fields(c) {
		switch w {
		case "const", "*":
		case "struct", "enum":
			kind = w
		default:
			words = append(words, w)
		}
	}
	if named && len(words) > 1 {
		words = words[:len(words)-1]
	}
	name := strings.Join(words, " ")
	switch {
	case kind == "enum":
		name = "enum"
	case strings.HasPrefix(name, "__be"):
		name = "uint" + name[len("__be"):] + "_t"
	}
	return strings.Repeat("*", stars) + name
}

func TestTypes(t *testing.T) {
	for text, want := range map[string]string{
		"int ibv_fork_init(void);":                                         "int()",
		"struct ibv_dmah *ibv_alloc_dmah(double nonsense, char way[3]);":   "*ibv_dmah(double, *char)",
		"__be64 ibv_get_device_guid(struct ibv_device *device);":           "uint64_t(*ibv_device)",
		"enum ibv_fork_status ibv_is_fork_initialized(void);":              "enum()",
		"int f(const struct a *const *list, unsigned int n, enum b kind);": "int(**a, unsigned, enum)",
	} {
		if got := types(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestPrototypes has a C compiler compare the prototypes of the packages below with those of this machine's headers,
// which it refuses to see declared in two ways. Each function that is called by name has to have one. Of functions that
// the headers lack it shows nothing: TestPrototypesOnFile does.
func TestPrototypes(t *testing.T) {
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	args := strings.Fields(cc)
	if _, err := exec.LookPath(args[0]); err != nil {
		t.Skipf("no C compiler (make setup installs gcc): %v", err)
	}
	headers := map[string]string{
		"libibverbs": "#include <infiniband/verbs.h>\n",
		"libmlx5":    "#include <infiniband/mlx5dv.h>\n",
		"libefa":     "#include <infiniband/efadv.h>\n",
		"librdmacm":  "#include <netdb.h>\n#include <rdma/rdma_cma.h>\n#include <rdma/rsocket.h>\n",
	}
	for dir, include := range headers {
		t.Run(dir, func(t *testing.T) {
			declared, called := functions(t, dir)
			for name, n := range called {
				switch text := declared[name]; {
				case text == "":
					t.Errorf("%s is called, and has no prototype above it", name)
				case n >= 0 && n != parameters(text):
					t.Errorf("%s is called with %d arguments: %s", name, n, text)
				}
			}
			var c strings.Builder
			c.WriteString("#define _GNU_SOURCE\n#include <stdbool.h>\n#include <sys/types.h>\n" + include)
			for name, text := range declared {
				if changed[name] == "" {
					c.WriteString("#undef " + name + "\n" + text + "\n")
				}
			}
			if len(declared) < 5 || len(called) < 5 {
				t.Fatalf("%d prototypes and %d calls found", len(declared), len(called))
			}
			file := filepath.Join(t.TempDir(), "prototypes.c")
			if err := os.WriteFile(file, []byte(c.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(args[0], append(args[1:], "-fsyntax-only", file)...).CombinedOutput()
			if err != nil {
				if strings.Contains(string(out), "No such file or directory") {
					t.Skip("no headers of rdma-core: make setup installs them")
				}
				t.Errorf("%v:\n%s", err, out)
			}
		})
	}
}

// parameters counts those of a prototype.
func parameters(text string) int {
	list := text[strings.IndexByte(text, '(')+1 : strings.LastIndexByte(text, ')')]
	if list == "void" {
		return 0
	}
	return 1 + strings.Count(list, ",")
}

// functions returns the prototypes of a package, and the C functions that are in its code with the number of their
// arguments, -1 where it does not stand beside the name.
func functions(t *testing.T, dir string) (declared map[string]string, called map[string]int) {
	t.Helper()
	declared, called = map[string]string{}, map[string]int{}
	list, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	symbol := regexp.MustCompile(`^"(_?(?:ibv|mlx5dv|efadv|rdma)_\w+|r[a-z]+|gai_strerror)"$`)
	name := func(n ast.Node) string {
		if lit, ok := n.(*ast.BasicLit); ok {
			if m := symbol.FindStringSubmatch(lit.Value); m != nil {
				return m[1]
			}
		}
		return ""
	}
	direct := regexp.MustCompile(`^(Ptr|Err|Minus1|Minus1Int|NegErrno|Count|Size|Void|Int|Uint64|String|int|ssize)$`)
	for _, path := range list {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range f.Comments {
			for _, m := range prototype.FindAllStringSubmatch(group.Text(), -1) {
				declared[m[2]] = strings.ReplaceAll(m[1], "\n", " ")
			}
		}
		array := -1 // length of the last array, for a call with "..."
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec:
				return false
			case *ast.CompositeLit:
				array = len(n.Elts)
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && len(n.Args) > 0 && direct.MatchString(sel.Sel.Name) {
					if c := name(n.Args[0]); c != "" {
						called[c] = len(n.Args) - 1
						if n.Ellipsis != token.NoPos {
							called[c] = array
						}
					}
				}
			case *ast.BasicLit:
				if c := name(n); c != "" {
					if _, ok := called[c]; !ok {
						called[c] = -1
					}
				}
			}
			return true
		})
	}
	return declared, called
}
