//go:build !pureverbs_native

package loader

import (
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ebitengine/purego"

	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/level"
)

// childEnv names a check to run in a process of its own: what is loaded stays
// loaded, and the environment is read once.
const childEnv = "PUREVERBS_LOADER_CHILD"

// TestMain runs a check if this is a child.
func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		if err := children[name](); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child runs a check of children in a new process with more environment.
func child(t *testing.T, name string, env ...string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, exe)
	c.Env = append(os.Environ(), append(env, childEnv+"="+name)...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%s with %v: %v\n%s", name, env, err, out)
	}
	t.Logf("%s", out)
}

var children = map[string]func() error{
	"no library": func() error {
		_, err := Open(IBVerbs)
		var le *LibraryError
		if !errors.As(err, &le) || !errors.Is(err, ErrLibrary) {
			return fmt.Errorf("open gives %v, want a *LibraryError", err)
		}
		if len(le.Tried) != 1 || le.Tried[0].Reason != noFile || le.Only == "" || len(le.Install) != 5 {
			return fmt.Errorf("open gives %+v", le)
		}
		for _, name := range []Name{RDMACM, MLX5} {
			if _, err := Open(name); !errors.As(err, &le) || le.Name != IBVerbs {
				return fmt.Errorf("open of %s gives %v, want the error about libibverbs", name, err)
			}
		}
		r := Report()
		if len(r.Libraries) != 2 || r.Libraries[0].Error == "" || r.Override == "" || !strings.Contains(r.String(),
			"allows no other place") {
			return fmt.Errorf("the report does not tell:\n%s", r)
		}
		fmt.Println(err)
		return nil
	},
	"broken library": func() error {
		_, err := Open(IBVerbs)
		var le *LibraryError
		if !errors.As(err, &le) || len(le.Tried) != 1 || le.Tried[0].Reason == noFile || le.Tried[0].Reason == "" {
			return fmt.Errorf("open gives %v, want a *LibraryError with the linker's reason", err)
		}
		if strings.Contains(le.Tried[0].Reason, le.Tried[0].Path) {
			return fmt.Errorf("the reason repeats the path: %+v", le.Tried[0])
		}
		fmt.Println(err)
		return nil
	},
	"set path": func() error {
		// It overrides the environment, which names the fake library.
		if err := SetPath("/no/such/folder"); err != nil {
			return err
		}
		if _, err := Open(IBVerbs); err == nil || !strings.Contains(err.Error(), "SetPath(/no/such/folder)") {
			return fmt.Errorf("open gives %v, want an error that names SetPath", err)
		}
		if err := SetPath(os.Getenv(PathEnv)); err != nil {
			return err
		}
		if _, err := Open(IBVerbs); err != nil {
			return err
		}
		if err := SetPath("/elsewhere"); err == nil {
			return errors.New("SetPath with an open library is accepted")
		} else {
			fmt.Println(err)
		}
		return nil
	},
	"fake library": func() error {
		l, err := Open(IBVerbs)
		if err != nil {
			return err
		}
		if l.Version() != "33.0" || !strings.HasSuffix(l.Path(), "/libibverbs.so.1") || l.Name() != IBVerbs ||
			l.soname != string(IBVerbs) {
			return fmt.Errorf("opened %q, version %q, soname %q", l.Path(), l.Version(), l.soname)
		}
		if addr, err := l.Symbol("ibv_only_here"); addr == 0 || err != nil {
			return fmt.Errorf("symbol that is there: %#x, %v", addr, err)
		}
		for symbol, since := range map[string]string{"ibv_reg_dmabuf_mr": "v34", "ibv_reg_mr": "", "": "",
			"ibv_only_here\x00x": ""} {
			addr, err := l.Symbol(symbol)
			var se *SymbolError
			if !errors.As(err, &se) || !errors.Is(err, ErrNotSupported) || addr != 0 {
				return fmt.Errorf("symbol %q that is not there: %#x, %v", symbol, addr, err)
			}
			want := SymbolError{Symbol: symbol, Library: IBVerbs, Path: l.real, Version: "33.0", Since: since}
			if *se != want {
				return fmt.Errorf("symbol %q: %+v, want %+v", symbol, *se, want)
			}
			if _, again := l.Symbol(symbol); again != err {
				return fmt.Errorf("symbol %q: another error the second time", symbol)
			}
		}
		level.Note(648)
		r := Report()
		i := r.Libraries[0]
		if i.Version != "33.0" || i.ABILevel != "14" || i.SOName != string(IBVerbs) || len(i.Missing) != 2 ||
			len(i.Lacks) < 10 || r.ContextSize != 648 {
			return fmt.Errorf("report: %+v", r)
		}
		if runtime.GOARCH == "amd64" && r.Level != "v22 to v58" {
			return fmt.Errorf("level %q", r.Level)
		}
		fmt.Print(r)
		return nil
	},
	"many goroutines": func() error {
		var wg sync.WaitGroup
		failures := make(chan error, 100)
		for range 8 {
			wg.Go(func() {
				l, err := Open(IBVerbs)
				if err != nil {
					failures <- err
					return
				}
				for range 200 {
					if _, err := l.Symbol("ibv_fork_init"); err != nil {
						failures <- err
					}
					if _, err := l.Symbol("ibv_reg_mr"); err == nil {
						failures <- errors.New("a symbol that is not there was found")
					}
				}
				if again, err := Open(IBVerbs); again != l || err != nil {
					failures <- fmt.Errorf("another library the second time: %v", err)
				}
			})
		}
		wg.Wait()
		close(failures)
		if l, _ := Open(IBVerbs); len(l.asked()) != 1 {
			return fmt.Errorf("missing symbols are %v, want one", l.asked())
		}
		return <-failures
	},
	"driver is taken": func() error {
		driver := os.Getenv("TEST_DRIVER")
		h, err := purego.Dlopen(driver, purego.RTLD_NOW)
		if err != nil {
			return err
		}
		l, err := Open(MLX5)
		if err != nil {
			return err
		}
		if l.handle != h || l.Path() != driver {
			return fmt.Errorf("opened %s with handle %#x, want the driver %s with %#x", l.Path(), l.handle, driver, h)
		}
		// A second copy appears.
		if _, err := purego.Dlopen(os.Getenv("TEST_OTHER"), purego.RTLD_NOW); err != nil {
			return err
		}
		_, err = Open(MLX5)
		var ie *InstanceError
		if !errors.As(err, &ie) || !errors.Is(err, ErrLibrary) || len(ie.Loaded) != 2 {
			return fmt.Errorf("with two copies: %v, want an *InstanceError", err)
		}
		if r := Report(); !strings.Contains(r.String(), "two copies") {
			return fmt.Errorf("the report does not tell of two copies:\n%s", r)
		}
		fmt.Println(err)
		return nil
	},
	"driver is another": func() error {
		if _, err := purego.Dlopen(os.Getenv("TEST_DRIVER"), purego.RTLD_NOW); err != nil {
			return err
		}
		_, err := Open(MLX5)
		var ie *InstanceError
		if !errors.As(err, &ie) || ie.Wanted == "" {
			return fmt.Errorf("open gives %v, want an *InstanceError that names what was wanted", err)
		}
		fmt.Println(err)
		return nil
	},
	"installed": func() error {
		l, err := Open(IBVerbs)
		if err != nil {
			return err
		}
		for _, name := range []string{"ibv_get_device_list", "ibv_create_qp", "ibv_poll_cq", "ibv_wc_status_str"} {
			_, err := l.Symbol(name)
			// ibv_poll_cq is an inline function of the header.
			if (err == nil) == (name == "ibv_poll_cq") {
				return fmt.Errorf("%s: %v", name, err)
			}
		}
		if _, err := Open(RDMACM); err != nil {
			return err
		}
		r := Report()
		if len(r.Libraries) < 2 || r.Libraries[0].Path == "" || r.Libraries[1].Path == "" ||
			r.Libraries[0].SOName != string(IBVerbs) {
			return fmt.Errorf("report: %+v", r)
		}
		if v := r.Libraries[0].Version; v == "" || v != r.Libraries[1].Version {
			return fmt.Errorf("libibverbs is version %q, librdmacm %q", v, r.Libraries[1].Version)
		}
		b, err := json.Marshal(r)
		if err != nil {
			return err
		}
		var back Info
		if err := json.Unmarshal(b, &back); err != nil || back.Libraries[0].Path != r.Libraries[0].Path {
			return fmt.Errorf("JSON: %v: %s", err, b)
		}
		fmt.Print(r)
		return nil
	},
}

