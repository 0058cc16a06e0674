package doctor

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A bend changes what programs see of files whose path matches: another file, an error, or a mode. With it a program
// on emulated devices runs on a host that lacks a file, or may not use it, whoever runs the test.
type bend struct {
	path  *regexp.Regexp
	to    string        // the other file; what follows the match is added
	errno syscall.Errno // of open
	mode  uint32        // of stat, with the file's type
}

// parseBends reads lines of "REGEXP FILE", "REGEXP =ERRNO MODE", separated by blanks.
func parseBends(text string) (list []bend, err error) {
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if len(w) < 2 {
			continue
		}
		b := bend{to: w[1]}
		if b.path, err = regexp.Compile(w[0]); err != nil {
			return nil, err
		}
		if name, ok := strings.CutPrefix(w[1], "="); ok {
			b.to = ""
			for e := syscall.Errno(1); e < 134; e++ {
				if unix.ErrnoName(e) == name {
					b.errno = e
				}
			}
		}
		if len(w) > 2 {
			mode, err := strconv.ParseUint(w[2], 8, 32)
			if err != nil {
				return nil, err
			}
			b.mode = uint32(mode)
		}
		list = append(list, b)
	}
	return list, nil
}

// paths has the system calls that take a path, and where they take it; -1: they have no directory.
var paths = map[uint64]struct{ dir, path int }{
	unix.SYS_OPEN: {-1, 0}, unix.SYS_STAT: {-1, 0}, unix.SYS_LSTAT: {-1, 0}, unix.SYS_ACCESS: {-1, 0},
	unix.SYS_READLINK: {-1, 0}, unix.SYS_OPENAT: {0, 1}, unix.SYS_NEWFSTATAT: {0, 1}, unix.SYS_READLINKAT: {0, 1},
	unix.SYS_FACCESSAT: {0, 1}, unix.SYS_FACCESSAT2: {0, 1}, unix.SYS_STATX: {0, 1},
}

// thread is a thread that is traced.
type thread struct {
	process int
	inside  bool // a system call
	undo    []byte
	at      uint64 // where undo belongs
	errno   syscall.Errno
	mode    uint32
	name    string // of what is opened
	dir     uint64
	args    [6]uint64
	number  uint64
}

// file is a descriptor of a process.
type file struct {
	process int
	fd      uint64
}

// bender runs a program with bends.
type bender struct {
	bends   []bend
	threads map[int]*thread
	opened  map[file]string // paths
}

// runBent runs a program and everything that it starts, in a folder in which the bends' files are, and returns its
// exit status.
func runBent(bends []bend, args []string) (int, error) {
	runtime.LockOSThread()
	c := exec.Command(args[0], args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := c.Start(); err != nil {
		return 0, err
	}
	var status unix.WaitStatus
	first := c.Process.Pid
	if _, err := unix.Wait4(first, &status, unix.WALL, nil); err != nil {
		return 0, err
	}
	if err := unix.PtraceSetOptions(first, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|
		unix.PTRACE_O_TRACEFORK|unix.PTRACE_O_TRACEVFORK|unix.PTRACE_O_EXITKILL|unix.PTRACE_O_TRACEEXEC); err != nil {
		return 0, err
	}
	b := &bender{bends: bends, threads: map[int]*thread{first: {process: first}}, opened: map[file]string{}}
	for pid, signal := first, 0; ; {
		// A thread that has gone meanwhile is reported by the next wait.
		_ = unix.PtraceSyscall(pid, signal)
		var err error
		for {
			if pid, err = unix.Wait4(-1, &status, unix.WALL, nil); err != unix.EINTR {
				break
			}
		}
		if err != nil {
			return 0, fmt.Errorf("wait: %w", err)
		}
		signal = 0
		t := b.threads[pid]
		if t == nil {
			t = &thread{process: processOf(pid)}
			b.threads[pid] = t
			if status.Stopped() && status.StopSignal() == unix.SIGSTOP {
				continue // a new one
			}
		}
		switch {
		case status.Exited() || status.Signaled():
			delete(b.threads, pid)
			if pid == first {
				if status.Signaled() {
					return 128 + int(status.Signal()), nil
				}
				return status.ExitStatus(), nil
			}
		case status.StopSignal() == unix.SIGTRAP|0x80:
			if t.inside = !t.inside; t.inside {
				b.enter(pid, t)
			} else {
				b.leave(pid, t)
			}
		case status.StopSignal() == unix.SIGTRAP && status.TrapCause() == unix.PTRACE_EVENT_EXEC:
			t.undo, t.name = nil, "" // of the program before
		case status.StopSignal() != unix.SIGTRAP:
			signal = int(status.StopSignal())
		}
	}
}

// processOf returns the process of a thread.
func processOf(thread int) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", thread))
	_, rest, _ := strings.Cut(string(b), "\nTgid:")
	line, _, _ := strings.Cut(rest, "\n")
	if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
		return pid
	}
	return thread
}

