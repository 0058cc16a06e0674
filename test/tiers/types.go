package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	goparser "go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// listed is a package as go list -json prints it.
type listed struct {
	ImportPath, ForTest, Dir string
	GoFiles                  []string
	ImportMap                map[string]string
	Module                   *struct {
		Main      bool
		GoVersion string
	}
	Error *struct{ Err string }
}

// checkTypes is `tiers types [-test]`: it checks the types of all packages of the module, with -test those of their
// tests also, for the system that GOOS and GOARCH name. It generates no code, and of other modules and the standard
// library it reads declarations only. This takes a tenth of the time of compiling them.
func checkTypes(flags []string, out io.Writer) int {
	fail := func(err error) int {
		fmt.Fprintln(out, "tiers types:", err)
		return 1
	}
	flags = append([]string{"list", "-deps", "-json=ImportPath,ForTest,Dir,GoFiles,ImportMap,Module,Error"}, flags...)
	c := exec.Command("go", append(flags, "./...")...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	list, err := c.Output()
	if err != nil {
		return fail(fmt.Errorf("go list: %w\n%s", err, stderr.Bytes()))
	}
	arch, err := exec.Command("go", "env", "GOARCH").Output()
	if err != nil {
		return fail(fmt.Errorf("go env: %w", err))
	}
	s := typeChecker{
		out: out, fset: token.NewFileSet(), sizes: types.SizesFor("gc", strings.TrimSpace(string(arch))),
		done: map[string]*types.Package{"unsafe": types.Unsafe},
	}
	for d := json.NewDecoder(bytes.NewReader(list)); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return fail(err)
		}
		if err := s.check(&p); err != nil {
			return fail(err)
		}
	}
	if s.errors > 0 {
		return 1
	}
	if s.own == 0 {
		return fail(fmt.Errorf("no packages in %s", os.Getenv("PWD")))
	}
	return 0
}

type typeChecker struct {
	out    io.Writer
	fset   *token.FileSet
	sizes  types.Sizes
	done   map[string]*types.Package // by go list's import path
	own    int                       // packages of this module
	errors int
}

// check checks a package all of whose imports have been checked.
func (s *typeChecker) check(p *listed) error {
	path, _, _ := strings.Cut(p.ImportPath, " [")
	if path == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") {
		return nil
	}
	own := p.Module != nil && p.Module.Main
	whole := own && (p.ForTest == "" || path == p.ForTest || path == p.ForTest+"_test")
	if p.Error != nil && own {
		s.errors++
		fmt.Fprintln(s.out, p.Error.Err)
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := goparser.ParseFile(s.fset, filepath.Join(p.Dir, name), nil, goparser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	conf := types.Config{
		Importer: importer{s, p.ImportMap}, Sizes: s.sizes, IgnoreFuncBodies: !whole,
		Error: func(err error) {
			if own {
				s.errors++
				fmt.Fprintln(s.out, err)
			}
		},
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		conf.GoVersion = "go" + p.Module.GoVersion
	}
	// Its error is the first that Error was called with. Packages of others are taken as they are.
	s.done[p.ImportPath], _ = conf.Check(path, s.fset, files, nil)
	if whole {
		s.own++
	}
	return nil
}

// importer finds what a package imports among what has been checked.
type importer struct {
	s   *typeChecker
	ids map[string]string
}

func (i importer) Import(path string) (*types.Package, error) {
	if id := i.ids[path]; id != "" {
		path = id
	}
	if p := i.s.done[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s is not among the packages listed before", path)
}
