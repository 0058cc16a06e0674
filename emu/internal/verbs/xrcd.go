//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
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
	r, e := made(c, func() (*hca.XRCDRef, unix.Errno) { return hca.OpenXRCD(c.ctx, dev, ino, q.Oflags) })
	if e != 0 {
		return e
	}
	return reply(c, uapi.HandleOnly{Handle: r.Handle})
}
