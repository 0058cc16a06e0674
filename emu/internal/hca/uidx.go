//go:build linux

package hca

import "golang.org/x/sys/unix"

// NoUserIndex is what a library that does not know of user indices gives. C: MLX5_IB_DEFAULT_UIDX.
const NoUserIndex = 0xffffff

// userIndex returns what CQEs of a queue carry in the field of the user index if the program gives i.
func userIndex(c *Context, i uint32) (uint32, unix.Errno) {
	switch {
	case c.CQEVersion == 0 && i == NoUserIndex:
		return 0, 0
	case c.CQEVersion == 0 || i >= NoUserIndex:
		return 0, unix.EINVAL
	}
	return i, 0
}
