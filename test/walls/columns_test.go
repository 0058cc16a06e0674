package walls

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
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
func wide(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(tree) {
		return nil, err
	}
	raw := make(map[int]bool)
	ast.Inspect(tree, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Value[0] == '`' {
			first, last := fset.Position(lit.Pos()).Line, fset.Position(lit.End()).Line
			for l := first; l <= last && first < last; l++ {
				raw[l] = true
			}
		}
		return true
	})
	var out []string
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSuffix(line, "\n")
		columns := utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
		if columns > maxColumns && !raw[n] {
			out = append(out, fmt.Sprintf("%s:%d: %d columns, at most %d", filepath.ToSlash(path), n,
				columns, maxColumns))
		}
	}
	return out, nil
}

func TestColumns(t *testing.T) {
	widest := make(map[string]bool)
	for _, f := range files(t) {
		lines, err := wide(filepath.Join(repository, f.dir, f.name))
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(wideStill, f.dir) {
			widest[f.dir] = widest[f.dir] || len(lines) > 0
			continue
		}
		for _, l := range lines {
			t.Error(strings.TrimPrefix(l, "../../"))
		}
	}
	for _, dir := range wideStill {
		if !widest[dir] {
			t.Errorf("%s has no wide line any more: take it off the list", dir)
		}
	}
}

func TestColumns_Wide(t *testing.T) {
	got, err := wide(filepath.Join("testdata", "wide", "wide.go"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"testdata/wide/wide.go:4: 121 columns, at most 120",
		"testdata/wide/wide.go:8: 121 columns, at most 120",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
