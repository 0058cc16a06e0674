package reference

import (
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

const module = "github.com/pureverbs/pureverbs/"

// public are the packages that other modules may import.
var public = []string{"efadv", "emu/emutest", "ibv", "loader", "mlx5dv", "rdma", "rdmacm", "rdmacm/rsocket"}

// pkg is a package as it is on Linux.
type pkg struct {
	*doc.Package
	files []*ast.File // without its tests
}

var loaded = map[string]*pkg{} // by folder

// load reads a package, once; dir is its folder in the repository.
func load(t *testing.T, dir string) *pkg {
	t.Helper()
	if p := loaded[dir]; p != nil {
		return p
	}
	c := build.Default
	c.GOOS, c.GOARCH, c.CgoEnabled = "linux", "amd64", false
	folder := filepath.Join("..", "..", filepath.FromSlash(dir))
	list, err := c.ImportDir(folder, 0)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range list.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(folder, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	p, err := doc.NewFromFiles(fset, files, module+dir, doc.PreserveAST)
	if err != nil {
		t.Fatal(err)
	}
	loaded[dir] = &pkg{Package: p, files: files}
	return loaded[dir]
}
