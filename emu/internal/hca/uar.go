//go:build linux

package hca

import (
	"slices"

	"golang.org/x/sys/unix"
)

// UAR is one page of doorbell registers, shared with the program.
type UAR struct {
	Held
	Index int
	Page  []byte // 4096 bytes, mapped shared
	QPs   []*QP  // in the order of their doorbell records
	Run   UARRun

	at     int64 // page of the file
	mapped bool  // of a register's page: the program has mapped it there
}

// UARRun is the engine's state of a doorbell page.
type UARRun struct {
	Rung bool         // and its queues were not looked at
	Last [8][256]byte // strict mode: the WQE that was rung last on each slot
	Seen [8][256]byte // strict mode: what a look has left in a slot
	Stir [8]bool      // strict mode: a copy was under way when the slot was cleared, which may have erased a part of it
}

// UAREngine is what an engine learns of doorbell pages.
type UAREngine interface {
	UARAdded(*UAR)
	UARRemoved(*UAR)
}

func (u *UAR) engine() UAREngine { return u.Context.Device.Fabric.engine.(UAREngine) }

const (
	pageSize = 4096
	firstUAR = 1    // index of the first page that a program may have; those before are the kernel's
	lastUAR  = 0xff // that an mmap offset can name
	mmapUAR  = 9    // command of an mmap offset: MLX5_IB_MMAP_ALLOC_UAR
)

// uars are the pages of a context that its program allocated: index = page index handed to the program; nil = free.
type uars struct{ pages []*UAR }

var uarPart = newPart[uars]()

// free finds an index that no page has, the most pages being given.
func (t *uars) free(most int) (i int, ok bool) {
	if t.pages == nil {
		t.pages = make([]*UAR, firstUAR)
	}
	if i = slices.Index(t.pages[firstUAR:], nil) + firstUAR; i >= firstUAR {
		return i, true
	}
	if i = len(t.pages); i >= most+firstUAR || i > lastUAR {
		return 0, false
	}
	t.pages = append(t.pages, nil)
	return i, true
}

// UARAt returns the page of an index that the program allocated, or nil.
func UARAt(c *Context, i int) *UAR {
	if t := uarPart.of(&c.parts); i >= 0 && i < len(t.pages) {
		return t.pages[i]
	}
	return nil
}

// AllocUAR hands out a doorbell page: page 9<<8 | index of the file.
func AllocUAR(c *Context) (*UAR, unix.Errno) {
	t := uarPart.of(&c.parts)
	i, ok := t.free(c.Device.Config.Limits.MaxUAR)
	if !ok {
		return nil, unix.ENOSPC
	}
	u := &UAR{Held: c.held(rankUAR, "UAR"), Index: i}
	if e := u.open(int64(mmapUAR<<8 | i)); e != 0 {
		return nil, e
	}
	u.life.end = func() {
		u.close()
		t.pages[i] = nil
	}
	t.pages[i] = u
	return added(c, u)
}

// open maps page at of the file for the engine.
func (u *UAR) open(at int64) unix.Errno {
	page, err := u.Context.File.Map(at*pageSize, pageSize)
	if err != nil {
		return unix.ENOMEM
	}
	clear(page)
	u.Page, u.at = page, at
	u.engine().UARAdded(u)
	return 0
}

func (u *UAR) close() {
	u.engine().UARRemoved(u)
	_ = unix.Munmap(u.Page)
	u.Page = nil
}
