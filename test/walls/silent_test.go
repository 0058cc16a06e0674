package walls

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// placeWords are the names by which a test looks at where it runs: fields of testutil.RXE, functions, and the flag by
// which testdata is written anew.
var placeWords = []string{
	"Emulated", "Hardware", "IB", "IWARP", "soft", "placeOf", "here", "Full", "Libraries", "Getenv", "LookupEnv",
	"Geteuid", "Getuid", "LookPath", "Stat", "Devices", "DataPath", "GOOS", "GOARCH", "NumCPU", "update",
}

// silent returns the tests and subtests of a file that end, before they have tested anything, because of where they
// run, and do not skip. Nobody sees that they ran nowhere.
func silent(set *token.FileSet, tree *ast.File) (out []string) {
	look := func(name string, body *ast.BlockStmt) {
		for _, s := range body.List {
			switch s := s.(type) {
			case *ast.IfStmt:
				if tests(s) {
					return
				}
				if word := placeWord(s); word != "" && s.Else == nil && onlyReturns(s.Body) {
					out = append(out, fmt.Sprintf("%s: %s returns because of %s: skip, with the reason",
						filepath.ToSlash(set.Position(s.Pos()).String()), name, word))
				}
			case *ast.AssignStmt, *ast.DeclStmt, *ast.DeferStmt:
			case *ast.ExprStmt:
				if isRun(s.X) {
					return
				}
			default:
				return // it tests
			}
		}
	}
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || f.Body == nil || !strings.HasPrefix(f.Name.Name, "Test") ||
			f.Name.Name == "TestMain" {
			continue
		}
		look(f.Name.Name, f.Body)
		ast.Inspect(f.Body, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok && isRun(e) {
				if sub, ok := n.(*ast.CallExpr).Args[1].(*ast.FuncLit); ok {
					look("a subtest of "+f.Name.Name, sub.Body)
				}
			}
			return true
		})
	}
	return out
}

// tests reports whether an if statement has loops or subtests, and so may have tested something.
func tests(s *ast.IfStmt) (found bool) {
	ast.Inspect(s.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			found = true
		case *ast.CallExpr:
			found = found || isRun(n)
		}
		return !found
	})
	return found
}

// isRun reports whether an expression is a call as t.Run(name, f).
func isRun(e ast.Expr) bool {
	c, ok := e.(*ast.CallExpr)
	if !ok || len(c.Args) != 2 {
		return false
	}
	s, ok := c.Fun.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Run"
}

// onlyReturns reports whether a block is a bare return.
func onlyReturns(b *ast.BlockStmt) bool {
	if len(b.List) != 1 {
		return false
	}
	r, ok := b.List[0].(*ast.ReturnStmt)
	return ok && len(r.Results) == 0
}

// placeWord returns the first of placeWords in an if statement's head, "" if it has none.
func placeWord(s *ast.IfStmt) (word string) {
	see := func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && word == "" && slices.Contains(placeWords, id.Name) {
			word = id.Name
		}
		return true
	}
	if s.Init != nil {
		ast.Inspect(s.Init, see)
	}
	ast.Inspect(s.Cond, see)
	return word
}

func TestSilent(t *testing.T) {
	n := 0
	for _, f := range files(t) {
		if !strings.HasSuffix(f.name, "_test.go") {
			continue
		}
		n++
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, filepath.Join(repository, f.dir, f.name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range silent(set, tree) {
			t.Error(strings.TrimPrefix(l, "../../"))
		}
	}
	if n < 100 {
		t.Errorf("%d files with tests", n)
	}
}

// TestSilentFinds checks what TestSilent finds, and what it leaves alone.
func TestSilentFinds(t *testing.T) {
	const head = "package x\n\nfunc TestX(t *testing.T) {\n\tvm := testutil.NeedRXE(t)\n"
	for body, want := range map[string]int{
		"\tif !vm.Emulated {\n\t\treturn\n\t}\n":                                                       1,
		"\tif placeOf(vm) != 1 || testutil.Libraries() != \"\" {\n\t\treturn // no\n\t}\n":             1,
		"\tif path, _ := a.cq.DataPath(); path != Direct {\n\t\treturn\n\t}\n":                         1,
		"\tt.Run(\"a\", func(t *testing.T) {\n\t\tif os.Geteuid() != 0 {\n\t\t\treturn\n\t\t}\n\t})\n": 1,
		"\tif !vm.Emulated {\n\t\tt.Skip(\"why\")\n\t}\n":                                              0,
		"\tif !vm.Emulated {\n\t\ttestRefusal(t)\n\t\treturn\n\t}\n":                                   0,
		"\ta := open(t, 0)\n\tif a == nil {\n\t\treturn\n\t}\n":                                        0,
		"\tfor range 3 {\n\t\tcheck(t)\n\t}\n\tif !testutil.Full() {\n\t\treturn\n\t}\n":               0,
		"\tt.Run(\"a\", check)\n\tif !testutil.Full() {\n\t\treturn\n\t}\n":                            0,
	} {
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, "x_test.go", head+body+"}\n", parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := silent(set, tree); len(got) != want {
			t.Errorf("%d findings %q, want %d, in\n%s", len(got), got, want, body)
		}
	}
}
