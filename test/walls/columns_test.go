package walls

import (
	"fmt"
	"go/ast"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// A line of Go has at most this many columns; a tab counts as four.
const (
	maxColumns = 120
	tabColumns = 4
)

// wideStill are the folders whose lines are still to be wrapped.
var wideStill = []string{
	"test/emu",
}

// wide returns the lines of a file that have more columns, except those within a raw string, whose lines cannot be
// wrapped.
func wide(s source) (out []string) {
	if ast.IsGenerated(s.tree) {
		return nil
	}
	raw := make(map[int]bool)
	ast.Inspect(s.tree, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Value[0] == '`' {
			first, last := s.set.Position(lit.Pos()).Line, s.set.Position(lit.End()).Line
			for l := first; l <= last && first < last; l++ {
				raw[l] = true
			}
		}
		return true
	})
	n := 0
	for line := range strings.Lines(string(s.text)) {
		n++
		line = strings.TrimSuffix(line, "\n")
		columns := utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
		if columns > maxColumns && !raw[n] {
			out = append(out, fmt.Sprintf("%s:%d: %d columns, at most %d", s.path(), n, columns, maxColumns))
		}
	}
	return out
}

func TestColumns(t *testing.T) {
	widest := make(map[string]bool)
	for _, s := range sources(t) {
		lines := wide(s)
		if slices.Contains(wideStill, s.dir) {
			widest[s.dir] = widest[s.dir] || len(lines) > 0
			continue
		}
		for _, l := range lines {
			t.Error(l)
		}
	}
	for _, dir := range wideStill {
		if !widest[dir] {
			t.Errorf("%s has no wide line any more: take it off the list", dir)
		}
	}
}

func TestColumns_Wide(t *testing.T) {
	list, err := read(filepath.Join("testdata", "wide"))
	if err != nil {
		t.Fatal(err)
	}
	got := wide(list[0])
	want := []string{
		"./wide.go:4: 121 columns, at most 120",
		"./wide.go:8: 121 columns, at most 120",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
