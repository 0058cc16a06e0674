package usercm

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// host makes a sysfs with attributes of rdma_cm.
func host(t *testing.T, attrs map[string]string) sysfs.Root {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "class", "misc", "rdma_cm")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, v := range attrs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(v+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return sysfs.Root(root)
}

// TestOpen opens only the character device that sysfs names, with the one version of the commands.
func TestOpen(t *testing.T) {
	regular := filepath.Join(t.TempDir(), "rdma_cm")
	if err := os.WriteFile(regular, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, path string
		attrs      map[string]string
		want       error
	}{
		{"the device", "/dev/null", map[string]string{"abi_version": "4", "dev": "1:3"}, nil},
		{"a kernel without the attributes", "/dev/null", nil, nil},
		{"another device", "/dev/null", map[string]string{"abi_version": "4", "dev": "10:57"}, syscall.ENXIO},
		{"a regular file", regular, map[string]string{"abi_version": "4", "dev": "1:3"}, syscall.ENXIO},
		{"a regular file, unknown number", regular, nil, syscall.ENXIO},
		{"an older version", "/dev/null", map[string]string{"abi_version": "3", "dev": "1:3"}, syscall.EPERM},
		{"a newer version", "/dev/null", map[string]string{"abi_version": "5", "dev": "1:3"}, syscall.EPERM},
		{"no file", regular + "2", map[string]string{"abi_version": "4"}, syscall.ENOENT},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, err := openIn(host(t, tc.attrs), tc.path)
			if err != tc.want {
				t.Fatalf("error %v, want %v", err, tc.want)
			}
			if err != nil {
				return
			}
			defer f.Close()
			if flags, err := unix.FcntlInt(uintptr(f.FD()), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("flags %#x, %v: a child would inherit it", flags, err)
			}
			if flags, err := unix.FcntlInt(uintptr(f.FD()), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
				t.Errorf("flags %#x, %v: GET_EVENT would hold a processor while it waits", flags, err)
			}
		})
	}
}

// TestClose: a closed file takes no command, because its number may be another file's.
func TestClose(t *testing.T) {
	f, err := openIn(host(t, nil), "/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	f.Close()
	err = f.Do(func(Writer) error { t.Error("it takes a command"); return nil })
	if err != syscall.EBADF {
		t.Error(err)
	}
}

// TestOwner: once a thread was refused, all commands of a file that is opened afterwards are written on one thread, the
// one that opened it.
func TestOwner(t *testing.T) {
	if changed.Load() {
		t.Fatal("a thread was refused already")
	}
	if o, err := Own(func() error { return nil }); o != nil || err != nil {
		t.Fatalf("%v, %v, want any thread", o, err)
	}
	changed.Store(true)
	defer changed.Store(false)
	var opener int
	o, err := Own(func() error { opener = unix.Gettid(); return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer o.End()
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			err := o.Do(-1, func() error {
				if got := unix.Gettid(); got != opener {
					t.Errorf("thread %d, want %d", got, opener)
				}
				return syscall.EBADE
			})
			if err != syscall.EBADE {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if _, err := Own(func() error { return syscall.ENOENT }); err != syscall.ENOENT {
		t.Error(err)
	}
}

// TestOwner_OtherRefusals: an EACCES that another command does not get too is the command's own.
func TestOwner_OtherRefusals(t *testing.T) {
	f, err := openIn(host(t, nil), "/dev/null") // takes every write
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = f.Do(func(Writer) error { return syscall.EACCES })
	if err != syscall.EACCES || errors.Is(err, control.ErrCredentials) || changed.Load() {
		t.Errorf("%v, threads changed: %t", err, changed.Load())
	}
}

// threads notes the threads that write.
type threads struct{ ids []int }

func (w *threads) Write(command, _ []byte) (int, error) {
	w.ids = append(w.ids, unix.Gettid())
	return len(command), nil
}

// TestDo_OneThread: the commands of one Do go to the kernel from one thread, also if the goroutine waits in between. A
// thread that the kernel refuses would leave half of them done.
func TestDo_OneThread(t *testing.T) {
	var others sync.WaitGroup
	end := make(chan struct{})
	for range 4 * runtime.GOMAXPROCS(0) { // to take threads while Do waits
		others.Go(func() {
			for {
				select {
				case <-end:
					return
				case <-time.After(10 * time.Microsecond):
				}
			}
		})
	}
	for range 300 {
		w := new(threads)
		if err := NewFile(-1, w).Do(func(w Writer) error {
			for range 3 {
				if _, err := w.Write([]byte("command"), nil); err != nil {
					return err
				}
				time.Sleep(20 * time.Microsecond)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if len(slices.Compact(w.ids)) != 1 {
			t.Fatalf("the threads are %v", w.ids)
		}
	}
	close(end)
	others.Wait()
}
