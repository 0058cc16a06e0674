//go:build linux

package guest

import (
	"os"
	"strconv"
	"sync"
)

// Credentials knows which threads share their credentials, as the kernel compares them: by the address of a struct
// cred. Threads share one from the start of a program. A call that changes a thread's credentials gives it another one,
// even if both say the same.
//
// Nobody tells which thread has begun another one, and with it shares credentials. So a thread that began after a
// change in its process, and made none itself, counts as having credentials of its own.
type Credentials struct {
	mu    sync.Mutex
	epoch uint64           // counts changes
	procs map[int]*changed // those with a change, by process
}

// changed is a process in which a thread has changed its credentials.
type changed struct {
	image  image
	first  map[int]bool   // threads that have those of the program's start
	change map[int]uint64 // the last change of those that have made one
}

// Cred is the credentials of a thread. It is not to be copied.
type Cred struct {
	who  who
	seen map[int]uint64 // threads that had them, and when
}

// who identifies credentials.
type who struct {
	pid    int
	image  image
	change uint64 // 0: those of the start
	thread int    // 0, or the only thread that is known to have them
}

// image identifies a program's start in a process, as far as /proc shows it: when the process began, and where the
// program lies. All threads but one end at the start of a program.
type image [4]uint64

func imageOf(pid int) (m image) {
	const started, code, stack, args = 19, 23, 25, 45 // after the name
	f := Stat(pid)
	for i, n := range []int{started, code, stack, args} {
		if n < len(f) {
			m[i], _ = strconv.ParseUint(string(f[n]), 10, 64)
		}
	}
	return m
}

// Change notes that a thread changes its credentials.
func (c *Credentials) Change(tid int) {
	pid, err := TGID(tid)
	if err != nil {
		return
	}
	m := imageOf(pid)
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.of(pid, m)
	if p == nil {
		p = &changed{image: m, first: map[int]bool{}, change: map[int]uint64{}}
		tasks, _ := os.ReadDir(procPath(pid, "task"))
		for _, t := range tasks {
			if n, err := strconv.Atoi(t.Name()); err == nil {
				p.first[n] = true
			}
		}
		if c.procs == nil {
			c.procs = map[int]*changed{}
		}
		c.procs[pid] = p
	}
	c.epoch++
	p.change[tid] = c.epoch
	delete(p.first, tid)
}

// of returns the changes of a process, nil if there are none since its program started.
// Preconditions: c.mu is held.
func (c *Credentials) of(pid int, m image) *changed {
	p := c.procs[pid]
	if p != nil && p.image != m {
		delete(c.procs, pid)
		return nil
	}
	return p
}

// Of returns the credentials of a thread.
func (c *Credentials) Of(tid int) *Cred {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &Cred{who: c.who(tid), seen: map[int]uint64{}}
}

// who returns whose credentials a thread has.
// Preconditions: c.mu is held.
func (c *Credentials) who(tid int) who {
	pid, err := TGID(tid)
	if err != nil {
		return who{thread: tid}
	}
	w := who{pid: pid, image: imageOf(pid)}
	if p := c.of(pid, w.image); p != nil && !p.first[tid] {
		if w.change = p.change[tid]; w.change == 0 {
			w.thread = tid
		}
	}
	return w
}

// Has reports whether a thread has credentials o.
func (c *Credentials) Has(tid int, o *Cred) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, known := o.seen[tid]; known && at == c.epoch {
		return true
	}
	if c.who(tid) != o.who {
		return false
	}
	o.seen[tid] = c.epoch
	return true
}

// Exits is called when a process ends by itself.
func (c *Credentials) Exits(pid int) {
	c.mu.Lock()
	delete(c.procs, pid)
	c.mu.Unlock()
}
