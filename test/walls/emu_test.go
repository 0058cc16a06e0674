package walls

import (
	"slices"
	"strings"
	"testing"
)

// overEmuWall returns the imports between the emulator and the rest of this module that are not allowed, tests
// included.
func overEmuWall(files []file) []string {
	const tree, public = "emu", "emu/emutest"
	var out []string
	for _, f := range files {
		for _, p := range f.imports {
			p, ours := strings.CutPrefix(p, module)
			if !ours || within(f.dir, tree) == within(p, tree) {
				continue
			}
			test := strings.HasSuffix(f.name, "_test.go") || within(f.dir, "examples", "internal/testutil", "test")
			if within(f.dir, tree) || p != public || !test {
				out = append(out, f.dir+"/"+f.name+" imports "+p)
			}
		}
	}
	return out
}

// TestWallEmu checks that the emulator and the rest of this module do not import each other, except that tests and
// examples import emutest.
func TestWallEmu(t *testing.T) {
	for _, s := range overEmuWall(files(t)) {
		t.Error(s)
	}
}

// TestWallEmuFails checks that TestWallEmu can fail.
func TestWallEmuFails(t *testing.T) {
	imports := func(path string) []string { return []string{"fmt", module + path} }
	got := overEmuWall([]file{
		{"emu", "main.go", imports("emu/internal/machine")},
		{"emu/emutest", "run.go", imports("emu/internal/machine")},
		{"ibv", "a_test.go", imports("emu/emutest")},
		{"examples/kv", "kv_test.go", imports("emu/emutest")},
		{"test/emu/pair", "main.go", imports("emu/emutest")},
		{"ibv", "a.go", imports("ibv/b")},
		{"ibv", "b.go", imports("emu/emutest")},
		{"ibv", "b_test.go", imports("emu/internal/control")},
		{"test/emutree", "tree_test.go", imports("emu/internal/sysfs")},
		{"emu", "main.go", imports("internal/buildinfo")},
		{"emu/internal/engine", "rig_test.go", imports("internal/testutil")},
	})
	want := []string{
		"ibv/b.go imports emu/emutest",
		"ibv/b_test.go imports emu/internal/control",
		"test/emutree/tree_test.go imports emu/internal/sysfs",
		"emu/main.go imports internal/buildinfo",
		"emu/internal/engine/rig_test.go imports internal/testutil",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
