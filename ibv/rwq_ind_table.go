package ibv

import (
	"fmt"
	"math/bits"
	"slices"
)

// RWQIndTable is an indirection table: the WQ of a frame is that at the place which the low bits of
// the frame's hash name.
//
// It belongs to its WQs, which cannot be closed before it.
//
// C: struct ibv_rwq_ind_table.
type RWQIndTable struct {
	object
	wqs []*WQ
}

// CreateRWQIndTable makes a table of WQs of the device, a power of two of them. A WQ may have several
// places.
//
// C: ibv_create_rwq_ind_table(3).
func (d *Device) CreateRWQIndTable(wqs []*WQ) (*RWQIndTable, error) {
	const op = "create rwq ind table"
	fail := func(err error) (*RWQIndTable, error) { return nil, &OpError{Op: op, Object: d.Name(), Err: err} }
	n := len(wqs)
	if n == 0 || n&(n-1) != 0 {
		return fail(&ArgError{Arg: "wqs", Got: fmt.Sprint(n), Want: "a power of two"})
	}
	if l := numIndTable.of(&d.attr, n); l.most > 0 && n > l.most {
		return fail(l.error(d.Name()))
	}
	var nodes []*node
	handles := make([]uintptr, n)
	for i, w := range wqs {
		switch {
		case w == nil:
			return fail(&ArgError{Arg: fmt.Sprintf("wqs[%d]", i), Got: "nil", Want: "a WQ of the same Device"})
		case w.pd.dev != d:
			return fail(&ArgError{Arg: fmt.Sprintf("wqs[%d]", i), Got: "a WQ of another Device",
				Want: "a WQ of the same Device"})
		}
		handles[i] = w.handle
		if !slices.Contains(nodes, &w.node) {
			nodes = append(nodes, &w.node)
		}
	}
	t := &RWQIndTable{object: object{dev: d}, wqs: slices.Clone(wqs)}
	return create(op, d.Name(), "rwq ind table", t, &t.node, func() (err error) {
		t.handle, err = d.v.CreateRWQIndTable(d.handle, uint32(bits.TrailingZeros(uint(n))), handles)
		return d.explainRSS(err)
	}, nodes...)
}

// Device returns the device of the table.
func (t *RWQIndTable) Device() *Device { return t.dev }

// WQs returns the WQs of the table, in the order of their places.
func (t *RWQIndTable) WQs() []*WQ { return slices.Clone(t.wqs) }

// Close destroys the table; it fails with a *BusyError while an RSS QP uses it.
//
// C: ibv_destroy_rwq_ind_table(3).
func (t *RWQIndTable) Close() error { return t.destroy(t.dev.v.DestroyRWQIndTable) }
