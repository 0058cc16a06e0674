package walls

import (
	"bytes"
	"errors"
	"go/ast"
	"go/build"
	"go/types"
	"io"
	"slices"
)

// filesFew is how many files of a package may use each other freely.
const filesFew = 5

// uses has, for each file of a package, the other files with names that it uses.
type uses map[string]map[string]bool

// built returns the files of a package that a build for one system has: the same one on every machine.
func built(list []source) []source {
	system := build.Context{GOOS: "linux", GOARCH: "amd64", Compiler: "gc", ReleaseTags: build.Default.ReleaseTags}
	return slices.DeleteFunc(slices.Clone(list), func(s source) bool {
		system.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(s.text)), nil }
		ok, err := system.MatchFile("", s.name)
		return err != nil || !ok
	})
}

// references returns which files of a package use names that others declare. What comes from other packages is
// unknown.
func references(list []source) uses {
	out := uses{}
	if len(list) == 0 {
		return out
	}
	set, trees := list[0].set, syntax(list)
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: strangers{}, Error: func(error) {}, FakeImportC: true}
	pkg, _ := conf.Check(list[0].dir, set, trees, info)
	for id, obj := range info.Uses {
		if obj.Pkg() != pkg || obj.Parent() != pkg.Scope() && !member(obj) {
			continue
		}
		from, to := set.File(id.Pos()).Name(), set.File(obj.Pos()).Name()
		if out[from] == nil {
			out[from] = map[string]bool{}
		}
		if from != to {
			out[from][to] = true
		}
	}
	return out
}

// member reports whether an object is a method or a field.
func member(obj types.Object) bool {
	switch o := obj.(type) {
	case *types.Var:
		return o.IsField()
	case *types.Func:
		return o.Signature().Recv() != nil
	}
	return false
}

// strangers knows no other package but the standard library's unsafe.
type strangers struct{}

func (strangers) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	return nil, errors.New("not looked at")
}

// pairs returns how many pairs of files use each other.
func (u uses) pairs() (n int) {
	for a, used := range u {
		for b := range used {
			if a < b && u[b][a] {
				n++
			}
		}
	}
	return n
}

// reached returns the files that a file uses, itself or by others.
func (u uses) reached(from string) map[string]bool {
	out := map[string]bool{}
	for next := []string{from}; len(next) > 0; {
		file := next[0]
		next = next[1:]
		for to := range u[file] {
			if !out[to] {
				out[to] = true
				next = append(next, to)
			}
		}
	}
	return out
}

// cycle returns how many lines the largest group of files has that reach each other, given the lines of each file. A
// file alone is no group.
func (u uses) cycle(lines map[string]int) (most int) {
	reach := map[string]map[string]bool{}
	for file := range u {
		reach[file] = u.reached(file)
	}
	for a := range reach {
		n := 0
		for b := range reach[a] {
			if reach[b][a] {
				n += lines[b]
			}
		}
		most = max(most, n)
	}
	return most
}
