package mlx5

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// ReservedQPNAlloc takes a number.
func (c scheduler) ReservedQPNAlloc() (_ uint32, err error) {
	const kind, size, perBlock = 0x2c, 16, 0x93 // C: MLX5_OBJ_TYPE_RESERVED_QPN, log_reserved_qpn_granularity
	if !c.queryCaps(capsGeneral).hasGeneral(kind) {
		return 0, syscall.EOPNOTSUPP
	}
	r := &c.reserved
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.blocks); n == 0 || r.blocks[n-1].next == len(r.blocks[n-1].taken) {
		log := c.queryCaps(capsGeneral2).get(perBlock, 5)
		if log > 24 {
			return 0, &uverbs.ReplyError{Command: "query_hca_cap", Field: "log_reserved_qpn_granularity",
				Got: uint64(log), Want: "0 to 24"}
		}
		b := &reservedBlock{taken: make([]bool, 1<<log)}
		in := generalCommand(createGeneral, kind, 0, size)
		setBits(in, generalRange, 5, log)
		if b.obj, b.first, err = c.makeGeneral(in); err != nil {
			return 0, err
		}
		if uint64(b.first)+uint64(len(b.taken)) > 1<<24 {
			return 0, also(&uverbs.ReplyError{Command: "devx_obj_create", Field: "qpn", Got: uint64(b.first),
				Want: fmt.Sprintf("the first of %d numbers of 24 bits", len(b.taken))}, b.obj.end())
		}
		r.blocks = append(r.blocks, b)
	}
	b := r.blocks[len(r.blocks)-1]
	b.taken[b.next] = true
	b.next++
	return b.first + uint32(b.next-1), nil
}

// ReservedQPNDealloc gives a number back. A block ends when all its numbers were taken and given back.
func (c scheduler) ReservedQPNDealloc(qpn uint32) error {
	r := &c.reserved
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, b := range r.blocks {
		n := uint64(qpn) - uint64(b.first)
		if n >= uint64(len(b.taken)) || !b.taken[n] {
			continue
		}
		b.taken[n] = false
		if b.next < len(b.taken) || slices.Contains(b.taken, true) {
			return nil
		}
		r.blocks = slices.Delete(r.blocks, i, i+1)
		return b.obj.end()
	}
	return syscall.EINVAL
}

// end gives the blocks back.
func (r *reservedQPNs) end() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, b := range r.blocks {
		errs = append(errs, b.obj.end())
	}
	r.blocks = nil
	return errors.Join(errs...)
}
