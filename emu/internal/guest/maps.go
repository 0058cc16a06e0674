//go:build linux

package guest

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// tables is the file /proc/PID/maps that was used last. It leads to the memory that the process had then, and fails
// once that is gone.
var tables struct {
	sync.Mutex
	pid int
	fd  int // -1: none is open
}

func init() { tables.fd = -1 }

// Maps returns the mappings that cover part of [addr, addr+n), in order.
func (m Mem) Maps(addr, n uint64) ([]Map, error) {
	t := &tables
	t.Lock()
	defer t.Unlock()
	if t.fd >= 0 && t.pid == m.PID {
		if out, err := queryMaps(t.fd, addr, n); err == nil {
			return out, nil
		}
	}
	if t.fd >= 0 {
		unix.Close(t.fd)
	}
	var err error
	if t.fd, err = unix.Open(procPath(m.PID, "maps"), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		t.fd = -1
		return nil, ErrGone
	}
	t.pid = m.PID
	out, err := queryMaps(t.fd, addr, n)
	switch err {
	case nil:
		return out, nil
	case unix.ENOTTY: // before Linux 6.11
		return textMaps(t.fd, addr, n)
	}
	return nil, ErrGone
}

// queryMaps asks the kernel for one mapping after the other.
func queryMaps(fd int, addr, n uint64) (out []Map, err error) {
	for at := addr; at < addr+n; {
		e, err := nextMap(fd, at)
		switch {
		case err == unix.ENOENT:
			return out, nil
		case err != nil:
			return nil, err
		case e.Start >= addr+n:
			return out, nil
		}
		out, at = append(out, e), e.End
	}
	return out, nil
}

// textMaps is Maps from the text of the file, which lists all mappings of the process.
func textMaps(fd int, addr, n uint64) ([]Map, error) {
	var out []Map
	s := bufio.NewScanner(reader(fd))
	s.Buffer(make([]byte, 0, 16<<10), 1<<20)
	for s.Scan() {
		e, ok := parseMap(s.Bytes())
		if !ok || e.End <= addr {
			continue
		}
		if e.Start >= addr+n {
			break
		}
		out = append(out, e)
	}
	return out, s.Err()
}

// reader reads a descriptor. Unlike an os.File it is unknown to the runtime's poller.
type reader int

func (r reader) Read(b []byte) (int, error) {
	n, err := unix.Read(int(r), b)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return max(n, 0), err
}

// parseMap reads "start-end rwxp offset dev inode path".
func parseMap(line []byte) (e Map, ok bool) {
	f := bytes.Fields(line)
	if len(f) < 5 || len(f[1]) < 4 {
		return e, false
	}
	lo, hi, ok := bytes.Cut(f[0], []byte("-"))
	if !ok {
		return e, false
	}
	var errs [4]error
	e.Start, errs[0] = strconv.ParseUint(string(lo), 16, 64)
	e.End, errs[1] = strconv.ParseUint(string(hi), 16, 64)
	e.Offset, errs[2] = strconv.ParseUint(string(f[2]), 16, 64)
	e.Inode, errs[3] = strconv.ParseUint(string(f[4]), 10, 64)
	for _, err := range errs {
		if err != nil {
			return e, false
		}
	}
	e.Read, e.Write, e.Shared = f[1][0] == 'r', f[1][1] == 'w', f[1][3] == 's'
	e.Dev = string(f[3])
	return e, true
}

// Mapped reports whether all of [addr, addr+n) is mapped readable, and writable if asked. A mapping beyond the end of
// its file has no pages.
func (m Mem) Mapped(addr, n uint64, write bool) bool {
	maps, err := m.Maps(addr, n)
	if err != nil {
		return false
	}
	for _, e := range maps {
		if e.Start > addr || !e.Read && !e.Write || write && !e.Write {
			return false
		}
		if last := addr + min(n, e.End-addr) - 1; e.Inode != 0 && e.Read && m.Read(last, make([]byte, 1)) != nil {
			return false
		}
		if e.End-addr >= n {
			return true
		}
		n -= e.End - addr
		addr = e.End
	}
	return false
}
