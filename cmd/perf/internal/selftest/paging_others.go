//go:build !linux

package selftest

import "errors"

func drop([]byte) error { return errors.ErrUnsupported }
