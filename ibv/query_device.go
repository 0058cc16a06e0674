package ibv

import (
	"errors"
	"strings"
	"syscall"
)

// unsupported reports whether err means that the library or the kernel lacks a call. The kernel returns EPROTONOSUPPORT
// for a method that its driver does not have, and before Linux 4.14 ENOTTY for all of them.
func unsupported(err error) bool {
	return errors.Is(err, ErrNotSupported) || errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) ||
		errors.Is(err, syscall.EPROTONOSUPPORT) || errors.Is(err, syscall.ENOTTY)
}

// cString returns the text before the first NUL.
func cString(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}
