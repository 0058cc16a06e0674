//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

func allocMW(c *call, q *uapi.AllocMW) unix.Errno {
	d, e := driver[uapi.Mlx5AllocMW](c, 0)
	switch {
	case e != 0, d.CompMask != 0, d.Reserved1 != 0, d.Reserved2 != 0:
		return unix.EOPNOTSUPP
	case q.MwType != 1 && q.MwType != 2:
		return unix.EINVAL
	}
	k, e := newKey(c, func() (*hca.MKey, unix.Errno) { return hca.AllocMW(c.ctx, q.PDHandle, q.MwType) })
	if e != 0 {
		return e
	}
	return reply(c, uapi.AllocMWResp{MwHandle: k.Handle, Rkey: k.Key})
}
