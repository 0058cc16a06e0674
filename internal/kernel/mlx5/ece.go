package mlx5

import (
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

const vendorID = 0x15b3

// firstECE returns the options that a QP is made with: those of version 1, where there are any.
func (c *context) firstECE() uint32 {
	const version1 = 1 << 28
	if c.info.CompMask&abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE == 0 {
		return 0
	}
	return version1
}

func (e *ece) granted(options uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wanted, e.have = 0, options
}

func (e *ece) want() uint32 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.wanted
}

// QueryECE returns the options that the device has granted.
func (q *qp) QueryECE(o *abi.ECE) error {
	q.ece.mu.Lock()
	defer q.ece.mu.Unlock()
	*o = abi.ECE{VendorID: vendorID, Options: q.ece.have}
	return nil
}

// SetECE sets the options for the next modification.
func (q *qp) SetECE(o *abi.ECE) error {
	switch {
	case o.CompMask != 0 || o.VendorID != vendorID:
		return syscall.EINVAL
	case q.c.info.CompMask&abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE == 0:
		return syscall.EOPNOTSUPP
	}
	q.ece.mu.Lock()
	defer q.ece.mu.Unlock()
	q.ece.wanted, q.ece.have = o.Options, 0
	return nil
}

// ModifyQPRateLimit limits how fast a QP sends.
func (q *qp) ModifyQPRateLimit(a *abi.QPRateLimitAttr) error {
	if a.CompMask != 0 || a.RateLimit == 0 && (a.MaxBurstSz != 0 || a.TypicalPktSz != 0) {
		return syscall.EINVAL
	}
	d := &abi.MLX5IBModifyQP{Burst: a.MaxBurstSz, TypicalPktSz: a.TypicalPktSz}
	return q.c.file.ModifyQPEx(&abi.UverbsModifyQP{QPHandle: q.kernel, AttrMask: abi.IBV_QP_RATE_LIMIT},
		a.RateLimit, uverbs.Driver{In: uverbs.Bytes(d)})
}
