package command

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// output is standard output, which remembers that it failed: a table on a full disk is no success.
type output struct {
	w   io.Writer
	mu  sync.Mutex
	err error // the first
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.w.Write(b)
	o.err = cmp.Or(o.err, err)
	return n, err
}

// replaceable reports whether a file that is written takes the place of what has that name: nothing, or a plain file.
// A device, a pipe or what a link leads to is written to.
func replaceable(name string) bool {
	info, err := os.Lstat(name)
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular()
}

func temporary(name string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
}

// writable returns why a file cannot be written, before a run that would end without it.
func writable(name string) error {
	if replaceable(name) {
		if f, err := temporary(name); err == nil {
			return errors.Join(f.Close(), os.Remove(f.Name()))
		}
	} else if info, err := os.Stat(name); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		return nil // opening it may wait for a reader
	}
	_, err := os.Lstat(name)
	existed := err == nil
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644)
	if err == nil && !existed {
		err = os.Remove(name)
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// save writes a file. One that is new or replaced is there whole or not at all, where its folder allows that.
func save(name string, write func(io.Writer) error) error {
	if !replaceable(name) {
		return overwrite(name, write)
	}
	f, err := temporary(name)
	if err != nil {
		return overwrite(name, write)
	}
	err = errors.Join(write(f), f.Chmod(0o644), f.Close())
	if err == nil {
		if err = os.Rename(f.Name(), name); err == nil {
			return nil
		}
		err = overwrite(name, write) // a file that is a mount point
	}
	os.Remove(f.Name())
	return err
}

func overwrite(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
