//go:build !linux

package pollfd

import "errors"

func dupCloexec(int) (int, error) { return -1, errors.ErrUnsupported }
