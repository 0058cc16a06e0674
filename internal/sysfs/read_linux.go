package sysfs

import (
	"bytes"
	"encoding/binary"
	"io/fs"

	"golang.org/x/sys/unix"
)

// dir is a directory. One that is open has its files opened with openat, which saves the kernel a walk down the long
// paths of sysfs. One for a single file is not open.
type dir struct {
	fd     int // AT_FDCWD if it is not open
	path   string
	failed error            // of text
	unread *[]*fs.PathError // what text could not read; nil: nobody asks
}

func openDir(path string) (*dir, error) { return openDirAt(unix.AT_FDCWD, path, path) }

func openDirAt(at int, name, path string) (*dir, error) {
	for {
		fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		return &dir{fd: fd, path: path}, nil
	}
}

func (d *dir) sub(name string) (*dir, error) {
	s, err := openDirAt(d.fd, name, d.path+"/"+name)
	if err == nil {
		s.unread = d.unread
	}
	return s, err
}

// dirOfOne returns a directory for reading one file.
func dirOfOne(path string) (*dir, error) { return &dir{fd: unix.AT_FDCWD, path: path}, nil }

func (d *dir) close() {
	if d.fd != unix.AT_FDCWD {
		unix.Close(d.fd)
	}
}

// at is the path of a file for openat.
func (d *dir) at(name string) string {
	if d.fd == unix.AT_FDCWD {
		return d.path + "/" + name
	}
	return name
}

// entries lists the directory; it may be called once.
func (d *dir) entries() ([]Entry, error) {
	var (
		buf [8192]byte
		out []Entry
	)
	for len(out) < maxNames {
		n, err := unix.ReadDirent(d.fd, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "readdir", Path: d.path, Err: err}
		}
		if n == 0 {
			break
		}
		out = appendEntries(out, buf[:n])
	}
	return out, nil
}

// names lists the directory; it may be called once.
func (d *dir) names() ([]string, error) { return namesOf(d.entries()) }

// appendEntries adds the entries in b, which has structs linux_dirent64.
func appendEntries(out []Entry, b []byte) []Entry {
	const length, name = 16, 19 // C: offsetof(struct linux_dirent64, d_reclen), d_name
	for len(b) > name {
		n := int(binary.NativeEndian.Uint16(b[length:]))
		if n <= name || n > len(b) {
			break
		}
		s, _, _ := bytes.Cut(b[name:n], []byte{0})
		if s := string(s); s != "." && s != ".." {
			out = append(out, Entry{Name: s, Inode: binary.NativeEndian.Uint64(b)})
		}
		b = b[n:]
	}
	return out
}

// read reads the regular file name into buf. A file that fills buf is too large.
func (d *dir) read(name string, buf []byte) (int, error) {
	fail := func(op string, err error) (int, error) {
		return 0, &fs.PathError{Op: op, Path: d.path + "/" + name, Err: err}
	}
	// O_NONBLOCK: opening a FIFO must not block.
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	var fd int
	var err error
	for {
		fd, err = unix.Openat(d.fd, d.at(name), flags, 0)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return fail("open", err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fail("stat", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fail("read", ErrNotRegular)
	}
	for {
		// One read is enough: the kernel returns an attribute in one piece.
		n, err := unix.Read(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fail("read", err)
		}
		if n == len(buf) {
			return fail("read", ErrTooLarge)
		}
		return n, nil
	}
}

func (d *dir) readlink(name string) (string, error) {
	var buf [maxAttr]byte
	n, err := unix.Readlinkat(d.fd, d.at(name), buf[:])
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: d.path + "/" + name, Err: err}
	}
	return string(buf[:n]), nil
}

func isSysfs(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && int64(st.Type) == unix.SYSFS_MAGIC
}
