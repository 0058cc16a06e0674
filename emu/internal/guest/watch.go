//go:build linux

package guest

import (
	"encoding/binary"
	"maps"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// watcher waits for the ends of files and pipes that programs hold: one epoll for pipes, one inotify for files, one
// goroutine for both.
type watcher struct {
	mu     sync.Mutex
	epoll  int
	notify int
	pipes  map[int32]*Pipe // by our descriptor
	files  map[int32]*File // by watch
	serial int32           // the last pipe's
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
	if err := unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, w.notify,
		&unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(w.notify)}); err != nil {
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
			if p == nil || p.serial != e.Pad { // closed meanwhile, and its number perhaps another's
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

// closed reads what inotify has: events say that programs have let go of a file, at least once since the last.
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
			w.mu.Lock()
			var ended []*File
			if f := w.files[wd]; f != nil && mask&unix.IN_CLOSE != 0 {
				ended = append(ended, f)
			} else if mask&unix.IN_Q_OVERFLOW != 0 { // it may have been any
				ended = slices.Collect(maps.Values(w.files))
			}
			w.mu.Unlock()
			for _, f := range ended {
				f.closed(0)
			}
		}
	}
}
