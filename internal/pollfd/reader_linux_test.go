package pollfd

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/life"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// pipe is a pipe, and a reader of its end.
func pipe(t *testing.T) (r *Reader, fd int, w *os.File) {
	t.Helper()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(p[0]) })
	w = os.NewFile(uintptr(p[1]), "pipe")
	t.Cleanup(func() { _ = w.Close() })
	r, err := NewReader(p[0], "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r, p[0], w
}

// readByte is what a C library does: EAGAIN when there is nothing.
func readByte(fd int, b *byte) error {
	var buf [1]byte
	_, err := unix.Read(fd, buf[:])
	*b = buf[0]
	return err
}

func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Patience)
	t.Cleanup(cancel)
	return ctx
}

func TestReader(t *testing.T) {
	t.Run("NewReader", func(t *testing.T) { testReader(t, pipe) })
	t.Run("Later", func(t *testing.T) {
		testReader(t, func(t *testing.T) (*Reader, int, *os.File) {
			_, fd, w := pipe(t)
			r := Later(fd, "test")
			t.Cleanup(r.Close)
			return r, fd, w
		})
	})
}

// TestLater_Bad reports what is wrong with a descriptor when it is read, again and again, and closes.
func TestLater_Bad(t *testing.T) {
	r := Later(1<<20, "test")
	for range 2 {
		err := r.Read(t.Context(), func() error { t.Error("it reads"); return nil })
		if !errors.Is(err, syscall.EBADF) {
			t.Errorf("%v, want EBADF", err)
		}
	}
	r.Close()
	r.Close()
	if err := r.Read(t.Context(), nil); err != life.ErrClosed {
		t.Errorf("%v after Close", err)
	}
}

// TestNew_NoDescriptors lacks descriptors: for the duplicate, or for the runtime's poller, which would end the process.
// What fails leaves nothing open, and the file as it was.
func TestNew_NoDescriptors(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() // at the end, not by the garbage collector in between
	defer w.Close()
	fd := int(w.Fd()) // which makes it blocking
	lowest := func(n int) (free []int) {
		for range n {
			f, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(f)
			free = append(free, f)
		}
		return free
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	for spare := range 4 {
		polled.Store(false)
		free := lowest(spare + 1)
		few := &unix.Rlimit{Cur: uint64(free[spare]), Max: limit.Max}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, few); err != nil {
			t.Fatal(err)
		}
		p, err := New(fd, "test")
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		if enough := spare == 3; enough != (err == nil) || !enough && !errors.Is(err, unix.EMFILE) {
			t.Errorf("with %d descriptors: %v", spare, err)
		}
		if p != nil {
			p.Close()
		} else if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
			t.Errorf("with %d descriptors the flags are %#x, %v", spare, flags, err)
		}
		if now := lowest(1); now[0] != free[0] {
			t.Errorf("with %d descriptors %d stays open", spare, free[0])
		}
	}
}

// TestOwn_Bad reports a number that is no descriptor.
func TestOwn_Bad(t *testing.T) {
	if _, err := Own(1<<20, "test"); !errors.Is(err, syscall.EBADF) {
		t.Errorf("%v, want EBADF", err)
	}
}

