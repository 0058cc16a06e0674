//go:build linux

package hca

import (
	"slices"

	"golang.org/x/sys/unix"
)

// UAR is one page of doorbell registers, shared with the program.
type UAR struct {
	Context *Context
	Handle  uint32
	Index   int
	Page    []byte // 4096 bytes, mapped shared
	Kind    uint32 // 0 BlueFlame, 1 non-cached
	QPs     []*QP
	Run     UARRun

	at     int64 // page of the file
	mapped bool  // of a register's page: the program has mapped it there
}

const (
	pageSize = 4096
	firstUAR = 1 // index of the first page that a program may have
	mmapUAR  = 9 // command of an mmap offset: MLX5_IB_MMAP_ALLOC_UAR
)

// AllocUAR hands out a doorbell page: page 9<<8 | index of the file. The first pages of an adapter are the kernel's, so
// no program has index 0.
func (c *Context) AllocUAR(kind uint32) (*UAR, unix.Errno) {
	if c.UARs == nil {
		c.UARs = make([]*UAR, firstUAR)
	}
	i := slices.Index(c.UARs[firstUAR:], nil) + firstUAR
	if i < firstUAR {
		if i = len(c.UARs); i >= c.Device.Config.Limits.MaxUAR+firstUAR || i > 0xff {
			return nil, unix.ENOSPC
		}
		c.UARs = append(c.UARs, nil)
	}
	u := &UAR{Context: c, Index: i, Kind: kind}
	if e := u.open(int64(mmapUAR<<8 | i)); e != 0 {
		return nil, e
	}
	u.Handle = c.add(u)
	c.UARs[i] = u
	return u, 0
}

// FreeUAR takes a doorbell page back.
func (c *Context) FreeUAR(handle uint32) unix.Errno {
	u, e := find[*UAR](c, handle)
	if e != 0 {
		return e
	}
	if len(u.QPs) > 0 && !c.Dead {
		return unix.EBUSY
	}
	u.close()
	c.UARs[u.Index] = nil
	delete(c.objects, handle)
	return 0
}
