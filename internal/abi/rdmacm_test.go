package abi

import (
	"errors"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestRDMACMLayouts(t *testing.T) {
	for _, v := range versions {
		t.Run(v, func(t *testing.T) {
			var l layout
			readJSON(t, "rdmacm-"+v+".json", &l)
			for _, m := range mirrors["rdmacm"] {
				for _, p := range m.compare(l, strings.HasPrefix(v, newest)) {
					t.Error(p)
				}
			}
			if len(l) < len(mirrors["rdmacm"])-1 { // join_mc_attr_ex came with v16
				t.Errorf("%d structs are on file, %d mirrored", len(l), len(mirrors["rdmacm"]))
			}
		})
	}
	for _, m := range mirrors["rdmacm"] {
		for _, p := range hostLayout(m.t) {
			t.Errorf("%s: %s", m.c, p)
		}
	}
}

// rdmacmConsts are the constants of librdmacm.
func rdmacmConsts(t *testing.T) map[string]int64 { return packageConsts(t, "consts_gen.go", "R") }

// packageConsts are the constants of a file whose names begin with prefix.
func packageConsts(t *testing.T, file, prefix string) map[string]int64 {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	conf := types.Config{Error: func(error) {}}
	pkg, _ := conf.Check("abi", fset, []*ast.File{f}, nil)
	values := make(map[string]int64)
	for _, name := range pkg.Scope().Names() {
		if c, ok := pkg.Scope().Lookup(name).(*types.Const); ok && strings.HasPrefix(name, prefix) {
			v, _ := constant.Int64Val(constant.ToInt(c.Val()))
			values[name] = v
		}
	}
	return values
}

func TestRDMACMConstants(t *testing.T) {
	var want map[string]map[string]int64
	readJSON(t, "rdmacm-consts.json", &want)
	ours := rdmacmConsts(t)
	for name, v := range ours {
		if len(want[name]) == 0 {
			t.Errorf("%s is in no release", name)
		}
		for version, w := range want[name] {
			if v != w {
				t.Errorf("%s is %d, in %s %d", name, v, version, w)
			}
		}
	}
	if len(ours) < 30 {
		t.Errorf("only %d constants are here", len(ours))
	}
}

// TestRDMACMHeaders asks the C compilers what the headers of this machine say.
func TestRDMACMHeaders(t *testing.T) {
	const header = "/usr/include/rdma/rdma_cma.h"
	if _, err := os.Stat(header); err != nil {
		t.Skipf("%s is not installed (make setup installs it): %v", header, err)
	}
	for _, cc := range []string{"cc", "aarch64-linux-gnu-gcc"} {
		t.Run(cc, func(t *testing.T) {
			if _, err := exec.LookPath(cc); err != nil {
				t.Skipf("no C compiler (make setup installs gcc): %v", err)
			}
			var newestLayout layout
			readJSON(t, "rdmacm-"+newest+".json", &newestLayout)
			got, values := make(layout), make(map[string]int64)
			var probes []probe
			for c, s := range newestLayout {
				g := &cStruct{Fields: make(map[string]cField)}
				got[c] = g
				probes = append(probes,
					probe{"sizeof(" + c + ")", 0, func(v int64) { g.Size = int(v) }},
					probe{"_Alignof(" + c + ")", 0, func(v int64) { g.Align = int(v) }})
				for name := range s.Fields {
					probes = append(probes,
						probe{"__builtin_offsetof(" + c + ", " + name + ")", 0,
							func(v int64) { g.Fields[name] = cField{int(v), g.Fields[name][1]} }},
						probe{"sizeof(((" + c + " *)0)->" + name + ")", 0,
							func(v int64) { g.Fields[name] = cField{g.Fields[name][0], int(v)} }})
				}
			}
			var known map[string]map[string]int64
			readJSON(t, "rdmacm-consts.json", &known)
			for name := range known {
				probes = append(probes, probe{name, 3, func(v int64) { values[name] = v }})
			}
			include := []string{cc, "-include", filepath.Clean(header), "-include", "/usr/include/infiniband/ib.h",
				"-include", "/usr/include/infiniband/sa.h"}
			absent, _, err := askCompiler(t.TempDir(), include, probes)
			if errors.Is(err, errNoHeaders) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			for i := range absent {
				if e := probes[i].expr; !strings.Contains(e, "param.arg") && !strings.HasPrefix(e, "R") {
					t.Errorf("the headers lack %s", e)
				}
			}
			for c, s := range got {
				for name, f := range s.Fields {
					if f[1] == 0 {
						delete(s.Fields, name)
					}
				}
				if len(s.Fields) == 0 {
					t.Errorf("%s has no fields", c)
				}
			}
			for _, m := range mirrors["rdmacm"] {
				for _, p := range m.compare(got, false) {
					t.Error(p)
				}
			}
			ours := rdmacmConsts(t)
			for name, v := range values {
				if got, ok := ours[name]; ok && got != v {
					t.Errorf("%s is %d, in the headers %d", name, got, v)
				}
			}
			t.Logf("%d numbers compared, %d newer than the headers", len(probes)-len(absent), len(absent))
		})
	}
}
