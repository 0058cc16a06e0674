//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

func openXRCD(c *call, q *uapi.OpenXRCD) unix.Errno {
	var dev, ino uint64
	if q.Fd != -1 {
		var err error
		if dev, ino, err = c.who.stat(q.Fd); err != nil {
			return unix.EBADF
		}
	}
	h, e := create(c, func() (h uint32, e unix.Errno) { h, _, _, e = c.ctx.OpenXRCD(dev, ino, q.Oflags); return h, e },
		func(h uint32) { c.ctx.CloseXRCD(h) })
	if e != 0 {
		return e
	}
	return reply(c, uapi.HandleOnly{Handle: h})
}
