//go:build linux

package guest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/await"
)

func TestMem(t *testing.T) {
	m := Mem{os.Getpid()}
	src := []byte("the quick brown fox")
	dst := make([]byte, len(src))
	if err := m.Read(addr(src), dst); err != nil || !bytes.Equal(dst, src) {
		t.Fatalf("read %q, %v", dst, err)
	}
	if err := m.ReadV(dst[:9], []IOV{{addr(src) + 10, 5}, {addr(src), 4}}); err != nil ||
		string(dst[:9]) != "brownthe " {
		t.Errorf("gathered %q, %v", dst[:9], err)
	}
	if err := m.WriteV([]byte("XYZ"), []IOV{{addr(dst), 1}, {addr(dst) + 2, 2}}); err != nil ||
		string(dst[:5]) != "XrYZn" {
		t.Errorf("scattered %q, %v", dst[:5], err)
	}
	if err := m.Read(8, dst); err != ErrFault {
		t.Errorf("reading address 8: %v", err)
	}
	if err := m.ReadV(dst[:4], []IOV{{addr(src), 2}, {8, 2}}); err != ErrFault {
		t.Errorf("a fault in the middle: %v", err)
	}
	if s, err := m.CString(addr([]byte("abc\x00def")), 10); err != nil || s != "abc" {
		t.Errorf("string %q, %v", s, err)
	}
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if err := (Mem{cmd.Process.Pid}).Read(addr(src), dst); err != ErrGone {
		t.Errorf("reading a process that ended: %v", err)
	}
}

