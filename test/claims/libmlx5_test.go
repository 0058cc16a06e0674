package claims

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	faultRow   = regexp.MustCompile(`(?m)^\| (.+) \| (.+) \| (.+) \| (.+) \| (.+) \|$`)
	faultGuard = regexp.MustCompile("`([a-z0-9/_]+\\.go)` `(\\w+)`")
	faultLevel = regexp.MustCompile("`level\\.(\\w+)`")
	faultTest  = regexp.MustCompile("^`([a-z0-9/]+)` `(Test\\w+)`$")
)

// TestLibMLX5 compares docs/libmlx5.md with the code: guards, tests, and the releases of internal/level.
func TestLibMLX5(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/libmlx5.md"))
	if err != nil {
		t.Fatal(err)
	}
	releases, rows := faults(t), 0
	for _, m := range faultRow.FindAllStringSubmatch(string(page), -1) {
		if m[1] == "fault" || strings.HasPrefix(m[1], "---") {
			continue
		}
		rows++
		guard, test := faultGuard.FindStringSubmatch(m[4]), faultTest.FindStringSubmatch(m[5])
		if guard == nil || test == nil {
			t.Errorf("%s: no guard or no test in %q, %q", m[1], m[4], m[5])
			continue
		}
		if !hasWord(t, filepath.Join(root, guard[1]), guard[2]) {
			t.Errorf("%s: %s has no %s", m[1], guard[1], guard[2])
		}
		files, _ := filepath.Glob(filepath.Join(root, test[1], "*_test.go"))
		found := false
		for _, f := range files {
			found = found || hasWord(t, f, "func "+test[2])
		}
		if !found {
			t.Errorf("%s: %s has no %s", m[1], test[1], test[2])
		}
		if l := faultLevel.FindStringSubmatch(m[4]); l != nil {
			if last := releases[l[1]]; last == "" || !strings.Contains(m[2], last) {
				t.Errorf("%s: %q, and the releases of %s end with %q", m[1], m[2], l[1], last)
			}
			delete(releases, l[1])
		}
	}
	if rows < 20 {
		t.Errorf("%d rows", rows)
	}
	for name := range releases {
		t.Errorf("docs/libmlx5.md has no row for level.%s", name)
	}
}

// hasWord reports whether a file has a word.
func hasWord(t *testing.T, file, word string) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
	}
	return regexp.MustCompile(regexp.QuoteMeta(word) + `\b`).Match(text)
}

// faults returns the variables of internal/level/fault.go, and the first series that is without each for good; of one
// that a single series has, that series.
func faults(t *testing.T) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "internal/level/fault.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			return true
		}
		if c, ok := v.Values[0].(*ast.CompositeLit); ok {
			text := ""
			ast.Inspect(c, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
					text += strings.Trim(l.Value, `"`)
				}
				return true
			})
			if fixed := strings.Fields(text); len(fixed) > 0 {
				series, _, _ := strings.Cut(fixed[len(fixed)-1], ".")
				found[v.Names[0].Name] = fmt.Sprintf("v%s", series)
			}
		}
		return true
	})
	return found
}
