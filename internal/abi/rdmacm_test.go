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
	"regexp"
	"slices"
	"strings"
	"testing"
)

func rdmacmMirrors() []mirror {
	addr := m[RDMAAddr]("struct rdma_addr")
	addr.ignored = []string{"src_addr", "src_sin", "src_sin6", "dst_addr", "dst_sin", "dst_sin6", "addr.ibaddr"}
	event := m[RDMACMEvent]("struct rdma_cm_event")
	event.ignored = []string{"param.conn", "param.ud", "param.arg"}
	return []mirror{
		addr, event,
		m[RDMAEventChannel]("struct rdma_event_channel"),
		m[RDMAIBAddr]("struct rdma_ib_addr"),
		m[RDMARoute]("struct rdma_route"),
		m[RDMACMID]("struct rdma_cm_id"),
		m[RDMAConnParam]("struct rdma_conn_param"),
		m[RDMAUDParam]("struct rdma_ud_param"),
		m[RDMAAddrinfo]("struct rdma_addrinfo"),
		m[RDMAJoinMCAttrEx]("struct rdma_cm_join_mc_attr_ex"),
		m[SockaddrIB]("struct sockaddr_ib"),
		m[PathRecord]("struct ibv_path_record"),
		m[PathData]("struct ibv_path_data"),
		m[SAPathRec]("struct ibv_sa_path_rec"),
	}
}

func TestRDMACMLayouts(t *testing.T) {
	for _, v := range versions {
		t.Run(v, func(t *testing.T) {
			var l layout
			readJSON(t, "rdmacm-"+v+".json", &l)
			for _, m := range rdmacmMirrors() {
				for _, p := range m.compare(l, strings.HasPrefix(v, newest)) {
					t.Error(p)
				}
			}
			if len(l) < len(rdmacmMirrors())-1 { // join_mc_attr_ex came with v16
				t.Errorf("%d structs are on file, %d mirrored", len(l), len(rdmacmMirrors()))
			}
		})
	}
	for _, m := range rdmacmMirrors() {
		for _, p := range hostLayout(m.t) {
			t.Errorf("%s: %s", m.c, p)
		}
	}
}

// TestRDMACMMirrorsAreChecked finds the structs by their doc comments.
func TestRDMACMMirrorsAreChecked(t *testing.T) {
	src, err := os.ReadFile("rdmacm.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^// (\w+) is (struct \w+) \(`).FindAllStringSubmatch(string(src), -1)
	for _, d := range found {
		if !slices.ContainsFunc(rdmacmMirrors(), func(m mirror) bool { return m.t.Name() == d[1] && m.c == d[2] }) {
			t.Errorf("%s is said to mirror %s, and no test checks that", d[1], d[2])
		}
	}
	if len(found) != len(rdmacmMirrors()) {
		t.Errorf("%d mirrors are documented, %d checked", len(found), len(rdmacmMirrors()))
	}
}

// rdmacmConsts are the constants of rdmacm.go.
func rdmacmConsts(t *testing.T) map[string]int64 { return packageConsts(t, "rdmacm.go", "R") }

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
	if len(want) != len(ours) || len(ours) < 40 {
		t.Errorf("%d constants are here, %d on file", len(ours), len(want))
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
			for _, m := range rdmacmMirrors() {
				for _, p := range m.compare(got, false) {
					t.Error(p)
				}
			}
			ours := rdmacmConsts(t)
			for name, v := range values {
				if ours[name] != v {
					t.Errorf("%s is %d, in the headers %d", name, ours[name], v)
				}
			}
			t.Logf("%d numbers compared, %d newer than the headers", len(probes)-len(absent), len(absent))
		})
	}
}
