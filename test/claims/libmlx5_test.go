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
	faultRow   = regexp.MustCompile(`(?m)^\| (.+) \| (.+) \| .+ \|$`)
	faultGuard = regexp.MustCompile(`^([a-z0-9/_]+\.go) (\w+)(?: level\.(\w+))?$`)
	faultTest  = regexp.MustCompile(`^([a-z0-9/]+) (Test\w+)$`)
)

// TestLibMLX5 compares docs/libmlx5.md with the code: guards, tests, and the releases of internal/level.
func TestLibMLX5(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/libmlx5.md"))
	if err != nil {
		t.Fatal(err)
	}
	guarded, _, _ := strings.Cut(string(page), "\n## Without a guard\n")
	in := map[string]string{} // the releases of each fault
	for _, m := range faultRow.FindAllStringSubmatch(guarded, -1) {
		if m[1] != "fault" && !strings.HasPrefix(m[1], "---") {
			in[m[1]] = m[2]
		}
	}
	if len(in) < 20 {
		t.Errorf("%d rows", len(in))
	}
	list, err := os.ReadFile("testdata/libmlx5.txt")
	if err != nil {
		t.Fatal(err)
	}
	releases := faults(t)
	for line := range strings.Lines(string(list)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 3 || in[cells[0]] == "" {
			t.Errorf("docs/libmlx5.md has no row for %q", line)
			continue
		}
		guard, test := faultGuard.FindStringSubmatch(cells[1]), faultTest.FindStringSubmatch(cells[2])
		if guard == nil || test == nil {
			t.Errorf("%s: no guard or no test in %q, %q", cells[0], cells[1], cells[2])
			continue
		}
		if !hasWord(t, filepath.Join(root, guard[1]), guard[2]) {
			t.Errorf("%s: %s has no %s", cells[0], guard[1], guard[2])
		}
		files, _ := filepath.Glob(filepath.Join(root, test[1], "*_test.go"))
		found := false
		for _, f := range files {
			found = found || hasWord(t, f, "func "+test[2])
		}
		if !found {
			t.Errorf("%s: %s has no %s", cells[0], test[1], test[2])
		}
		if guard[3] != "" {
			if last := releases[guard[3]]; last == "" || !strings.Contains(in[cells[0]], last) {
				t.Errorf("%s: %q, and the releases of %s end with %q", cells[0], in[cells[0]], guard[3], last)
			}
			delete(releases, guard[3])
		}
		delete(in, cells[0])
	}
	for fault := range in {
		t.Errorf("testdata/libmlx5.txt has no line for %q", fault)
	}
	for name := range releases {
		t.Errorf("testdata/libmlx5.txt has no line for level.%s", name)
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
