//go:build linux && !pureverbs_native

package ccall

import (
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"
)

func TestPtr(t *testing.T) {
	f := fn(t, "pointer")
	tests := []struct {
		name       string
		ptr, errno uintptr
		want       error
	}{
		{"pointer", 0x1234, 0, nil},
		{"pointer and errno", 0x1234, uintptr(syscall.EAGAIN), nil},
		{"NULL and errno", 0, uintptr(syscall.ENOMEM), syscall.ENOMEM},
		{"NULL and forgotten errno", 0, 0, syscall.EINVAL},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// An errno from before must not be seen.
			Int(fn(t, "result"), 0, uintptr(syscall.EPERM))
			got, err := Ptr(f, tt.ptr, tt.errno)
			if got != tt.ptr || err != tt.want {
				t.Errorf("Ptr = %#x, %v; want %#x, %v", got, err, tt.ptr, tt.want)
			}
		})
	}
}

func TestErr(t *testing.T) {
	f := fn(t, "result")
	tests := []struct {
		name  string
		ret   int
		errno syscall.Errno
		want  error
	}{
		{"0", 0, 0, nil},
		{"0 and errno", 0, syscall.EPERM, nil},
		{"errno", int(syscall.EINVAL), syscall.EINVAL, syscall.EINVAL},
		{"errno unset", int(syscall.EBUSY), 0, syscall.EBUSY},
		{"-1 and errno", -1, syscall.ENODEV, syscall.ENODEV},
		{"-1", -1, 0, syscall.Errno(1)},
		{"-errno", -int(syscall.ENOSYS), 0, syscall.ENOSYS},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := Err(f, word(tt.ret), uintptr(tt.errno)); err != tt.want {
				t.Errorf("Err = %v, want %v", err, tt.want)
			}
		})
	}
	if err := Err(fn(t, "dirty"), 0); err != nil {
		t.Errorf("0 with the upper half of the register dirty = %v, want nil", err)
	}
}

func TestMinus1(t *testing.T) {
	f := fn(t, "result")
	tests := []struct {
		name  string
		ret   int
		errno syscall.Errno
		n     int
		want  error
	}{
		{"0", 0, 0, 0, nil},
		{"number", 17, syscall.EPERM, 17, nil},
		{"-1 and errno", -1, syscall.EAGAIN, -1, syscall.EAGAIN},
		{"-1 and forgotten errno", -1, 0, -1, syscall.EINVAL},
		{"-2 and errno", -2, syscall.EIO, -2, syscall.EIO},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			Int(f, 0, uintptr(syscall.EPERM))
			if err := Minus1(f, word(tt.ret), uintptr(tt.errno)); err != tt.want {
				t.Errorf("Minus1 = %v, want %v", err, tt.want)
			}
			if n, err := Minus1Int(f, word(tt.ret), uintptr(tt.errno)); n != tt.n || err != tt.want {
				t.Errorf("Minus1Int = %d, %v; want %d, %v", n, err, tt.n, tt.want)
			}
		})
	}
	if n, err := Minus1Int(fn(t, "dirty"), 0x7fffffff); n != 0x7fffffff || err != nil {
		t.Errorf("an int with the upper half of the register dirty = %d, %v", n, err)
	}
	if n, err := Minus1Int(fn(t, "dirty"), 0xffffffff); n != -1 || err != syscall.EINVAL {
		t.Errorf("-1 with the upper half of the register dirty = %d, %v", n, err)
	}
}

func TestNegErrno(t *testing.T) {
	f := fn(t, "count")
	for _, tt := range []struct {
		ret, n int
		want   error
	}{{0, 0, nil}, {1 << 40, 1 << 40, nil}, {-int(syscall.ENODATA), 0, syscall.ENODATA}} {
		if n, err := NegErrno(f, word(tt.ret)); n != tt.n || err != tt.want {
			t.Errorf("NegErrno of %d = %d, %v; want %d, %v", tt.ret, n, err, tt.n, tt.want)
		}
	}
}