func TestMemAllocs(t *testing.T) {
	m := Mem{os.Getpid()}
	buf, iov := make([]byte, 64), make([]IOV, 2)
	src := make([]byte, 64)
	iov[0], iov[1] = IOV{addr(src), 32}, IOV{addr(src) + 32, 32}
	if n := testing.AllocsPerRun(100, func() {
		_ = m.Read(addr(src), buf)
		_ = m.ReadV(buf, iov)
		_ = m.WriteV(buf, iov)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestProc(t *testing.T) {
	pid := os.Getpid()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	fd := int(r.Fd())
	for _, nonblock := range []bool{true, false} {
		if err := unix.SetNonblock(fd, nonblock); err != nil {
			t.Fatal(err)
		}
		if fl, err := FDFlags(pid, fd); err != nil || (fl&unix.O_NONBLOCK != 0) != nonblock || fl&unix.O_CLOEXEC == 0 {
			t.Errorf("flags %#o, %v", fl, err)
		}
	}
	for _, bad := range []int{-1, 1 << 20} {
		if s := FDName(pid, bad); s != "" {
			t.Errorf("descriptor %d is %q", bad, s)
		}
		if _, err := FDFlags(pid, bad); err != unix.EBADF {
			t.Errorf("descriptor %d: %v", bad, err)
		}
	}
	if s, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); s != FDName(pid, fd) {
		t.Errorf("descriptor is %q, want %q", FDName(pid, fd), s)
	}
	tids, err := os.ReadDir("/proc/self/task")
	if err != nil || len(tids) < 2 {
		t.Fatal(len(tids), err)
	}
	for _, e := range tids {
		tid, _ := strconv.Atoi(e.Name())
		if got, err := TGID(tid); got != pid || err != nil {
			t.Errorf("thread %d is of process %d, %v; want %d", tid, got, err, pid)
		}
		if err := (Mem{tid}).Read(addr([]byte{1}), make([]byte, 1)); err != nil {
			t.Errorf("memory of thread %d: %v", tid, err)
		}
	}
	if _, err := TGID(1 << 30); err != ErrGone {
		t.Errorf("no thread: %v", err)
	}
}

func TestMapped(t *testing.T) {
	p, err := unix.Mmap(-1, 0, 3*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	m := Mem{os.Getpid()}
	if !m.Mapped(addr(p), uint64(len(p)), true) {
		t.Error("a mapping is not seen")
	}
	if err := unix.Mprotect(p[4096:8192], unix.PROT_READ); err != nil {
		t.Fatal(err)
	}
	if m.Mapped(addr(p), uint64(len(p)), true) || !m.Mapped(addr(p), uint64(len(p)), false) {
		t.Error("a read-only page in the middle is not seen")
	}
	a := addr(p)
	if err := unix.Munmap(p); err != nil {
		t.Fatal(err)
	}
	if m.Mapped(a, 4096, false) {
		t.Error("an unmapped page counts as mapped")
	}
}

// TestMappedFile: get_user_pages of Linux fails with EFAULT beyond the end of a file.
func TestMappedFile(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(4097); err != nil {
		t.Fatal(err)
	}
	p, err := unix.Mmap(int(f.Fd()), 0, 4*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(p) }()
	m := Mem{os.Getpid()}
	if a := addr(p); !m.Mapped(a, 2*4096, true) || m.Mapped(a, 2*4096+1, true) || m.Mapped(a, 4*4096, false) {
		t.Error("the end of the file is not seen")
	}
}

func wait(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(await.Limit):
		t.Fatal(what)
	}
}

func TestFileRelease(t *testing.T) {
	f, err := NewFile("guest-test", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	released := make(chan struct{})
	f.OnRelease(func() { close(released) })
	g, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	if name := FDName(os.Getpid(), int(g.Fd())); name != f.Name() {
		t.Errorf("the name is %q, want %q", name, f.Name())
	}
	m, err := unix.Mmap(int(g.Fd()), 4096, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	own, err := f.Map(4096, 4096)
	if err != nil {
		t.Fatal(err)
	}
	m[7] = 42
	if own[7] != 42 {
		t.Error("the mappings are not shared")
	}
	d, err := unix.Dup(int(g.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	g.Close()
	unix.Close(d)
	select {
	case <-released:
		t.Fatal("released while it is mapped")
	case <-time.After(50 * time.Millisecond):
	}
	if err := unix.Munmap(m); err != nil {
		t.Fatal(err)
	}
	wait(t, released, "not released")
	_ = unix.Munmap(own)
}

// Notifications are merged, and a program may open the file itself.
func TestFileOpens(t *testing.T) {
	f, err := NewFile("guest-opens", 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var calls atomic.Int32
	released := make(chan struct{})
	f.OnRelease(func() { calls.Add(1); close(released) })
	var files []*os.File
	for i := range 20 {
		open := f.Open
		if i%3 == 2 {
			open = func() (*os.File, error) {
				return os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", files[0].Fd()), []int{os.O_RDONLY, os.O_RDWR}[i%2],
					0)
			}
		}
		g, err := open()
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, g)
	}
	if err := files[0].Truncate(0); !errors.Is(err, unix.EPERM) {
		t.Errorf("truncating: %v", err)
	}
	for _, g := range files[2:] {
		g.Close()
	}
	time.Sleep(20 * time.Millisecond)
	files[0].Close()
	time.Sleep(20 * time.Millisecond)
	if calls.Load() != 0 {
		t.Fatal("released while it is open")
	}
	files[1].Close()
	wait(t, released, "not released")
	time.Sleep(20 * time.Millisecond)
	if n := calls.Load(); n != 1 {
		t.Errorf("released %d times", n)
	}
}

func TestPipe(t *testing.T) {
	p, r, err := NewPipe(false)
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	p.OnClose(func() { close(closed) })
	if name := FDName(os.Getpid(), int(r.Fd())); name != p.Name() {
		t.Errorf("the name is %q, want %q", name, p.Name())
	}
	// More than a pipe takes: nothing may be lost or reordered.
	const n = 20000
	rec := func(i int) []byte { return []byte{byte(i), byte(i >> 8), byte(i >> 16), 0, 0, 0, 0, byte(i % 3)} }
	for i := range n {
		if err := p.Put(rec(i)); err != nil {
			t.Fatal(err)
		}
	}
	got := p.Drop(func(r []byte) bool { return r[7] == 1 }, 8)
	if want := n / 3; got != want && got != want+1 {
		t.Errorf("%d records dropped, want a third of %d", got, n)
	}
	if k := p.Take(8); k != 8 {
		t.Errorf("took %d bytes", k)
	}
	buf := make([]byte, 8)
	for i := 1; i < n; i++ {
		if i%3 == 1 {
			continue
		}
		if _, err := r.Read(buf); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(buf, rec(i)) {
			t.Fatalf("record %v, want %d", buf, i)
		}
	}
	r.Close()
	wait(t, closed, "the close is not noticed")
	if err := p.Put(buf); err != ErrGone {
		t.Errorf("put after the close: %v", err)
	}
}

func BenchmarkRead64(b *testing.B) {
	m := Mem{os.Getpid()}
	src, dst := make([]byte, 64), make([]byte, 64)
	for b.Loop() {
		_ = m.Read(addr(src), dst)
	}
}

func BenchmarkRead64K(b *testing.B) {
	m := Mem{os.Getpid()}
	src, dst := make([]byte, 65536), make([]byte, 65536)
	b.SetBytes(65536)
	for b.Loop() {
		_ = m.Read(addr(src), dst)
	}
}

func BenchmarkProc(b *testing.B) {
	pid := os.Getpid()
	f, err := NewFile("guest-bench", 1<<16)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	fd := int(f.f.Fd())
	m := Mem{pid}
	buf := make([]byte, 64)
	b.Run("name", func(b *testing.B) {
		for b.Loop() {
			_ = FDName(pid, fd)
		}
	})
	b.Run("flags", func(b *testing.B) {
		for b.Loop() {
			_, _ = FDFlags(pid, fd)
		}
	})
	b.Run("tgid", func(b *testing.B) {
		for b.Loop() {
			_, _ = TGID(pid)
		}
	})
	b.Run("mapped", func(b *testing.B) {
		for b.Loop() {
			_ = m.Mapped(addr(buf), 64, true)
		}
	})
}

// TestPackets reads packet by packet, and is told when there is no room.
func TestPackets(t *testing.T) {
	p, r, err := NewPackets(false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	defer r.Close()
	for i := 1; i <= 3; i++ {
		if !p.Packet(make([]byte, i)) {
			t.Fatal("no room")
		}
	}
	buf := make([]byte, 512)
	for i := 1; i <= 3; i++ {
		if n, err := r.Read(buf); n != i || err != nil {
			t.Errorf("%d bytes, %v; want %d", n, err, i)
		}
	}
	for i := 0; p.Packet(buf); i++ {
		if i > 1<<16 {
			t.Fatal("there is always room")
		}
	}
}
