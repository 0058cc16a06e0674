package ibv

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/dma"
	"github.com/pureverbs/pureverbs/internal/mlx5"
)

// Resize changes the capacity to at least cqe. Completions that are in the CQ
// stay there; if there are more than cqe, it fails. Others may use the CQ meanwhile.
//
// C: ibv_resize_cq(3).
func (cq *CQ) Resize(cqe int) error {
	return cq.do("resize cq", func() error {
		size := numCQE.of(&cq.dev.attr, cqe)
		if cqe < 1 {
			return &ArgError{Arg: "cqe", Got: fmt.Sprint(cqe), Want: fmt.Sprintf("1 to %d on this device", size.most)}
		}
		if err := fitInt(cq.dev.Name(), size); err != nil {
			return err
		}
		cq.mu.Lock()
		defer cq.mu.Unlock()
		var err error
		switch cq.path {
		case DataPathDirect:
			err = cq.resizeDirect(cqe)
		case DataPathOps:
			if err = cq.dev.v.ResizeCQ(cq.handle, cqe); err == nil {
				cq.cqe = cq.dev.v.CQCapacity(cq.handle)
			}
		default:
			err = &UnsupportedError{Feature: "resizing a CQ of DataPathRaw",
				Need: "another data path, or a CQ that is large enough", Have: "a ring that is polled elsewhere"}
		}
		if err == errInvalid && cqe <= size.most { // on DataPathOps only the device counts them
			err = &ArgError{Arg: "cqe", Got: fmt.Sprint(cqe),
				Want: "at least as many as the completions that are in the CQ: poll them first"}
		}
		return explainLimits(err, cq.dev.Name(), size)
	})
}

// errNotMoved means that the device has not ended the old ring. It does so before the command returns.
var errNotMoved = errors.New("the device did not end the old ring as it should: completions may be lost")

// resizeDirect moves the CQ to a ring of Go's own. libmlx5 could not: it would copy from a consumer index that it does
// not know, and free the ring. It need not know of the new one, because it reads neither.
// Preconditions: cq.mu is held.
func (cq *CQ) resizeDirect(cqe int) error {
	r := cq.direct.ring
	if r.Compressed() {
		return &UnsupportedError{Feature: "resizing a CQ with compression", Need: "a CQ that is large enough",
			Have: "a device that may be writing a block of completions"}
	}
	if cqe+1 > 1<<24 { // a consumer index has 24 bits
		return limit{"cqe", cqe, 1<<24 - 1}.error(cq.dev.Name())
	}
	entries := uint32(1) << bits.Len(uint(cqe))
	if entries == r.Entries() {
		return nil
	}
	if n := r.Unpolled(); n >= entries {
		return &ArgError{Arg: "cqe", Got: fmt.Sprint(cqe),
			Want: fmt.Sprintf("at least %d, as many completions as are in the CQ", n)}
	}
	mem, err := dma.Alloc(int(entries*r.Size()), nil)
	if err != nil {
		return err
	}
	mlx5.InitRing(cmem.Pointer(mem.Addr()), entries, r.Size())
	r.Hide()
	if !cq.mu.Off {
		mlx5.Quiesce() // readers of the ring without the lock
	}
	err = cq.dev.direct.dv.SwapCQ(cq.handle, mem.Addr(), entries, r.Size())
	if err == nil {
		if !r.Move(cmem.Pointer(mem.Addr()), entries) {
			err = errNotMoved
		}
		cq.cqe = int(entries) - 1
		cq.direct.moved, mem = mem, cq.direct.moved
	}
	if cq.held == nil {
		r.Show()
	}
	return errors.Join(err, mem.Free())
}
