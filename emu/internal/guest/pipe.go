//go:build linux

package guest

import (
	"errors"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Pipe is an event file: the program has the end that is read, with read, poll and epoll as it likes, and we have the
// other.
type Pipe struct {
	name   string
	fd     int   // to write, non-blocking
	serial int32 // the watcher's
	mu     sync.Mutex
	queue  []byte // what does not fit
	armed  bool   // EPOLLOUT is asked for
	dead   bool
	close  func()
}

// NewPipe makes a pipe of bytes, whose reading end does not block if nonblock is set. The caller closes readEnd after
// it was installed in the program.
func NewPipe(nonblock bool) (p *Pipe, readEnd *os.File, err error) { return newPipe(0, nonblock) }

// NewPackets makes a pipe of packets: each read gets one.
func NewPackets(nonblock bool) (p *Pipe, readEnd *os.File, err error) {
	return newPipe(unix.O_DIRECT, nonblock)
}

// MaxPacket is the longest packet, PIPE_BUF.
const MaxPacket = 4096

// Packet writes a packet, and reports whether there was room for it.
func (p *Pipe) Packet(b []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return false
	}
	n, err := unix.Write(p.fd, b)
	return err == nil && n == len(b)
}

func newPipe(flags int, nonblock bool) (p *Pipe, readEnd *os.File, err error) {
	w, err := watch()
	if err != nil {
		return nil, nil, err
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|flags); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	readEnd = os.NewFile(uintptr(fds[0]), "pipe")
	var st unix.Stat_t
	if err = unix.Fstat(fds[1], &st); err == nil {
		err = errors.Join(unix.SetNonblock(fds[1], true), unix.SetNonblock(fds[0], nonblock))
	}
	p = &Pipe{name: "pipe:[" + strconv.FormatUint(st.Ino, 10) + "]", fd: fds[1]}
	if err == nil {
		w.mu.Lock()
		w.serial++
		p.serial = w.serial
		w.pipes[int32(p.fd)] = p
		w.mu.Unlock()
		// EPOLLERR comes unasked
		err = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, p.fd, &unix.EpollEvent{Fd: int32(p.fd), Pad: p.serial})
	}
	if err != nil {
		readEnd.Close()
		p.Close()
		return nil, nil, os.NewSyscallError("pipe", err)
	}
	return p, readEnd, nil
}

// Name returns what FDName returns for the program's descriptor.
func (p *Pipe) Name() string { return p.name }

// OnClose sets what is called, once, when the program has closed its end.
func (p *Pipe) OnClose(do func()) {
	p.mu.Lock()
	p.close = do
	p.mu.Unlock()
}

// Put writes rec, whole and in order with others. It never waits: what does not fit is kept.
func (p *Pipe) Put(rec []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return ErrGone
	}
	if len(p.queue) == 0 {
		n, err := unix.Write(p.fd, rec)
		switch {
		case err == nil && n == len(rec):
			return nil
		case err == unix.EPIPE:
			return ErrGone
		case err == nil:
			rec = rec[n:]
		case err != unix.EAGAIN && err != unix.EINTR:
			return os.NewSyscallError("write", err)
		}
	}
	p.queue = append(p.queue, rec...)
	p.arm(true)
	return nil
}

// Preconditions: p.mu is held.
func (p *Pipe) arm(on bool) {
	if p.armed == on {
		return
	}
	p.armed = on
	e := unix.EpollEvent{Fd: int32(p.fd), Pad: p.serial}
	if on {
		e.Events = unix.EPOLLOUT
	}
	if w, err := watch(); err == nil {
		_ = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_MOD, p.fd, &e)
	}
}

func (p *Pipe) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flush()
}

// flush writes what is kept, as far as there is room for it. Preconditions: p.mu is held.
func (p *Pipe) flush() {
	for len(p.queue) > 0 && !p.dead {
		n, err := unix.Write(p.fd, p.queue[:min(len(p.queue), 4096)])
		if err != nil || n <= 0 {
			p.arm(true)
			return
		}
		p.queue = p.queue[n:]
	}
	p.queue = nil
	if !p.dead {
		p.arm(false)
	}
}

func (p *Pipe) gone() {
	p.mu.Lock()
	do := p.close
	p.close = nil
	p.mu.Unlock()
	p.Close()
	if do != nil {
		do()
	}
}

// Take removes up to n bytes that the program has not read, and returns how many.
func (p *Pipe) Take(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.take(n))
}

// take reads what is there, up to n bytes, through a description of our own: the program's must not become
// non-blocking, and a program that reads at the same moment must not leave us waiting. Preconditions: p.mu is held.
func (p *Pipe) take(n int) []byte {
	if p.dead {
		return nil
	}
	fd, err := unix.Open(fdPath(p.fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var got []byte
	buf := make([]byte, min(n, 64<<10))
	for len(got) < n {
		k, err := unix.Read(fd, buf[:min(len(buf), n-len(got))])
		if err != nil || k <= 0 {
			break
		}
		got = append(got, buf[:k]...)
	}
	return got
}

// Drop takes back the undelivered records, of size bytes each, that match, and returns how many.
func (p *Pipe) Drop(match func(rec []byte) bool, size int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.take(1 << 20)
	all = append(all, p.queue...)
	dropped := 0
	keep := all[:0]
	for len(all) >= size {
		rec := all[:size]
		all = all[size:]
		if match(rec) {
			dropped++
		} else {
			keep = append(keep, rec...)
		}
	}
	p.queue = keep
	p.flush()
	return dropped
}

// Close closes our end; the program reads what is in the pipe and then its end.
func (p *Pipe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return nil
	}
	p.dead = true
	if w, err := watch(); err == nil {
		w.mu.Lock()
		delete(w.pipes, int32(p.fd))
		w.mu.Unlock()
	}
	return unix.Close(p.fd) // closing it removes it from the epoll
}
