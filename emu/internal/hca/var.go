//go:build linux

package hca

import "golang.org/x/sys/unix"

// VAR is a page of doorbells. On an adapter they are of queues that it shows to a guest. Here no such queue exists, so
// a store into the page does nothing. C: struct mlx5_ib_var_table.
type VAR struct {
	Held
	Index int
}

const (
	maxVARs = 64
	// MmapVAR is the command of the mmap offset: another of the range that the kernel has for such pages.
	MmapVAR = 10
)

// vars are the pages that are in use.
type vars [maxVARs]bool

var varPart = newPart[vars]()

// take finds a free page.
func (v *vars) take() (index int, ok bool) {
	for i, used := range v {
		if !used {
			v[i] = true
			return i, true
		}
	}
	return 0, false
}

// AllocVAR allocates a page: page 10<<8 | index of the file.
func AllocVAR(c *Context) (*VAR, unix.Errno) {
	all := varPart.of(&c.Device.parts)
	i, ok := all.take()
	if !ok {
		return nil, unix.ENOSPC
	}
	v := &VAR{c.held(rankPlain, "VAR"), i}
	v.life.end = func() { all[i] = false }
	return added(c, v)
}
