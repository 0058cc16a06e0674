package walls

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/pureverbs/pureverbs/"

// repository is the root of this module.
var repository = filepath.Join("..", "..")

// file is a Go file, by its folder in the repository, and what it imports.
type file struct {
	dir, name string
	imports   []string
}

// source is a file with its text.
type source struct {
	file
	nested bool // in a module within this one
	set    *token.FileSet
	tree   *ast.File
	text   []byte
}

func (f file) path() string { return f.dir + "/" + f.name }

func (f file) test() bool { return strings.HasSuffix(f.name, "_test.go") }

// everything has the repository's sources. All tests share it, so that each file is parsed once.
var everything = sync.OnceValues(func() ([]source, error) { return read(repository) })

// sources returns the repository's sources.
func sources(t *testing.T) []source {
	t.Helper()
	out, err := everything()
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 100 {
		t.Fatalf("%d files found", len(out))
	}
	return out
}

func files(t *testing.T) []file {
	t.Helper()
	return plain(sources(t))
}

func filesIn(t *testing.T, root string) []file {
	t.Helper()
	list, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	return plain(list)
}

func plain(list []source) []file {
	out := make([]file, len(list))
	for i, s := range list {
		out[i] = s.file
	}
	return out
}

// read parses the files of a tree.
func read(root string) ([]source, error) {
	var out []source
	var modules []string
	set := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && path == root:
			return nil
		case d.IsDir() && (name[0] == '.' || name == "testdata" || name == "tools"):
			return filepath.SkipDir
		case d.IsDir():
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				modules = append(modules, path)
			}
			return nil
		case !strings.HasSuffix(name, ".go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		s, err := parse(set, filepath.ToSlash(dir), name, text)
		s.nested = within(filepath.Dir(path), modules...)
		out = append(out, s)
		return err
	})
	return out, err
}

func parse(set *token.FileSet, dir, name string, text []byte) (source, error) {
	s := source{file: file{dir: dir, name: name}, set: set, text: text}
	var err error
	s.tree, err = parser.ParseFile(set, s.path(), text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return s, err
	}
	for _, i := range s.tree.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		s.imports = append(s.imports, p)
	}
	return s, nil
}

// syntax returns the trees of sources.
func syntax(list []source) []*ast.File {
	out := make([]*ast.File, len(list))
	for i, s := range list {
		out[i] = s.tree
	}
	return out
}
