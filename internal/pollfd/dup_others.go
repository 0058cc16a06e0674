//go:build !linux

package pollfd

import "errors"

func dupNonblock(int) (int, error) { return -1, errors.ErrUnsupported }

func ReadEvent(uintptr, *[8]byte) (uint64, error) { return 0, errors.ErrUnsupported }
