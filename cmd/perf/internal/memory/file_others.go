//go:build !unix

package memory

import "errors"

func mapFile(name string, off int64, size int) (*file, error) {
	return nil, &FileError{name, off, size, "it cannot be mapped", errors.ErrUnsupported}
}

func (f *file) free() error { return nil }
