//go:build !pureverbs_native

package loader

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func init() {
	// The file TEST_FILE is refused for the reason TEST_WANT.
	children["bad file"] = func() error {
		_, err := Open(IBVerbs)
		var le *LibraryError
		if !errors.As(err, &le) || !errors.Is(err, ErrLibrary) || len(le.Tried) != 1 {
			return fmt.Errorf("open gives %v, want a *LibraryError about one file", err)
		}
		file, want := os.Getenv("TEST_FILE"), os.Getenv("TEST_WANT")
		if t := le.Tried[0]; t.Path != file || !strings.Contains(t.Reason, want) || !strings.Contains(err.Error(),
			file+": "+t.Reason) {
			return fmt.Errorf("open gives %+v: %v; want %s to be called %q", le, err, file, want)
		}
		fmt.Println(err)
		return nil
	}
	// A bad file is what the linker itself would take: another library is opened, or
	// the error names the file.
	children["bad file in the search"] = func() error {
		l, err := Open(IBVerbs)
		file := os.Getenv("TEST_FILE")
		if err == nil && l.Path() == file || err != nil && !strings.Contains(err.Error(), file) {
			return fmt.Errorf("open gives %v, %v", l, err)
		}
		fmt.Println(l, err)
		return nil
	}
	// With no more than TEST_SPARE descriptors the library opens, or the error says so.
	children["no descriptors"] = func() error {
		spare, err := strconv.ParseUint(os.Getenv("TEST_SPARE"), 10, 64)
		if err != nil {
			return err
		}
		fd, err := syscall.Open("/", syscall.O_RDONLY|syscall.O_CLOEXEC, 0) // the lowest that is free
		if err != nil {
			return err
		}
		if err := syscall.Close(fd); err != nil {
			return err
		}
		limit := uint64(fd) + spare
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			return err
		}
		_, err = Open(IBVerbs)
		var le *LibraryError
		if err != nil && !(errors.As(err, &le) && strings.Contains(err.Error(), "no file descriptor left") &&
			le.Install == nil) {
			return fmt.Errorf("open with %d descriptors gives %v", spare, err)
		}
		if spare == 0 && err == nil {
			return errors.New("open without descriptors gives no error")
		}
		fmt.Println(err)
		_ = Report()
		return nil
	}
	// librdmacm needs more than this libibverbs has.
	children["too old"] = func() error {
		_, err := Open(RDMACM)
		var le *LibraryError
		if !errors.As(err, &le) || le.Install != nil || !strings.Contains(le.Hint, os.Getenv("TEST_WANT")) ||
			!strings.Contains(err.Error(), le.Hint) {
			return fmt.Errorf("open gives %v (%+v), want the hint %q", err, le, os.Getenv("TEST_WANT"))
		}
		if strings.Contains(err.Error(), "install lib") {
			return fmt.Errorf("open gives %v, which names packages", err)
		}
		fmt.Println(err)
		return nil
	}
}

// A file that cannot be loaded is refused before the linker sees it, which would
// die of some and say wrong things of others.
func TestBadFile(t *testing.T) {
	good, err := os.ReadFile(fakeLibrary(t) + "/libibverbs.so.1")
	if err != nil {
		t.Fatal(err)
	}
	edit := func(at int, v byte) []byte {
		b := append([]byte(nil), good...)
		b[at] = v
		return b
	}
	const fifo = "FIFO"
	for _, tt := range []struct {
		name   string
		file   []byte
		want   string
		search bool // the linker would take it by itself
	}{
		{"cut off", good[:len(good)/4], "is cut off", true},
		{"header cut off", good[:40], "is cut off", true},
		{"other machine", edit(18, 243), "is for riscv64; this program is for", false},
		{"32 bits", edit(4, 1), "is for 32 bits", false},
		{"program", edit(16, 1), "not a shared library", false},
		{"FIFO", []byte(fifo), "is not a regular file", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file := dir + "/libibverbs.so.1"
			if string(tt.file) == fifo {
				if err := syscall.Mkfifo(file, 0o644); err != nil {
					t.Fatal(err)
				}
			} else if err := os.WriteFile(file, tt.file, 0o755); err != nil {
				t.Fatal(err)
			}
			child(t, "bad file", PathEnv+"="+dir, "TEST_FILE="+file, "TEST_WANT="+tt.want)
			if tt.search {
				child(t, "bad file in the search", PathEnv+"=", "LD_LIBRARY_PATH="+dir, "TEST_FILE="+file)
			}
		})
	}
}

// A process without descriptors hears of that, in a program that does nothing else:
// there the runtime's poller is not started, which would end it.
func TestNoDescriptors(t *testing.T) {
	dir := fakeLibrary(t)
	for spare := range 5 {
		child(t, "no descriptors", PathEnv+"="+dir, "TEST_SPARE="+strconv.Itoa(spare))
		child(t, "no descriptors", PathEnv+"=", "LD_LIBRARY_PATH="+dir, "TEST_SPARE="+strconv.Itoa(spare))
	}
}

// A libibverbs that is too old for librdmacm: installing it, as it is, does not help.
func TestVersionMissing(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	script := func(node string) string {
		return write(node+".map", node+" { global: ibv_only_here; };\n")
	}
	user := write("user.c", "int ibv_only_here(void);\nint rdma_user(void) { return ibv_only_here(); }\n")
	for _, tt := range []struct{ has, needs, want string }{
		{"IBVERBS_1.1", "IBVERBS_1.14", "rdma-core v36 introduced IBVERBS_1.14"},
		{"IBVERBS_PRIVATE_25", "IBVERBS_PRIVATE_34", "is from rdma-core v34 to v56 (provider ABI 34)"},
		{"IBVERBS_1.1", "IBVERBS_9.9", "needs its IBVERBS_9.9"},
	} {
		libs, err := os.MkdirTemp(dir, "libs")
		if err != nil {
			t.Fatal(err)
		}
		verbs := libs + "/libibverbs.so.1"
		compile(t, verbs, string(IBVerbs), "testdata/fakeverbs.c", "-Wl,--version-script="+script(tt.needs))
		compile(t, libs+"/librdmacm.so.1", string(RDMACM), user, verbs)
		compile(t, verbs, string(IBVerbs), "testdata/fakeverbs.c", "-Wl,--version-script="+script(tt.has))
		child(t, "too old", PathEnv+"="+libs, "TEST_WANT="+tt.want)
	}
}

func TestVersionHint(t *testing.T) {
	for _, tt := range []struct{ reason, want string }{
		{"/u/libibverbs.so.1: version `IBVERBS_1.12' not found (required by /l/librdmacm.so.1)",
			"/u/libibverbs.so.1 is too old for /l/librdmacm.so.1: rdma-core v34 introduced IBVERBS_1.12; " +
				"install that or a later release"},
		{"/lib/libc.so.6: version `GLIBC_2.38' not found (required by /l/librdmacm.so.1)",
			"/l/librdmacm.so.1 was built for a newer C library (GLIBC_2.38) than this host's: " +
				"use the one of this host's distribution"},
		{"undefined symbol: ibv_reg_dmabuf_mr, version IBVERBS_1.12",
			"the loaded libibverbs lacks ibv_reg_dmabuf_mr, which rdma-core v34 introduced: " +
				"install one as new as /l/librdmacm.so.1"},
		{"undefined symbol: ibv_x", ""},
		{"cannot open shared object file: No such file or directory", ""},
		{"version `", ""},
	} {
		if got := versionHint("/l/librdmacm.so.1", tt.reason); got != tt.want {
			t.Errorf("%q:\n%q, want\n%q", tt.reason, got, tt.want)
		}
	}
}
