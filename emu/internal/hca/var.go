//go:build linux

package hca

import "golang.org/x/sys/unix"

// VAR is a page of doorbells. On an adapter they are of queues that it shows to a guest. Here no such queue exists, so
// a store into the page does nothing. C: struct mlx5_ib_var_table.
type VAR struct {
	Context *Context
	Handle  uint32
	Index   int
}

const (
	maxVARs = 64
	// MmapVAR is the command of the mmap offset: another of the range that the kernel has for such pages.
	MmapVAR = 10
)

// AllocVAR allocates a page: page 10<<8 | index of the file.
func (c *Context) AllocVAR() (*VAR, unix.Errno) {
	for i, used := range c.Device.vars {
		if !used {
			c.Device.vars[i] = true
			v := &VAR{Context: c, Index: i}
			v.Handle = c.add(v)
			return v, 0
		}
	}
	return nil, unix.ENOSPC
}

// HasVAR reports whether a program may map a page.
func (c *Context) HasVAR(index int) bool {
	for _, o := range c.objects {
		if v, ok := o.(*VAR); ok && v.Index == index {
			return true
		}
	}
	return false
}

// FreeVAR gives a page back.
func (c *Context) FreeVAR(handle uint32) unix.Errno {
	v, e := find[*VAR](c, handle)
	if e != 0 {
		return e
	}
	c.Device.vars[v.Index] = false
	delete(c.objects, handle)
	return 0
}
