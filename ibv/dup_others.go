//go:build !linux

package ibv

import "errors"

func dupCloexec(int) (int, error) { return -1, errors.ErrUnsupported }
