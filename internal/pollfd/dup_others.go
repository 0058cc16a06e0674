//go:build !linux

package pollfd

import "errors"

func dupNonblock(int) (int, error) { return -1, errors.ErrUnsupported }
