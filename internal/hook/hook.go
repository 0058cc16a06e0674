// Package hook hands packages rdmacm, mlx5dv and loader what package ibv does not
// export: ibv sets these functions when it is initialised. Values of ibv's types
// travel as any, since this package cannot import ibv.
package hook

import (
	"sync/atomic"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// ContextSize is the size in bytes of struct verbs_context of the device that was
// opened last, 0 before the first. It grows with the library, so it tells
// loader.Report how old the library is, whatever its file is called.
var ContextSize atomic.Int64

var (
	// Device makes an *ibv.Device of a struct ibv_context that librdmacm opened.
	Context func(handle uintptr) (any, error)

	// CloseContext closes it, before librdmacm may close the device. It fails with
	// an *ibv.BusyError while something is open on it.
	CloseContext func(ctx any) error

	// DestroyQP is how ibv itself destroys the C object of a QP of an *ibv.PD.
	DestroyQP func(pd any, qp uintptr) error

	// Removed notes that the device of an *ibv.Device is gone, for those who wait
	// for its CQs.
	Removed func(ctx any)

	// CreateQP is (*ibv.PD).CreateQP with another function that makes the C
	// object, and one that destroys it, nil for ibv's own: pd is an *ibv.PD, send and recv are
	// *ibv.CQ, opt is an *ibv.QPOptions; the result is an *ibv.QP.
	CreateQP func(pd, send, recv, opt any, create func(pd uintptr, attr *abi.QPInitAttrEx) (uintptr, error), destroy func(qp uintptr) error) (any, error)

	// OrZero is v, or def for 0, or 0 for ibv.Zero.
	OrZero func(v, def uint8) uint8

	// ReadLimits are how many reads and atomics a QP of an *ibv.Device can answer
	// at a time, and how many it can have outstanding.
	ReadLimits func(ctx any) (dest, init int)

	// QPAttr converts to an *ibv.QPAttr.
	QPAttr func(*abi.QPAttr) any

	// AHAttr converts to an ibv.AHAttr.
	AHAttr func(*abi.AHAttr) any
)
