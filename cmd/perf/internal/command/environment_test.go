package command

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// otherNames are upper-case strings of this program that are no environment variables.
var otherNames = []string{"CMP_AND_SWAP", "FETCH_AND_ADD", "CNTVCT_EL0"}

// TestEnvironment: the table has the variables that the sources name, each once, and the manual page has the table. A
// variable is a string of its own, so that none is made of parts.
func TestEnvironment(t *testing.T) {
	needDeploy(t)
	found := map[string]bool{}
	name := regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)+$`)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			d.Name() == "environment.go" {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && name.MatchString(text) {
					found[text] = true
				}
			case *ast.CallExpr:
				text := fmt.Sprint(n.Fun)
				if s, ok := n.Fun.(*ast.SelectorExpr); ok {
					text = s.Sel.Name
				}
				if !slices.Contains([]string{"Getenv", "LookupEnv", "getenv"}, text) {
					break
				}
				if _, sum := n.Args[0].(*ast.BinaryExpr); sum {
					t.Errorf("%s: the name of a variable is made of parts", path)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var page, diag bytes.Buffer
	if rc := run(t.Context(), []string{"man"}, &page, &diag); rc != exitOK {
		t.Fatalf("exit code %d: %s", rc, &diag)
	}
	for _, v := range environment {
		names := strings.Fields(v.names)
		for _, n := range names {
			if !found[n] {
				t.Errorf("%s is listed twice, or not read", n)
			}
			delete(found, n)
			if !strings.Contains(page.String(), n) {
				t.Errorf("the manual page has no %s", n)
			}
		}
		for _, text := range []string{v.means, v.options} {
			if !strings.Contains(page.String(), roff(text)) {
				t.Errorf("the manual page does not say %q", text)
			}
		}
	}
	for n := range found {
		if !slices.Contains(otherNames, n) {
			t.Errorf("%s is not in the table", n)
		}
	}
}