// compile makes a shared library of testdata/fakeverbs.c, or another source.
func compile(t *testing.T, file, soname string, source ...string) {
	t.Helper()
	if source == nil {
		source = []string{"testdata/fakeverbs.c"}
	}
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	args := append(strings.Fields(cc), "-shared", "-fPIC", "-Wl,-soname,"+soname, "-o", file)
	args = append(args, source...)
	if _, err := exec.LookPath(args[0]); err != nil {
		t.Skipf("SKIPPED, needs a C compiler (make setup installs gcc): %v", err)
	}
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// fakeLibrary returns a folder with a libibverbs of version 33.0 that lacks nearly
// everything.
func fakeLibrary(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	compile(t, dir+"/libibverbs.so.1.14.33.0", string(IBVerbs))
	if err := os.Symlink("libibverbs.so.1.14.33.0", dir+"/libibverbs.so.1"); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestNoLibrary(t *testing.T) {
	child(t, "no library", PathEnv+"="+t.TempDir())
	child(t, "no library", PathEnv+"=/no/such/folder")
	child(t, "no library", PathEnv+"=/no/such/libibverbs.so.1.14.44.0")
}

func TestBrokenLibrary(t *testing.T) {
	garbage := t.TempDir()
	if err := os.WriteFile(garbage+"/libibverbs.so.1", []byte(strings.Repeat("no ELF file at all\n", 1000)),
		0o755); err != nil {
		t.Fatal(err)
	}
	child(t, "broken library", PathEnv+"="+garbage)
	empty := t.TempDir()
	if err := os.WriteFile(empty+"/libibverbs.so.1", nil, 0o755); err != nil {
		t.Fatal(err)
	}
	child(t, "broken library", PathEnv+"="+empty)
	folder := t.TempDir()
	if err := os.Mkdir(folder+"/libibverbs.so.1", 0o755); err != nil {
		t.Fatal(err)
	}
	child(t, "broken library", PathEnv+"="+folder)
	dangling := t.TempDir()
	if err := os.Symlink("libibverbs.so.1.14.44.0", dangling+"/libibverbs.so.1"); err != nil {
		t.Fatal(err)
	}
	child(t, "no library", PathEnv+"="+dangling)
}

func TestFakeLibrary(t *testing.T) {
	dir := fakeLibrary(t)
	child(t, "fake library", PathEnv+"="+dir)
	child(t, "fake library", PathEnv+"=/no/such/folder:"+dir)
	child(t, "fake library", PathEnv+"="+dir+"/libibverbs.so.1")
	child(t, "many goroutines", PathEnv+"="+dir)
	child(t, "set path", PathEnv+"="+dir)
}

func TestDriver(t *testing.T) {
	dir, other := fakeLibrary(t), t.TempDir()
	driver, second := other+"/libmlx5-rdmav34.so", other+"/libmlx5.so.1.24.33.0"
	compile(t, driver, "libmlx5-rdmav34.so")
	compile(t, second, string(MLX5))
	env := []string{PathEnv + "=" + dir + "/libibverbs.so.1", "TEST_DRIVER=" + driver, "TEST_OTHER=" + second}
	child(t, "driver is taken", env...)
	child(t, "driver is another", PathEnv+"="+dir+":"+second, "TEST_DRIVER="+driver)
}

func TestLibOpen(t *testing.T) {
	if _, err := ccall.Open(string(IBVerbs), 0); err != nil {
		t.Skipf("make setup installs what is missing: %v", err)
	}
	child(t, "installed", PathEnv+"=")
}

// program builds testdata/prog without cgo.
func program(t *testing.T) string {
	t.Helper()
	exe := t.TempDir() + "/prog"
	c := exec.Command("go", "build", "-trimpath", "-o", exe, "./testdata/prog")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return exe
}

// TestProgram looks at what a program that uses the loader needs to start.
func TestProgram(t *testing.T) {
	exe := program(t)
	f, err := elf.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	libs, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(libs)
	if want := []string{"libc.so.6", "libdl.so.2", "libpthread.so.0"}; !slices.Equal(libs, want) {
		t.Errorf("the program links %v, want %v and nothing else", libs, want)
	}
	c := exec.Command(exe)
	c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+t.TempDir(), PathEnv+"="+t.TempDir())
	if out, err := c.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "help") {
		t.Errorf("help without libibverbs: %v\n%s", err, out)
	}

	// A host with the C library and nothing else.
	root := t.TempDir()
	files := map[string]string{exe: "/prog"}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			b, err := io.ReadAll(p.Open())
			if err != nil {
				t.Fatal(err)
			}
			ld := strings.TrimRight(string(b), "\x00")
			files[ld] = ld
		}
	}
	for _, l := range libs {
		dirs, err := filepath.Glob("/lib*/" + l)
		if err != nil {
			t.Fatal(err)
		}
		triplets, err := filepath.Glob("/lib/*-linux-gnu/" + l)
		if err != nil {
			t.Fatal(err)
		}
		if dirs = append(triplets, dirs...); len(dirs) == 0 {
			t.Skipf("SKIPPED: %s is not in /lib", l)
		}
		files[dirs[0]] = dirs[0]
	}
	for from, to := range files {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(root+filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(root+to, b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	inRoot := func(args ...string) (string, int) {
		c := exec.Command("/prog", args...)
		c.Dir = "/"
		c.Env = []string{}
		c.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
		if id := os.Geteuid(); id != 0 {
			c.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
			c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
		}
		out, err := c.CombinedOutput()
		var ee *exec.ExitError
		if err != nil && !errors.As(err, &ee) {
			t.Fatal(err)
		}
		return string(out), c.ProcessState.ExitCode()
	}
	if out, code := inRoot(); code != 0 || !strings.HasPrefix(out, "help") {
		t.Errorf("help on a host without libibverbs: exit %d\n%s", code, out)
	}
	out, code := inRoot("-open")
	if code != 3 || !strings.Contains(out, "cannot open libibverbs.so.1") || !strings.Contains(out,
		"install libibverbs1 ibverbs-providers librdmacm1 (Debian, Ubuntu)") ||
		!strings.Contains(out, "no such file: /usr/lib") {
		t.Errorf("open on a host without libibverbs: exit %d\n%s", code, out)
	}
	t.Logf("%s", out)
}
