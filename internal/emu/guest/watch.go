//go:build linux

package guest

import (
	"encoding/binary"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// watcher waits for the ends of files and pipes that programs hold: one epoll for pipes, one inotify for files, one goroutine for both.
type watcher struct {
	mu     sync.Mutex
	epoll  int
	notify int
	pipes  map[int32]*Pipe // by our descriptor
	files  map[int32]*File // by watch
}

var watching struct {
	once sync.Once
	w    *watcher
	err  error
}

func watch() (*watcher, error) {
	watching.once.Do(func() { watching.w, watching.err = newWatcher() })
	return watching.w, watching.err
}

func newWatcher() (*watcher, error) {
	w := &watcher{pipes: map[int32]*Pipe{}, files: map[int32]*File{}}
	var err error
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if w.notify, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	if err := unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, w.notify, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(w.notify)}); err != nil {
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	go w.run()
	return w, nil
}

func (w *watcher) run() {
	var events [64]unix.EpollEvent
	for {
		n, err := unix.EpollWait(w.epoll, events[:], -1)
		if err != nil && err != unix.EINTR {
			return
		}
		for _, e := range events[:max(n, 0)] {
			if e.Fd == int32(w.notify) {
				w.closed()
				continue
			}
			w.mu.Lock()
			p := w.pipes[e.Fd]
			w.mu.Unlock()
			if p == nil {
				continue
			}
			if e.Events&unix.EPOLLERR != 0 {
				p.gone()
			} else if e.Events&unix.EPOLLOUT != 0 {
				p.drain()
			}
		}
	}
}

// closed reads what inotify has: each event is one open file description that the programs have let go.
func (w *watcher) closed() {
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(w.notify, buf)
		if err != nil || n <= 0 {
			return
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			wd := int32(binary.NativeEndian.Uint32(b))
			mask := binary.NativeEndian.Uint32(b[4:])
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
			if size > len(b) {
				break
			}
			b = b[size:]
			if mask&(unix.IN_CLOSE_WRITE|unix.IN_CLOSE_NOWRITE) == 0 {
				continue
			}
			w.mu.Lock()
			f := w.files[wd]
			w.mu.Unlock()
			if f != nil {
				f.released()
			}
		}
	}
}

// File is memory that programs open like a device and map. Each open is an open file description of its own; when the last is gone with all its duplicates
// and mappings, the release function is called.
type File struct {
	name string
	f    *os.File
	wd   int32

	mu      sync.Mutex
	opens   int
	release func()
	done    bool
}

// NewFile makes a file of size bytes, all holes.
func NewFile(name string, size int64) (*File, error) {
	w, err := watch()
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := &File{name: name, f: os.NewFile(uintptr(fd), name)}
	if err := f.f.Truncate(size); err != nil {
		f.f.Close()
		return nil, err
	}
	wd, err := unix.InotifyAddWatch(w.notify, "/proc/self/fd/"+strconv.Itoa(fd), unix.IN_CLOSE)
	if err != nil {
		f.f.Close()
		return nil, os.NewSyscallError("inotify_add_watch", err)
	}
	f.wd = int32(wd)
	w.mu.Lock()
	w.files[f.wd] = f
	w.mu.Unlock()
	return f, nil
}

// Name is what FDName says of the program's descriptor.
func (f *File) Name() string { return "/memfd:" + f.name + " (deleted)" }

// Open makes an open file description to hand out. The caller closes its descriptor after it was installed.
func (f *File) Open() (*os.File, error) {
	g, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(int(f.f.Fd())), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.opens++
	f.mu.Unlock()
	return g, nil
}

// OnRelease says what to call, once, when nobody has the file any more.
func (f *File) OnRelease(do func()) {
	f.mu.Lock()
	f.release = do
	f.mu.Unlock()
}

func (f *File) released() {
	f.mu.Lock()
	f.opens--
	do := f.release
	if f.opens > 0 || f.done {
		do = nil
	} else {
		f.done = true
	}
	f.mu.Unlock()
	if do != nil {
		do()
	}
}

// Map maps n bytes at off, shared with the programs. Unmap with unix.Munmap.
func (f *File) Map(off int64, n int) ([]byte, error) {
	return unix.Mmap(int(f.f.Fd()), off, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// Close forgets the file. Programs that still have it keep their memory.
func (f *File) Close() error {
	w, err := watch()
	if err != nil {
		return err
	}
	w.mu.Lock()
	delete(w.files, f.wd)
	w.mu.Unlock()
	_, _ = unix.InotifyRmWatch(w.notify, uint32(f.wd))
	return f.f.Close()
}