func memory(pid int) (*os.File, error) {
	return os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
}

// enter changes a system call.
func (b *bender) enter(pid int, t *thread) {
	var r unix.PtraceRegs
	*t = thread{process: t.process, inside: true}
	if unix.PtraceGetRegs(pid, &r) != nil {
		return
	}
	t.args, t.number = [6]uint64{r.Rdi, r.Rsi, r.Rdx, r.R10, r.R8, r.R9}, r.Orig_rax
	if r.Orig_rax == unix.SYS_CLOSE {
		delete(b.opened, file{t.process, r.Rdi})
	}
	at, ok := paths[r.Orig_rax]
	if !ok {
		return
	}
	mem, err := memory(pid)
	if err != nil {
		return
	}
	defer mem.Close()
	buf := make([]byte, unix.PathMax)
	n, _ := mem.ReadAt(buf, int64(t.args[at.path]))
	name, _, ok := strings.Cut(string(buf[:n]), "\x00")
	if !ok || name == "" {
		return
	}
	t.name = name
	if at.dir >= 0 {
		t.dir = t.args[at.dir]
		if dir, ok := b.opened[file{t.process, t.dir & (1<<32 - 1)}]; ok && name[0] != '/' {
			t.name = path.Join(dir, name)
		}
	}
	for _, f := range b.bends {
		where := f.path.FindStringIndex(t.name)
		if where == nil {
			continue
		}
		if t.mode = f.mode; f.to == "" {
			if r.Orig_rax == unix.SYS_OPEN || r.Orig_rax == unix.SYS_OPENAT {
				t.errno = f.errno
				r.Orig_rax = ^uint64(0)
				_ = unix.PtraceSetRegs(pid, &r)
			}
			return
		}
		other := []byte(f.to + t.name[where[1]:] + "\x00")
		if len(other) > len(name)+1 {
			fmt.Fprintf(os.Stderr, "bend: %q has no room for %q\n", name, other)
			return
		}
		t.undo, t.at = buf[:len(other)], t.args[at.path]
		if _, err := mem.WriteAt(other, int64(t.at)); err != nil {
			fmt.Fprintln(os.Stderr, "bend:", err)
		}
		if at.dir >= 0 {
			r.Rdi = unix.AT_FDCWD & (1<<64 - 1)
			_ = unix.PtraceSetRegs(pid, &r)
		}
		return
	}
}

// leave completes what enter began.
func (b *bender) leave(pid int, t *thread) {
	at, ok := paths[t.number]
	if !ok || t.name == "" {
		return
	}
	var r unix.PtraceRegs
	if unix.PtraceGetRegs(pid, &r) != nil {
		return
	}
	if t.errno != 0 {
		r.Rax = -uint64(t.errno)
		_ = unix.PtraceSetRegs(pid, &r)
		return
	}
	if t.undo != nil || t.mode != 0 && r.Rax == 0 {
		mem, err := memory(pid)
		if err != nil {
			return
		}
		defer mem.Close()
		if t.undo != nil {
			_, _ = mem.WriteAt(t.undo, int64(t.at))
			if at.dir >= 0 && r.Rdi != t.dir {
				r.Rdi = t.dir
				_ = unix.PtraceSetRegs(pid, &r)
			}
		}
		var mode [4]byte
		binary.LittleEndian.PutUint32(mode[:], t.mode)
		switch {
		case t.mode == 0 || r.Rax != 0:
		case t.number == unix.SYS_STATX:
			_, _ = mem.WriteAt(mode[:2], int64(t.args[4])+28)
		case t.number == unix.SYS_NEWFSTATAT:
			_, _ = mem.WriteAt(mode[:], int64(t.args[2])+24)
		case t.number == unix.SYS_STAT || t.number == unix.SYS_LSTAT:
			_, _ = mem.WriteAt(mode[:], int64(t.args[1])+24)
		}
	}
	if (t.number == unix.SYS_OPENAT || t.number == unix.SYS_OPEN) && int64(r.Rax) >= 0 {
		// A folder that is bent already is left alone.
		if fd := (file{t.process, r.Rax}); t.name[0] == '/' && t.undo == nil {
			b.opened[fd] = t.name
		} else {
			delete(b.opened, fd)
		}
	}
}
