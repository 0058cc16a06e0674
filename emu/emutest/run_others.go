//go:build !linux || !(amd64 || arm64)

package emutest

import (
	"errors"
	"fmt"
	"runtime"
)

func emulate(*options) (int, error) {
	return 0, unavailableError{fmt.Errorf("%w on %s/%s: the emulator runs on linux/amd64 and linux/arm64",
		errors.ErrUnsupported, runtime.GOOS, runtime.GOARCH)}
}
