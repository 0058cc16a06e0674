//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// mcast attaches or detaches.
func mcast(f func(c *hca.Context, qp uint32, gid [16]byte, mlid uint16) unix.Errno) func(*call) unix.Errno {
	return taking(func(c *call, q *uapi.Mcast) unix.Errno {
		return c.do(func() unix.Errno { return f(c.ctx, q.QPHandle, q.GID, q.Mlid) })
	})
}
