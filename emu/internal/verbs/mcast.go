//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// mcast attaches or detaches.
func mcast(f func(qp *hca.QP, gid [16]byte, mlid uint16) unix.Errno) func(*call) unix.Errno {
	return taking(func(c *call, q *uapi.Mcast) unix.Errno {
		return on(c, q.QPHandle, func(o hca.AnyQP) unix.Errno { return f(o.QP(), q.GID, q.Mlid) })
	})
}
