package memory

import (
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
)

// A FileError is a file that cannot be the memory of a test.
type FileError struct {
	Name   string
	Offset int64
	Size   int // bytes that the test needs
	Why    string
	Err    error // or nil
}

// Error returns one line.
func (e *FileError) Error() string {
	s := fmt.Sprintf("file (--mmap) %s, %d bytes from %d (--mmap-offset): %s", e.Name, e.Size, e.Offset, e.Why)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the error of the system.
func (e *FileError) Unwrap() error { return e.Err }

// file is a mapped file, or a mapped device's memory.
type file struct{ block }

func (f *file) register(pd *ibv.PD, access ibv.AccessFlags) (*ibv.MR, uint64, error) {
	mr, err := pd.RegMR(f.block, access)
	if err != nil {
		return nil, 0, err
	}
	return mr, mr.Addr(), nil
}