func testReader(t *testing.T, pipe func(t *testing.T) (*Reader, int, *os.File)) {
	r, fd, w := pipe(t)
	failure := errors.New("failure")
	tests := []struct {
		name string
		run  func(ctx context.Context, cancel func()) error
		want error
	}{
		{"what is there", func(ctx context.Context, _ func()) error {
			_, _ = w.Write([]byte{7})
			var b byte
			err := r.Read(ctx, func() error { return readByte(fd, &b) })
			if b != 7 {
				t.Errorf("read %d", b)
			}
			return err
		}, nil},
		{"what comes", func(ctx context.Context, _ func()) error {
			var b byte
			tries := 0
			err := r.Read(ctx, func() error {
				if tries++; tries == 1 {
					go func() { _, _ = w.Write([]byte{8}) }()
					return syscall.EAGAIN
				}
				return readByte(fd, &b)
			})
			if b != 8 {
				t.Errorf("read %d", b)
			}
			return err
		}, nil},
		{"a failure", func(ctx context.Context, _ func()) error {
			return r.Read(ctx, func() error { return failure })
		}, failure},
		{"an interrupted call", func(ctx context.Context, _ func()) error {
			_, _ = w.Write([]byte{9})
			var b byte
			tries := 0
			return r.Read(ctx, func() error {
				if tries++; tries == 1 {
					return syscall.EINTR
				}
				return readByte(fd, &b)
			})
		}, nil},
		{"a context that ends", func(ctx context.Context, cancel func()) error {
			return r.Read(ctx, func() error { cancel(); return syscall.EAGAIN })
		}, context.Canceled},
		{"a context that has ended, and something there", func(ctx context.Context, cancel func()) error {
			return r.Read(ctx, func() error { cancel(); return nil })
		}, nil},
		{"the next, with another context", func(ctx context.Context, _ func()) error {
			var b byte
			_, _ = w.Write([]byte{12})
			return r.Read(ctx, func() error { return readByte(fd, &b) })
		}, nil},
		{"close while it waits", func(ctx context.Context, _ func()) error {
			return r.Read(ctx, func() error { go r.Close(); return syscall.EAGAIN })
		}, life.ErrClosed},
		{"after close", func(ctx context.Context, _ func()) error {
			return r.Read(ctx, func() error { t.Error("in C after Close"); return nil })
		}, life.ErrClosed},
	}
	for _, tt := range tests {
		ctx, cancel := context.WithCancel(patient(t))
		if err := tt.run(ctx, cancel); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		cancel()
	}
}

// TestReader_Many has many wait, some of whom give up: each byte is read once, and nobody is in C beside another, or
// after Close.
func TestReader_Many(t *testing.T) {
	r, fd, w := pipe(t)
	const n = 500
	var (
		wg          sync.WaitGroup
		read, stray atomic.Int32
		inC         atomic.Int32
		closed      atomic.Bool
	)
	all := make(chan struct{})
	for range 8 {
		wg.Go(func() {
			for {
				ctx, cancel := context.WithTimeout(patient(t), time.Duration(1+read.Load()%3)*100*time.Microsecond)
				var b byte
				err := r.Read(ctx, func() error {
					if inC.Add(1) != 1 || closed.Load() {
						stray.Add(1)
					}
					defer inC.Add(-1)
					return readByte(fd, &b)
				})
				cancel()
				switch {
				case err == nil:
					if read.Add(1) == n {
						close(all)
					}
				case errors.Is(err, life.ErrClosed):
					return
				case !errors.Is(err, context.DeadlineExceeded):
					t.Errorf("read: %v", err)
					return
				}
			}
		})
	}
	for i := range n {
		if _, err := w.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		if i%16 == 0 {
			time.Sleep(100 * time.Microsecond) // let them fall asleep
		}
	}
	select {
	case <-all:
	case <-time.After(testutil.Patience):
		t.Errorf("read %d bytes of %d", read.Load(), n)
	}
	r.Close()
	closed.Store(true)
	wg.Wait()
	if stray.Load() != 0 || read.Load() != n {
		t.Errorf("%d calls beside another or after Close, %d bytes read of %d", stray.Load(), read.Load(), n)
	}
}

// TestReadEvent reads numbers; what is shorter is what a removed device leaves.
func TestReadEvent(t *testing.T) {
	_, fd, w := pipe(t)
	var buf [8]byte
	if n, err := ReadEvent(uintptr(fd), &buf); n != 0 || err != syscall.EAGAIN {
		t.Errorf("of nothing: %d, %v", n, err)
	}
	_, _ = w.Write(binary.NativeEndian.AppendUint64(nil, 1<<40|7))
	if n, err := ReadEvent(uintptr(fd), &buf); n != 1<<40|7 || err != nil {
		t.Errorf("%#x, %v", n, err)
	}
	_, _ = w.Write([]byte{1, 2, 3})
	if n, err := ReadEvent(uintptr(fd), &buf); n != 0 || err != syscall.EIO {
		t.Errorf("of 3 bytes: %d, %v", n, err)
	}
}
