//go:build !linux

package pollfd

import "errors"

// Dup exists on Linux only.
func Dup(int) (int, error) { return -1, errors.ErrUnsupported }

func prepare(int) error { return errors.ErrUnsupported }

func closeFD(int) {}

// ReadEvent exists on Linux only.
func ReadEvent(uintptr, *[8]byte) (uint64, error) { return 0, errors.ErrUnsupported }
