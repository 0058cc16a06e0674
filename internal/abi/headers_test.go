package abi

import (
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var layoutOut = flag.String("layout", "", "write what the headers of this machine say to this `file`")

// A probe is one number to ask the headers for.
type probe struct {
	expr  string // in C
	since int    // index into releases: the first that has it
	set   func(v int64)
}

// releases on file for amd64, oldest first.
var releases = []string{"v17", "v25", "v44", "v65"}

// errNoHeaders means that there is nothing to compare with.
var errNoHeaders = errors.New("infiniband/mlx5dv.h is not installed: make setup installs it")

// TestHeaders asks a C compiler, and a cross compiler, what the headers of this
// machine say. The numbers are read from the object file: nothing is run, so the
// other architecture can be asked too.
func TestHeaders(t *testing.T) {
	host := os.Getenv("CC")
	if host == "" {
		host = "cc"
	}
	compilers := []string{host}
	if cross := "aarch64-linux-gnu-gcc"; host != cross {
		compilers = append(compilers, cross)
	}
	for _, cc := range compilers {
		t.Run(filepath.Base(strings.Fields(cc)[0]), func(t *testing.T) {
			checkHeaders(t, cc, cc == host)
		})
	}
}

func checkHeaders(t *testing.T, cc string, dump bool) {
	args := strings.Fields(cc)
	if _, err := exec.LookPath(args[0]); err != nil {
		t.Skipf("no C compiler (make setup installs gcc): %v", err)
	}
	l, probes := layoutProbes(t)
	values := make(map[string]int64)
	probes = append(probes, constProbes(t, values)...)

	absent, machine, err := askCompiler(t.TempDir(), args, probes)
	if errors.Is(err, errNoHeaders) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range fieldsMissing(probes, absent) {
		t.Error(p)
	}
	for c, s := range l {
		if s.Size < 0 {
			delete(l, c)
		}
		for name, f := range s.Fields {
			if f[0] < 0 {
				delete(s.Fields, name)
			}
		}
	}
	for _, m := range verbsMirrors() {
		for _, p := range m.compare(l, false) {
			t.Error(p)
		}
	}
	consts := constants(t)
	for name, v := range values {
		if got, ok := consts[name]; ok && got != v {
			t.Errorf("%s is %d, in the headers %d", name, got, v)
		}
	}
	mutex := l["struct ibv_context"].Fields["mutex"][1]
	if want := map[elf.Machine][]int{elf.EM_X86_64: {40}, elf.EM_AARCH64: {40, 48}}[machine]; !slices.Contains(want,
		mutex) {
		t.Errorf("a mutex has %d bytes on %v, want one of %v", mutex, machine, want)
	}
	t.Logf("%s for %v: %d numbers compared, %d newer than the headers", cc, machine,
		len(probes)-len(absent), len(absent))
	if dump && *layoutOut != "" {
		writeLayout(t, *layoutOut, l)
	}
}

// layoutProbes asks for all that the newest release has.
func layoutProbes(t *testing.T) (layout, []probe) {
	var all []layout
	for _, r := range releases {
		all = append(all, readLayout(t, r))
	}
	since := func(has func(l layout) bool) int { return slices.IndexFunc(all, has) }
	l := make(layout)
	var probes []probe
	for c, s := range all[len(all)-1] {
		got := &cStruct{Size: -1, Fields: make(map[string]cField)}
		l[c] = got
		n := since(func(l layout) bool { return l[c] != nil })
		probes = append(probes,
			probe{"sizeof(" + c + ")", n, func(v int64) { got.Size = int(v) }},
			probe{"_Alignof(" + c + ")", n, func(v int64) { got.Align = int(v) }})
		for name := range s.Fields {
			got.Fields[name] = cField{-1, 0}
			n := since(func(l layout) bool { return l[c] != nil && has(l[c].Fields, name) })
			probes = append(probes,
				probe{fmt.Sprintf("__builtin_offsetof(%s, %s)", c, name), n, func(v int64) {
					f := got.Fields[name]
					got.Fields[name] = cField{int(v), f[1]}
				}},
				probe{fmt.Sprintf("sizeof(((%s *)0)->%s)", c, name), n, func(v int64) {
					f := got.Fields[name]
					got.Fields[name] = cField{f[0], int(v)}
				}})
		}
	}
	return l, probes
}

func has(fields map[string]cField, name string) bool { _, ok := fields[name]; return ok }

func constProbes(t *testing.T, values map[string]int64) (probes []probe) {
	var known map[string]map[string]int64
	readJSON(t, "consts.json", &known)
	for name, in := range known {
		n := slices.IndexFunc(releases, func(r string) bool { _, ok := in[r]; return ok })
		probes = append(probes, probe{name, n, func(v int64) { values[name] = v }})
	}
	return probes
}

// fieldsMissing says which probes the headers should have answered. They may be
// older than what is asked, but then they lack all that is as new or newer.
func fieldsMissing(probes []probe, absent map[int]bool) (problems []string) {
	level := 0 // the newest release of which the headers have something
	for i, p := range probes {
		if !absent[i] {
			level = max(level, p.since)
		}
	}
	for i := range absent {
		if p := probes[i]; p.since < level || p.since == 0 {
			problems = append(problems, fmt.Sprintf("the headers lack %s, which is there since %s", p.expr,
				releases[p.since]))
		}
	}
	return problems
}

var errorLine = regexp.MustCompile(`(?m)^[^:\n]*probe\.c:(\d+):\d+: (?:fatal )?error: (.*)$`)

// askCompiler compiles the probes, without those that the compiler complains
// about, and reads the answers from the object file.
func askCompiler(dir string, cc []string, probes []probe) (absent map[int]bool, machine elf.Machine, err error) {
	src, obj := filepath.Join(dir, "probe.c"), filepath.Join(dir, "probe.o")
	absent = make(map[int]bool)
	for {
		// One line each, after the includes.
		text := "#include <infiniband/mlx5dv.h>\n#include <infiniband/efadv.h>\n" // they include verbs.h
		for i, p := range probes {
			if !absent[i] {
				text += fmt.Sprintf("const long long probe_%d = (long long)(%s);", i, p.expr)
			}
			text += "\n"
		}
		if err := os.WriteFile(src, []byte(text), 0o644); err != nil {
			return nil, 0, err
		}
		// A cross compiler has a C library of its own, but not our headers.
		cmd := exec.Command(cc[0], append(slices.Clone(cc[1:]), "-std=gnu11", "-w", "-c", "-idirafter", "/usr/include",
			"-o", obj, src)...)
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		out, err := cmd.CombinedOutput()
		if err == nil {
			break
		}
		before := len(absent)
		for _, e := range errorLine.FindAllStringSubmatch(string(out), -1) {
			line, _ := strconv.Atoi(e[1])
			if line <= 2 {
				if strings.Contains(e[2], "infiniband/") {
					return nil, 0, errNoHeaders
				}
				return nil, 0, fmt.Errorf("%v: %w\n%s", cmd, err, out)
			}
			absent[line-3] = true
		}
		if len(absent) == before {
			return nil, 0, fmt.Errorf("%v: %w\n%s", cmd, err, out)
		}
	}

	f, err := elf.Open(obj)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		return nil, 0, err
	}
	answered := 0
	for _, s := range symbols {
		n, ok := strings.CutPrefix(s.Name, "probe_")
		if !ok {
			continue
		}
		i, err := strconv.Atoi(n)
		if err != nil {
			return nil, 0, err
		}
		section := f.Sections[s.Section]
		var v int64 // a section without contents is all zero
		if section.Type != elf.SHT_NOBITS {
			b := make([]byte, 8)
			if _, err := section.ReadAt(b, int64(s.Value)); err != nil {
				return nil, 0, fmt.Errorf("%s: %w", s.Name, err)
			}
			v = int64(binary.LittleEndian.Uint64(b))
		}
		probes[i].set(v)
		answered++
	}
	if answered != len(probes)-len(absent) {
		return nil, 0, fmt.Errorf("%d probes compiled, %d answered", len(probes)-len(absent), answered)
	}
	return absent, f.Machine, nil
}

