package libibverbs

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// int (*advise_mr)(struct ibv_pd *, enum ibv_advise_mr_advice, uint32_t flags, struct ibv_sge *, uint32_t num_sges);
// An op of verbs_context (v22).
func (l Lib) AdviseMR(ctx, pd uintptr, advice, flags uint32, sges []abi.SGE) error {
	return opErr(ctx, abi.DistAdviseMR, pd, uintptr(advice), uintptr(flags),
		uintptr(unsafe.Pointer(unsafe.SliceData(sges))), uintptr(len(sges)))
}
