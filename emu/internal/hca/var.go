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
	i, ok := varPart.of(&c.Device.parts).take()
	if !ok {
		return nil, unix.ENOSPC
	}
	v := &VAR{Index: i}
	c.add(v)
	return v, 0
}

// HasVAR reports whether a program may map a page.
func HasVAR(c *Context, index int) (has bool) {
	each(c, func(v *VAR) bool { has = v.Index == index; return !has })
	return has
}

// Destroy gives the page back.
func (v *VAR) Destroy() unix.Errno {
	varPart.of(&v.Context.Device.parts)[v.Index] = false
	v.forget()
	return 0
}

func (*VAR) order() order { return order{rankPlain, "VAR"} }
