//go:build linux

package guest

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// File is memory that programs open like a device and map. Each open is an open file description of its own; when the
// last is gone with all its duplicates and mappings, the release function is called.
type File struct {
	name string
	f    *os.File // the only description that is ours
	wd   int32

	mu      sync.Mutex
	release func()
	done    bool
}

// NewFile makes a file of size bytes, all holes. Programs cannot resize it: we have it mapped.
func NewFile(name string, size int64) (*File, error) {
	w, err := watch()
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := &File{name: name}
	if err = unix.Ftruncate(fd, size); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err == nil {
		// What memfd_create opened does not count as an open of the file; what is opened by name does.
		f.f, err = reopen(fd)
	}
	unix.Close(fd)
	if err != nil {
		return nil, fmt.Errorf("make a file of %d bytes: %w", size, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	wd, err := unix.InotifyAddWatch(w.notify, fdPath(int(f.f.Fd())), unix.IN_CLOSE)
	if err != nil {
		f.f.Close()
		return nil, os.NewSyscallError("inotify_add_watch", err)
	}
	f.wd = int32(wd)
	w.files[f.wd] = f
	return f, nil
}

func fdPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func reopen(fd int) (*os.File, error) { return os.OpenFile(fdPath(fd), os.O_RDWR, 0) }

// Name returns what FDName returns for the program's descriptor.
func (f *File) Name() string { return "/memfd:" + f.name + " (deleted)" }

// Open makes an open file description to hand out. The caller closes its descriptor after it was installed. What is
// written to it would be appended, which fails: memory is changed through mappings alone.
func (f *File) Open() (*os.File, error) {
	f.mu.Lock() // the file may be closed meanwhile
	defer f.mu.Unlock()
	return os.OpenFile(fdPath(int(f.f.Fd())), os.O_RDWR|os.O_APPEND, 0)
}

// OnRelease sets what is called, once, when nobody who had the file has it any longer.
func (f *File) OnRelease(do func()) {
	f.mu.Lock()
	f.release = do
	f.mu.Unlock()
}

// closed is called when a description has ended. Notifications do not tell how many, nor does a program that opens
// /proc/self/fd: the kernel is asked. It may be about to remove the one that it has told of, so it is asked a few
// times.
func (f *File) closed(try int) {
	f.mu.Lock()
	do := f.release
	switch {
	case f.done:
		do = nil
	case f.alone():
		f.done = true
	default:
		do = nil
		if try < 10 {
			time.AfterFunc(time.Millisecond<<try, func() { f.closed(try + 1) })
		}
	}
	f.mu.Unlock()
	if do != nil {
		do()
	}
}

// alone reports whether no description but ours is open: only then the kernel grants a write lease. Preconditions: f.mu
// is held.
func (f *File) alone() bool {
	if _, err := unix.FcntlInt(f.f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return false
	}
	_, _ = unix.FcntlInt(f.f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	return true
}

// Map maps n bytes at off, shared with the programs. Unmap with unix.Munmap.
func (f *File) Map(off int64, n int) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return unix.Mmap(int(f.f.Fd()), off, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// Close forgets the file: its release function is no longer called. Programs that still have it keep their memory.
func (f *File) Close() error {
	w, err := watch()
	if err != nil {
		return err
	}
	w.mu.Lock()
	delete(w.files, f.wd)
	w.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wd < 0 {
		return nil
	}
	f.done = true
	_, _ = unix.InotifyRmWatch(w.notify, uint32(f.wd))
	f.wd = -1
	return f.f.Close()
}
