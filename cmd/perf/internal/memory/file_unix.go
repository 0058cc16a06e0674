//go:build unix

package memory

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps a part of a file. Messages of the test overwrite it.
func mapFile(name string, off int64, size int) (*file, error) {
	fail := func(why string, err error) (*file, error) { return nil, &FileError{name, off, size, why, err} }
	if page := int64(os.Getpagesize()); off%page != 0 {
		return fail(fmt.Sprintf("the offset is not a multiple of the page of %d bytes", page), nil)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return fail("it cannot be opened", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return fail("it cannot be looked at", err)
	}
	if end := off + int64(size); st.Mode().IsRegular() && st.Size() < end {
		return fail(fmt.Sprintf("it has only %d bytes; lengthen it: truncate -s %d", st.Size(), end), nil)
	}
	mem, err := unix.Mmap(int(f.Fd()), off, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fail("it cannot be mapped", err)
	}
	return &file{mem}, nil
}

func (f *file) free() error { return unix.Munmap(f.block) }
