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

// prototype matches one in a comment; pointers to functions are ops of verbs_context, which have no declaration.
var prototype = regexp.MustCompile(`(?s)(?:^|\n)((?:const |struct |enum |unsigned )*\w+ \**(\w+)\([^;]*\);)`)

// TestPrototypes has a C compiler compare the prototypes of the packages below with those of this machine's headers,
// which it refuses to see declared in two ways. Each function that is called by name has to have one.
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
	direct := regexp.MustCompile(`^(Ptr|Err|Minus1|Minus1Int|IntErrno|NegErrno|Size|Void|Int|Uint64|String|int|ssize)$`)
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
