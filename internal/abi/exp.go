package abi

import "github.com/pureverbs/pureverbs/internal/cmem"

// The experimental verbs of MLNX_OFED 4.x (libibverbs 41mlnx1, infiniband/verbs_exp.h). All of them are inline
// functions over a table that is below struct verbs_context in memory, and that also grows at its start.

// Distances of functions below the end of struct verbs_context_exp.
const (
	distExpSize = 8

	DistExpCreateQP    = 16  // lib_exp_create_qp
	DistExpQueryDevice = 32  // lib_exp_query_device
	DistExpQueryDCT    = 48  // query_dct
	DistExpDestroyDCT  = 56  // destroy_dct
	DistExpCreateDCT   = 64  // create_dct
	DistExpModifyQP    = 152 // lib_exp_modify_qp
	DistExpPollCQ      = 200 // drv_exp_ibv_poll_cq
	DistExpCreateCQ    = 208 // exp_create_cq
	DistExpQueryValues = 216 // drv_exp_query_values
	DistExpPostSend    = 248 // drv_exp_post_send
)

// maxExpSize bounds what is taken for the size of the table: that of 4.9 has 664 bytes.
const maxExpSize = 4096

// ExpOp returns the experimental verb that is dist below the end of its table, of the ibv_context at ctx; 0 if the
// library has no such verb.
func ExpOp(ctx, dist uintptr) uintptr {
	if !Legacy(ctx) {
		return 0
	}
	shift, _ := TailShift(ctx)
	end := ctx + offABICompat + 8 + shift - ContextSize(ctx)
	if size := *cmem.At[uintptr](end - distExpSize); size < dist || size%8 != 0 || size > maxExpSize {
		return 0
	}
	return *cmem.At[uintptr](end - dist)
}
