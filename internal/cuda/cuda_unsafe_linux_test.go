//go:build !pureverbs_native

package cuda

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/pureverbs/pureverbs/internal/ccall"
)

// compiled is the library of testdata/fakecuda.c, once there is one.
var compiled string

func TestMain(m *testing.M) {
	code := m.Run()
	if compiled != "" {
		os.RemoveAll(filepath.Dir(compiled))
	}
	os.Exit(code)
}

// compile makes a library of testdata/fakecuda.c.
func compile(t *testing.T) string {
	t.Helper()
	if compiled != "" {
		return compiled
	}
	cc := strings.Fields(os.Getenv("CC"))
	if len(cc) == 0 {
		cc = []string{"cc"}
	}
	if _, err := exec.LookPath(cc[0]); err != nil {
		t.Skipf("SKIPPED, needs a C compiler (make setup installs gcc): %v", err)
	}
	dir, err := os.MkdirTemp("", "fakecuda")
	if err != nil {
		t.Fatal(err)
	}
	so := filepath.Join(dir, "libcuda.so.1")
	args := append(cc, "-Wall", "-Werror", "-shared", "-fPIC", "-o", so, "testdata/fakecuda.c")
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	compiled = so
	return so
}

// use makes Open open the library so, until the test ends.
func use(t *testing.T, so string) {
	was := names
	names = []string{"/no/such/libcuda.so.1", so}
	open = sync.OnceValues(search)
	t.Cleanup(func() {
		names = was
		open = sync.OnceValues(search)
	})
}

// env sets variables where C sees them, until the test ends.
func env(t *testing.T, pairs ...string) {
	t.Helper()
	set, err := ccall.Libc("setenv")
	if err != nil {
		t.Fatal(err)
	}
	unset, _ := ccall.Libc("unsetenv")
	for i := 0; i < len(pairs); i += 2 {
		name, value := append([]byte(pairs[i]), 0), append([]byte(pairs[i+1]), 0)
		ccall.Int(set, uintptr(unsafe.Pointer(&name[0])), uintptr(unsafe.Pointer(&value[0])), 1)
		t.Cleanup(func() { ccall.Int(unset, uintptr(unsafe.Pointer(&name[0]))) })
	}
}

// left returns how much the fake library has open.
func left(t *testing.T) int32 {
	lib, err := open()
	if err != nil {
		t.Fatal(err)
	}
	fn, err := purego.Dlsym(lib.handle, "fake_left")
	if err != nil {
		t.Fatal(err)
	}
	return ccall.Int(fn)
}

// TestMemory allocates, copies, exports and frees, from many threads.
func TestMemory(t *testing.T) {
	use(t, compile(t))
	g, err := Open(1)
	if err != nil {
		t.Fatal(err)
	}
	if name := g.Name(); name != "Fake GPU 1" {
		t.Errorf("name %q", name)
	}
	if ok, err := g.Dmabuf(); !ok || err != nil {
		t.Errorf("dma-buf %v, %v", ok, err)
	}
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			want := bytes.Repeat([]byte{byte(n + 1)}, 5000)
			p, err := g.Alloc(1 << 16)
			if err != nil {
				t.Error(err)
				return
			}
			got := make([]byte, len(want))
			err = errors.Join(g.Write(p+100, want), g.Read(got, p+100))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%v, or other bytes came back", err)
			}
			fd, err := g.Export(p, 1<<16)
			if err != nil {
				t.Error(err)
				return
			}
			f := os.NewFile(uintptr(fd), "dma-buf")
			if _, err := f.ReadAt(got, 100); err != nil || !bytes.Equal(got, want) {
				t.Errorf("the dma-buf has other bytes: %v", err)
			}
			if err := errors.Join(f.Close(), g.Free(p)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := g.Close(); err != nil || left(t) != 0 {
		t.Errorf("close: %v, left %d", err, left(t))
	}
}

// openEither opens a GPU by its number or by its address.
func openEither(s string) (*GPU, error) {
	if n, err := strconv.Atoi(s); err == nil {
		return Open(n)
	}
	return OpenByBusID(s)
}

// TestRefusals: what is refused says why, and leaves nothing behind.
func TestRefusals(t *testing.T) {
	so := compile(t)
	alloc := func(g *GPU) error { _, err := g.Alloc(1 << 20); return err }
	export := func(g *GPU) error {
		p, err := g.Alloc(4096)
		if err != nil {
			return err
		}
		_, err = g.Export(p, 4096)
		return errors.Join(err, g.Free(p))
	}
	newer := func(g *GPU) error { return g.do("cuFromTheFuture", "99") }
	for _, tt := range []struct {
		name string
		env  []string
		gpu  string // a number or a PCI address
		do   func(*GPU) error
		as   any
		code error
		want string
	}{
		{"no such number", nil, "2", nil, new(*DeviceError), nil, "there are 2, from 0"},
		{"a negative number", nil, "-1", nil, new(*DeviceError), nil, "gpu -1 is not there"},
		{"none", []string{"FAKE_GPUS", "0"}, "0", nil, new(*DeviceError), NoDevice, "nvidia-smi -L"},
		{"one", []string{"FAKE_GPUS", "1"}, "1", nil, new(*DeviceError), nil, "there is one, 0"},
		{"no such address", nil, "0000:09:00.0", nil, new(*DeviceError), InvalidDevice, "gpu 0000:09:00.0"},
		{"no address", nil, "bus", nil, new(*DeviceError), InvalidValue, "gpu bus"},
		{"no driver", []string{"FAKE_FAIL", "cuInit", "FAKE_CODE", "803"}, "0", nil, new(*Error), Code(803),
			"cuInit: CUDA error 803"},
		{"no context", []string{"FAKE_FAIL", "cuDevicePrimaryCtxRetain"}, "0", nil, new(*Error), Code(999), "999"},
		{"no memory", []string{"FAKE_MEMORY", "65536"}, "0", alloc, new(*Error), OutOfMemory, "out of memory"},
		{"no order", []string{"FAKE_FAIL", "cuPointerSetAttribute"}, "0", alloc, new(*Error), Code(999),
			"cuPointerSetAttribute"},
		{"no dma-buf", []string{"FAKE_NO_DMABUF", "1"}, "0", export, new(*Error), NotSupported,
			"operation not supported"},
		{"an old library", nil, "0", newer, new(*SymbolError), nil, "has no cuFromTheFuture, which came with CUDA 99"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			use(t, so)
			env(t, tt.env...)
			g, err := openEither(tt.gpu)
			if err == nil && tt.do != nil {
				err = tt.do(g)
			}
			if !errors.As(err, tt.as) || tt.code != nil && !errors.Is(err, tt.code) ||
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("%T %v, want a %T with %q", err, err, tt.as, tt.want)
			}
			if g != nil {
				if err := g.Close(); err != nil {
					t.Error(err)
				}
			}
			if n := left(t); n != 0 {
				t.Errorf("%d is left", n)
			}
		})
	}
}

// TestNoLibrary: the error names all that was looked for.
func TestNoLibrary(t *testing.T) {
	use(t, "/not/there/either/libcuda.so")
	_, err := Open(0)
	var le *LibraryError
	if !errors.As(err, &le) || len(le.Tried) != 2 {
		t.Fatalf("%T %v", err, err)
	}
	for _, want := range []string{"/no/such/libcuda.so.1", "/not/there/either/libcuda.so", "NVIDIA's driver"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
