package abi

import "github.com/pureverbs/pureverbs/internal/cmem"

// Distances of the ops of struct verbs_context below its struct ibv_context. The struct grows at
// its start, so they are the same in all releases. For newer ops, call the exported function.
const (
	distSize     = 8  // sz
	distCompMask = 16 // has_comp_mask, unused since v17

	DistCloseXRCD               = 24
	DistOpenXRCD                = 32
	DistCreateSRQEx             = 40
	DistGetSRQNum               = 48
	DistCreateQPEx              = 56
	DistOpenQP                  = 64
	DistCreateFlow              = 80
	DistDestroyFlow             = 96
	DistQueryDeviceEx           = 104
	DistCreateCQEx              = 120
	DistQueryRTValues           = 128
	DistCreateWQ                = 136
	DistModifyWQ                = 144
	DistDestroyWQ               = 152
	DistCreateRWQIndTable       = 160
	DistDestroyRWQIndTable      = 168
	DistPostSRQOps              = 176 // v16
	DistModifyCQ                = 184
	DistAllocTD                 = 192 // v17
	DistDeallocTD               = 200
	DistAllocParentDomain       = 208
	DistModifyQPRateLimit       = 216 // v18
	DistCreateFlowActionESP     = 224
	DistDestroyFlowAction       = 232
	DistModifyFlowActionESP     = 240
	DistFreeDM                  = 248
	DistAllocDM                 = 256
	DistRegDMMR                 = 264
	DistDestroyCounters         = 272 // v19
	DistCreateCounters          = 280
	DistAttachCountersPointFlow = 288
	DistReadCounters            = 296
	DistAllocNullMR             = 304 // v20
	DistAdviseMR                = 312 // v22
	DistQueryPort               = 320
)

// legacyExperimental is the bit of has_comp_mask that marks the experimental verbs of MLNX_OFED
// 4.x.
const legacyExperimental = 1 << 62

// Offset of abi_compat with a mutex of 40 bytes, and by how much a mutex of 48
// moves what follows it.
const (
	offABICompat = 320
	bigMutex     = 8
)

// extended is the abi_compat of a context that is part of a verbs_context.
const extended = ^uint64(0)

// TailShift returns what to add to the offset of a field after a mutex, which is given for a mutex
// of 40 bytes: 0 or 8. ok is false if the context at ctx is not part of a verbs_context, which
// shows the size of the mutex.
func TailShift(ctx uintptr) (shift uintptr, ok bool) {
	for _, shift := range [...]uintptr{0, bigMutex} {
		if *cmem.At[uint64](ctx + offABICompat + shift) == extended {
			return shift, true
		}
	}
	return 0, false
}

// ContextSize returns the size of the verbs_context that contains the ibv_context at ctx, as set by
// the library that created it, or 0 if there is none. It grows with releases: 496 is v13 to v15,
// 648 is v22 to v58, 696 is v64 (8 more with a mutex of 48 bytes).
func ContextSize(ctx uintptr) uintptr {
	if _, ok := TailShift(ctx); !ok {
		return 0
	}
	return *cmem.At[uintptr](ctx - distSize)
}

// Legacy reports whether the context at ctx comes from the libibverbs of MLNX_OFED 4.x: no memory
// windows, no flows, no send with invalidate, no direct path.
func Legacy(ctx uintptr) bool {
	return ContextSize(ctx) != 0 && *cmem.At[uint64](ctx - distCompMask)&legacyExperimental != 0
}

// ContextOp returns the C function in the slot of verbs_context that is dist (one of the Dist
// constants) below the ibv_context at ctx. It returns 0 if the library is too old to have the slot,
// or left it empty.
func ContextOp(ctx, dist uintptr) uintptr {
	shift, ok := TailShift(ctx)
	if !ok || *cmem.At[uintptr](ctx - distSize) < dist+offABICompat+8+shift {
		return 0
	}
	if (dist == DistCreateFlow || dist == DistDestroyFlow) && Legacy(ctx) {
		return 0 // reserved slots there
	}
	return *cmem.At[uintptr](ctx - dist)
}

// Offsets of fields behind the mutex, with a mutex of 40 bytes: add TailShift.
const (
	OffCQCond                = 72
	OffCQCompEventsCompleted = 120
	OffCQEx                  = 128 // a CQExTail
	OffQPEx                  = 160 // a QPEx
)

// QPExOf returns the QPEx of the struct ibv_qp_ex at qpEx, whose first field is that of an ibv_qp. It returns nil if
// the context is not part of a verbs_context, which shows the position of the fields.
func QPExOf(qpEx uintptr) *QPEx {
	shift, ok := TailShift(cmem.At[QP](qpEx).Context)
	if !ok {
		return nil
	}
	return cmem.At[QPEx](qpEx + OffQPEx + shift)
}
