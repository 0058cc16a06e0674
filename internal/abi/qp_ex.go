package abi

import (
	"github.com/pureverbs/pureverbs/internal/cmem"
)

// OffQPEx is the offset of a QPEx in struct ibv_qp_ex, with a mutex of 40 bytes: add TailShift.
const OffQPEx = 160

// QPExOf returns the QPEx of the struct ibv_qp_ex at qpEx, whose first field is that of an ibv_qp. It returns nil if
// the context is not part of a verbs_context, which shows the position of the fields.
func QPExOf(qpEx uintptr) *QPEx {
	shift, ok := TailShift(cmem.At[QP](qpEx).Context)
	if !ok {
		return nil
	}
	return cmem.At[QPEx](qpEx + OffQPEx + shift)
}
