//go:build !race

package binaries

import (
	"context"
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// programs builds our commands and examples without cgo and returns their paths.
func programs(t *testing.T) []string {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("looks at linux/amd64 programs")
	}
	list := exec.Command("go", "list", "-f", `{{if eq .Name "main"}}{{.ImportPath}}{{end}}`, "./cmd/...", "./emu",
		"./examples/...")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	if len(out) == 0 {
		t.Fatal("go list: no programs in cmd and examples")
	}
	// Tiers emu and rxe need them there also.
	dir, err := filepath.Abs("../../.build/bin")
	if err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", append([]string{"build", "-trimpath", "-o", dir + "/"},
		strings.Fields(string(out))...)...)
	build.Dir = "../.."
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	var paths []string
	for p := range strings.FieldsSeq(string(out)) {
		paths = append(paths, filepath.Join(dir, path.Base(p)))
	}
	return paths
}

// interpreter returns the dynamic loader that the program names.
func interpreter(t *testing.T, f *elf.File) string {
	t.Helper()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			b, err := io.ReadAll(p.Open())
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimRight(string(b), "\x00")
		}
	}
	t.Fatal("no interpreter: the program is static and could never dlopen")
	return ""
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

// static are the programs that open no library.
var static = map[string]bool{"show_gids": true, "emu": true}

func TestPrograms(t *testing.T) {
	libs := []string{"libc.so.6", "libdl.so.2", "libpthread.so.0"}
	for _, path := range programs(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, err := elf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			have, err := f.ImportedLibraries()
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(have)
			root := t.TempDir()
			if static[filepath.Base(path)] {
				if len(have) > 0 {
					t.Errorf("links %v, want nothing", have)
				}
			} else {
				if !slices.Equal(have, libs) {
					t.Errorf("links %v, want %v and nothing else", have, libs)
				}
				// A root folder with the C library and nothing else.
				ld := interpreter(t, f)
				copyFile(t, root+ld, ld)
				for _, l := range libs {
					copyFile(t, root+"/lib/x86_64-linux-gnu/"+l, "/lib/x86_64-linux-gnu/"+l)
				}
			}
			copyFile(t, root+"/program", path)
			ctx, cancel := context.WithTimeout(context.Background(), testutil.Patience)
			defer cancel()
			c := exec.CommandContext(ctx, "/program", "--help")
			c.Dir = "/"
			c.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
			if id := os.Geteuid(); id != 0 {
				c.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
				c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
			}
			out, err := c.CombinedOutput()
			if err != nil {
				t.Errorf("--help without libibverbs: %v\n%s", err, out)
			}
			if len(out) == 0 {
				t.Error("--help without libibverbs printed nothing")
			}
			if st, err := os.Stat(path); err == nil {
				t.Logf("%d bytes", st.Size())
			}
		})
	}
}

// TestStatic builds programs that load no library: they link nothing that could, and name no interpreter.
func TestStatic(t *testing.T) {
	const tag = "-tags=pureverbs_native"
	dir := t.TempDir()
	for _, program := range []string{"cmd/perf/rdmaperf", "examples/kv", "examples/mckey", "examples/pingpong",
		"examples/rping",
		"examples/ucmatose", "examples/udaddy"} {
		t.Run(program, func(t *testing.T) {
			run := func(args ...string) string {
				c := exec.Command("go", args...)
				c.Dir, c.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
				c.Stderr = os.Stderr
				out, err := c.Output()
				if err != nil {
					t.Fatalf("go %v: %v\n%s", args, err, out)
				}
				return string(out)
			}
			for _, arch := range []string{"amd64", "arm64"} {
				t.Setenv("GOARCH", arch)
				for p := range strings.FieldsSeq(run("list", "-deps", tag, "./"+program)) {
					if strings.HasPrefix(p, "github.com/ebitengine/purego") || p == "runtime/cgo" {
						t.Errorf("%s: it links %s", arch, p)
					}
				}
			}
			t.Setenv("GOARCH", "amd64")
			file := filepath.Join(dir, path.Base(program))
			run("build", "-trimpath", tag, "-o", file, "./"+program)
			f, err := elf.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			libs, err := f.ImportedLibraries()
			if err != nil || len(libs) > 0 {
				t.Errorf("it links %v: %v", libs, err)
			}
			if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
				t.Error("it names an interpreter")
			}
		})
	}
}
