package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// lines returns the list of a package.
func lines(t *testing.T, source string) []string {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "x.go", "package x\n"+source, 0)
	if err != nil {
		t.Fatal(err)
	}
	pkg, err := (&types.Config{}).Check("x", fset, []*ast.File{f}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return listOf(pkg)
}

const before = `
type Mode uint8
const ( Slow Mode = iota; Fast; hidden )
var Default = Fast
type base struct{}
func (*base) Close() error { return nil }
type Thing struct { base; Size int; secret int }
func (Thing) Name() string { return "" }
func (t *Thing) Grow(by int) (n int) { return 0 }
func Make(size int, names ...string) (*Thing, error) { return nil, nil }
func Map[T Number](list []T) T { return list[0] }
type Number interface { ~int | ~uint }
type Sink interface { Put(b []byte) error; sealed() }
type Alias = Thing
`

func TestList(t *testing.T) {
	want := []string{
		"const Fast Mode = 1",
		"const Slow Mode = 0",
		"func Make(int, ...string) (*Thing, error)",
		"func Map[T Number](list []T) T",
		"method (*Thing) Close() error",
		"method (*Thing) Grow(int) int",
		"method (Thing) Name() string",
		"type Alias = Thing",
		"type Mode uint8",
		"type Number interface",
		"type Number interface, ~int | ~uint",
		"type Sink interface",
		"type Sink interface, Put([]byte) error",
		"type Sink interface, with unexported methods",
		"type Thing struct",
		"type Thing struct, Size int",
		"type Thing struct, with unexported fields",
		"var Default Mode",
	}
	if got := lines(t, before); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestDifference changes a value, a result, a field and a method. The names of parameters do not count.
func TestDifference(t *testing.T) {
	after := strings.NewReplacer("Slow Mode = iota; Fast", "Slow Mode = iota; Medium; Fast", "(by int)", "(more int)",
		"*Thing, error) { return nil, nil }", "*Thing, int) { return nil, 0 }", "Size int",
		"Size int64", "(Thing) Name", "(Thing) Title").Replace(before)
	old := map[string][]string{"x": lines(t, before), "gone": {"type T struct"}}
	got := difference(old, map[string][]string{"x": lines(t, after), "y/z": {"type U struct"}})
	want := []string{
		"- gone: type T struct",
		"- x: const Fast Mode = 1",
		"- x: func Make(int, ...string) (*Thing, error)",
		"- x: method (Thing) Name() string",
		"- x: type Thing struct, Size int",
		"+ x: const Fast Mode = 2",
		"+ x: const Medium Mode = 1",
		"+ x: func Make(int, ...string) (*Thing, int)",
		"+ x: method (Thing) Title() string",
		"+ x: type Thing struct, Size int64",
		"+ y/z: type U struct",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