func TestPlainResults(t *testing.T) {
	if n := Int(fn(t, "dirty"), 0xfffffffe); n != -2 {
		t.Errorf("Int = %d, want -2", n)
	}
	if n := Uint64(fn(t, "dirty"), 7); n != 0xdeadbeef00000007 {
		t.Errorf("Uint64 = %#x", n)
	}
	for i, want := range []string{"", "IBV_WC_SUCCESS", "größer", ""} {
		if s := String(fn(t, "text"), uintptr(i)); s != want {
			t.Errorf("String %d = %q, want %q", i, s, want)
		}
	}
}

func TestErrnoIsZeroedFirst(t *testing.T) {
	now, set := fn(t, "errno_now"), fn(t, "result")
	for range 100 {
		Int(set, 0, uintptr(syscall.EXDEV))
		if e := Int(now); e != 0 {
			t.Fatalf("errno at the start of a call is %d, want 0", e)
		}
	}
}

func TestArguments(t *testing.T) {
	if n := Uint64(fn(t, "weigh"), 1, 2, 3, 4, 5, 6, 7, 8); n != 87654321 {
		t.Errorf("eight arguments arrive as %d, want 87654321", n)
	}
	// Go memory on this goroutine's stack, by its look.
	var buf [64]byte
	if err := Err(fn(t, "fill"), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf))); err != nil {
		t.Fatal(err)
	}
	for i, b := range buf {
		if int(b) != i {
			t.Fatalf("byte %d is %d after C wrote it", i, b)
		}
	}
}

func TestNoFunction(t *testing.T) {
	calls := map[string]func() error{
		"Ptr":       func() error { _, err := Ptr(0, 1); return err },
		"Err":       func() error { return Err(0, 1) },
		"Minus1":    func() error { return Minus1(0, 1) },
		"Minus1Int": func() error { _, err := Minus1Int(0, 1); return err },
		"NegErrno":  func() error { _, err := NegErrno(0, 1); return err },
		"Void":      func() error { return Void(0, 1) },
	}
	for name, call := range calls {
		err := call()
		var ce *CallError
		if !errors.As(err, &ce) || ce.Args != 1 || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s of a nil function = %#v, want a *CallError that is ErrUnsupported", name, err)
		}
	}
	if n := Int(0); n != 0 {
		t.Errorf("Int of a nil function = %d", n)
	}
	if n := Uint64(0); n != 0 {
		t.Errorf("Uint64 of a nil function = %d", n)
	}
	if s := String(0); s != "" {
		t.Errorf("String of a nil function = %q", s)
	}
}

func TestTooManyArguments(t *testing.T) {
	err := Err(libc(t, "abs"), make([]uintptr, maxArgs+1)...)
	var ce *CallError
	if !errors.As(err, &ce) || errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "limit is 15") {
		t.Errorf("a call with %d arguments = %v, want a *CallError that names the limit", maxArgs+1, err)
	}
	if n := Int(libc(t, "abs"), append([]uintptr{word(-3)}, make([]uintptr, maxArgs-1)...)...); n != 3 {
		t.Errorf("a call with %d arguments = %d, want 3", maxArgs, n)
	}
}

func TestCLibrary(t *testing.T) {
	if addr, err := Libc("no_such_function_of_libc"); err == nil || addr != 0 {
		t.Errorf("Libc of a name that does not exist = %#x, %v", addr, err)
	}
}

// TestErrnoOfThreads makes many threads fail in their own way at once.
func TestErrnoOfThreads(t *testing.T) {
	f := fn(t, "result")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			want := syscall.Errno(i + 1)
			for range 3000 {
				if err := Minus1(f, word(-1), uintptr(want)); err != want {
					t.Errorf("errno %v, want %v", err, want)
					return
				}
			}
		})
	}
	wg.Wait()
}
