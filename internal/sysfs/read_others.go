//go:build !linux

package sysfs

import (
	"io"
	"io/fs"
	"os"
)

// dir is the path of a directory. Only Linux has sysfs; on other systems this reads a copy of it.
type dir struct {
	path   string
	failed error            // of text
	unread *[]*fs.PathError // what text could not read; nil: nobody asks
}

func openDir(path string) (*dir, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrInvalid}
	}
	return &dir{path: path}, nil
}

func dirOfOne(path string) (*dir, error) { return openDir(path) }

func (d *dir) sub(name string) (*dir, error) {
	s, err := openDir(d.path + "/" + name)
	if err == nil {
		s.unread = d.unread
	}
	return s, err
}

func (d *dir) close() {}

func (d *dir) entries() (list []Entry, err error) {
	names, err := d.names()
	for _, n := range names {
		list = append(list, Entry{Name: n})
	}
	return list, err
}

func (d *dir) names() ([]string, error) {
	f, err := os.Open(d.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(maxNames)
	if err == io.EOF {
		err = nil
	}
	return names, err
}

func (d *dir) read(name string, buf []byte) (int, error) {
	path := d.path + "/" + name
	st, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	if !st.Mode().IsRegular() {
		return 0, &fs.PathError{Op: "read", Path: path, Err: ErrNotRegular}
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n, err := io.ReadFull(f, buf)
	switch err {
	case io.EOF, io.ErrUnexpectedEOF:
		return n, nil
	case nil:
		return 0, &fs.PathError{Op: "read", Path: path, Err: ErrTooLarge}
	}
	return 0, err
}

func (d *dir) readlink(name string) (string, error) { return os.Readlink(d.path + "/" + name) }

func isSysfs(string) bool { return false }
