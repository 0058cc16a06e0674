//go:build linux

package guest

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

func procPath(tid int, rest string) string { return "/proc/" + strconv.Itoa(tid) + "/" + rest }

// readFile reads a small file of /proc at once.
func readFile(path string, buf []byte) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n := 0
	for n < len(buf) {
		k, err := unix.Read(fd, buf[n:])
		if err != nil {
			return nil, err
		}
		if k == 0 {
			break
		}
		n += k
	}
	return buf[:n], nil
}

// field is the text behind key in a file of lines "Key:\ttext".
func field(b []byte, key string) (string, bool) {
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte(key)); ok {
			return string(bytes.TrimSpace(rest)), true
		}
	}
	return "", false
}

// TGID is the process of a thread.
func TGID(tid int) (int, error) {
	var buf [4096]byte
	b, err := readFile(procPath(tid, "status"), buf[:])
	if err != nil {
		return 0, ErrGone
	}
	s, ok := field(b, "Tgid:")
	if !ok {
		return 0, ErrGone
	}
	return strconv.Atoi(s)
}

// FDName is what /proc says of descriptor fd: "pipe:[7]", "/memfd:name (deleted)"; "" if it is not open.
func FDName(tid, fd int) string {
	var buf [256]byte
	n, err := unix.Readlink(procPath(tid, "fd/"+strconv.Itoa(fd)), buf[:])
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

// FDFlags are the open flags of descriptor fd: O_NONBLOCK and its like.
func FDFlags(tid, fd int) (int, error) {
	var buf [1024]byte
	b, err := readFile(procPath(tid, "fdinfo/"+strconv.Itoa(fd)), buf[:])
	if err != nil {
		return 0, unix.EBADF
	}
	s, ok := field(b, "flags:")
	if !ok {
		return 0, unix.EBADF
	}
	f, err := strconv.ParseInt(s, 8, 64)
	return int(f), err
}

// Cwd is the working directory of a thread, "" if it cannot be told.
func Cwd(tid int) string {
	var buf [4096]byte
	n, err := unix.Readlink(procPath(tid, "cwd"), buf[:])
	if err != nil {
		return ""
	}
	return string(buf[:n])
}