// writeLayout writes the form of testdata/abi/layout-*.json.
func writeLayout(t *testing.T, file string, l layout) {
	var lines []string
	for c, s := range l {
		fields, err := json.Marshal(s.Fields)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf(" %q: {\"size\": %d, \"align\": %d, \"fields\": %s}", c, s.Size,
			s.Align, fields))
	}
	slices.Sort(lines)
	if err := os.WriteFile(file, []byte("{\n"+strings.Join(lines, ",\n")+"\n}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("wrote %s, %s", file, runtime.GOARCH)
}

// TestHeadersControl gives the check headers that are wrong: one with a field
// moved, one that lacks an old field.
func TestHeadersControl(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skipf("no C compiler (make setup installs gcc): %v", err)
	}
	include := filepath.Join(t.TempDir(), "infiniband")
	if err := os.Mkdir(include, 0o755); err != nil {
		t.Fatal(err)
	}
	header := "struct ibv_sge { unsigned long long addr; unsigned int lkey, length; };\nenum { IBV_QPT_RC = 7 };\n"
	if err := os.WriteFile(filepath.Join(include, "mlx5dv.h"), []byte(header), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(include, "efadv.h"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int64)
	ask := func(expr string, since int) probe { return probe{expr, since, func(v int64) { got[expr] = v }} }
	probes := []probe{
		ask("__builtin_offsetof(struct ibv_sge, lkey)", 0),
		ask("sizeof(struct ibv_sge)", 0),
		ask("IBV_QPT_RC", 3),
		ask("sizeof(struct ibv_pd)", 0),
		ask("sizeof(struct ibv_ece)", 2),
		ask("IBV_QPT_UD", 3),
	}
	absent, _, err := askCompiler(t.TempDir(), []string{cc, "-I", filepath.Dir(include)}, probes)
	if err != nil {
		t.Fatal(err)
	}
	if got["__builtin_offsetof(struct ibv_sge, lkey)"] != 8 || got["sizeof(struct ibv_sge)"] != 16 ||
		got["IBV_QPT_RC"] != 7 {
		t.Errorf("the answers are %v", got)
	}
	if len(absent) != 3 || !absent[3] || !absent[4] || !absent[5] {
		t.Errorf("absent are %v, want 3, 4 and 5", absent)
	}
	problems := fieldsMissing(probes, absent)
	slices.Sort(problems)
	if len(problems) != 2 || !strings.Contains(problems[0], "ibv_ece") || !strings.Contains(problems[1], "ibv_pd") {
		t.Errorf("problems are %q, want those of ibv_ece and ibv_pd", problems)
	}
}
