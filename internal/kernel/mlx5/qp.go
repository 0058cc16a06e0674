package mlx5

import (
	"math/bits"
	"sync/atomic"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// CreateQP makes a QP, and tells the caller how large it is.
func (v *Verbs) CreateQP(h handle, a *abi.QPInitAttrEx) (handle, error) {
	plain := *a
	plain.CompMask = abi.IBV_QP_INIT_ATTR_PD
	n, err := v.createQP(h, &plain, own{flags: scatterFlag()})
	a.Cap = plain.Cap
	return n, err
}

// CreateQPEx makes a QP with attributes.
func (v *Verbs) CreateQPEx(_ handle, a *abi.QPInitAttrEx) (handle, error) {
	return v.createQP(a.PD, a, own{flags: scatterFlag()})
}

func (v *Verbs) createQP(h handle, a *abi.QPInitAttrEx, o own) (handle, error) {
	const known = abi.IBV_QP_INIT_ATTR_PD | abi.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | abi.IBV_QP_INIT_ATTR_XRCD |
		abi.IBV_QP_INIT_ATTR_CREATE_FLAGS | abi.IBV_QP_INIT_ATTR_MAX_TSO_HEADER
	switch {
	case a.CompMask&abi.IBV_QP_INIT_ATTR_RX_HASH != 0:
		return v.createRSS(h, a)
	case a.CompMask&^known != 0:
		return 0, control.ErrNoOp
	case a.CompMask&abi.IBV_QP_INIT_ATTR_MAX_TSO_HEADER != 0 && a.QPType != abi.IBV_QPT_RAW_PACKET:
		return 0, syscall.EINVAL
	}
	k, err := v.queuesOf(h, a)
	if err != nil {
		return 0, err
	}
	c := k.c
	q := &qp{ringed: of(c), init: *a, own: o, reg: k.reg, opened: o.flags&abi.MLX5_QP_FLAG_TYPE_DCT != 0}
	if !q.opened {
		if q.sizes, err = c.info.qpSizes(a, &o); err != nil {
			return 0, err
		}
		if err := q.alloc(); err != nil {
			return 0, err
		}
	}
	n, err := q.enter(q, q.sends, func() error { return q.create(k) })
	if err == nil {
		a.Cap = q.init.Cap
	}
	return n, err
}

// alloc allocates the rings. Those of a raw packet QP are apart.
func (q *qp) alloc() (err error) {
	m, s := &q.c.memory, &q.sizes
	if q.init.QPType != abi.IBV_QPT_RAW_PACKET {
		q.queue, err = m.queue(s.bytes())
		return err
	}
	if q.sends, err = m.ring(int(s.blocks * blockSize)); err == nil {
		if q.queue, err = m.queue(int(s.wqes * s.stride)); err != nil {
			err = also(err, m.release(q.sends))
		}
	}
	return err
}

// request has the arguments of create_qp.
type request struct {
	c *context
	abi.UverbsCreateQP
	options uverbs.QPOptions
	reg     *register
}

// queuesOf returns a request with what the QP uses.
func (v *Verbs) queuesOf(h handle, a *abi.QPInitAttrEx) (*request, error) {
	k := &request{UverbsCreateQP: abi.UverbsCreateQP{QPType: uint8(a.QPType)}}
	if a.SQSigAll != 0 {
		k.SQSigAll = 1
	}
	if a.CompMask&abi.IBV_QP_INIT_ATTR_CREATE_FLAGS != 0 {
		k.options.Flags = a.CreateFlags
	}
	k.options.NoSend = a.QPType == abi.IBV_QPT_XRC_RECV
	k.options.NoRecv = k.options.NoSend || a.QPType == abi.IBV_QPT_XRC_SEND
	if a.QPType == abi.IBV_QPT_XRC_RECV {
		x, err := get[xrcd](v, a.XRCD)
		if err != nil {
			return nil, err
		}
		k.c, k.options.XRCD = x.c, &x.number
	} else {
		p, err := get[pd](v, h)
		if err != nil {
			return nil, err
		}
		k.c, k.PDHandle, k.reg = p.c, p.number, p.reg
	}
	if !k.options.NoSend {
		q, err := mine[cq](k.c, a.SendCQ)
		if err != nil {
			return nil, err
		}
		k.SendCQHandle = q.kernel
	}
	if !k.options.NoRecv {
		q, err := mine[cq](k.c, a.RecvCQ)
		if err != nil {
			return nil, err
		}
		k.RecvCQHandle = q.kernel
	}
	if a.SRQ != 0 && !k.options.NoRecv {
		s, err := mine[srq](k.c, a.SRQ)
		if err != nil {
			return nil, err
		}
		k.IsSRQ, k.SRQHandle = 1, s.kernel
	}
	return k, nil
}

func (q *qp) create(k *request) error {
	c, s := q.c, &q.sizes
	want := s.granted // the kernel repeats it
	k.UserHandle = uint64(q.handle)
	k.Cap = q.init.Cap
	k.Cap.MaxSendSGE, k.Cap.MaxInlineData = want.MaxSendSGE, want.MaxInlineData
	d := &abi.MLX5IBCreateQP{BufAddr: q.queue.ring.addr(), DbAddr: uint64(q.queue.record.addr()),
		SQWQECount: uint32(s.blocks), RQWQECount: uint32(s.wqes), Flags: q.own.flags, Uidx: c.userIndex(),
		SQBufAddr: q.sends.addr(), ECEOptions: c.firstECE(), DCIStreams: q.own.streams}
	if s.stride > 0 {
		d.RQWQEShift = uint32(bits.TrailingZeros64(s.stride))
	}
	if q.own.flags&abi.MLX5_QP_FLAG_TYPE_DCT != 0 {
		d.BufAddr, d.DbAddr, d.SQBufAddr, q.reg = 0, 0, q.own.key, nil
	} else if q.reg == nil && c.bars.static == nil {
		var err error
		if q.reg, err = c.bars.shared(0); err != nil {
			return err
		}
	}
	switch {
	case q.reg == nil:
	case q.reg.bar.dynamic:
		d.Flags, d.BfregIndex = d.Flags|abi.MLX5_QP_FLAG_UAR_PAGE_INDEX, q.reg.bar.page
	default:
		d.Flags, d.BfregIndex = d.Flags|abi.MLX5_QP_FLAG_BFREG_INDEX, q.reg.number
	}
	resp := new(abi.MLX5IBCreateQPResp)
	r, err := c.file.CreateQP(&k.UverbsCreateQP, k.options, uverbs.Driver{In: uverbs.Bytes(d), Out: uverbs.Bytes(resp)})
	if err != nil {
		return err
	}
	q.kernel, q.number = r.QPHandle, r.QPN
	q.ece.granted(resp.ECEOptions)
	err = deviceNumber24("create_qp", "qpn", r.QPN)
	if err == nil && q.reg == nil && !q.opened {
		q.reg, err = c.bars.shared(resp.BfregIndex)
	}
	q.own.numbers = *resp
	if err != nil {
		_, e := c.file.DestroyQP(q.kernel)
		return c.undo(err, e)
	}
	// The kernel may grant less than there is room for, not more.
	want.MaxSendSGE = min(want.MaxSendSGE, r.Cap.MaxSendSGE)
	want.MaxInlineData = min(want.MaxInlineData, r.Cap.MaxInlineData)
	q.init.Cap = want
	return nil
}

// DestroyQP ends a QP, when its events were acknowledged. Its completions stay in its CQs.
func (q *qp) DestroyQP() error {
	n, err := q.c.file.DestroyQP(q.kernel)
	return q.retire("destroy_qp", err, q.sends, reported{&q.async, n})
}

// CmdDestroyQP ends the kernel's QP only: for a QP of OpenQP, which has no memory.
func (q *qp) CmdDestroyQP() error { return q.DestroyQP() }

// QPNumber returns the number of a QP.
func (q *qp) QPNumber() uint32 { return q.number }

// QPState returns where the state of a QP is.
func (q *qp) QPState() *atomic.Uint32 { return &q.state }

// InitQP returns the rings of a QP.
func (q *qp) InitQP(mask uint64) (*abi.MLX5DVQP, error) {
	if q.opened {
		return nil, syscall.EINVAL
	}
	s, buf := &q.sizes, uintptr(q.queue.ring.addr())
	o := &abi.MLX5DVQP{DBRec: q.queue.record.addr()}
	if s.wqes > 0 {
		o.RQ.Buf, o.RQ.WQECnt, o.RQ.Stride = buf, uint32(s.wqes), uint32(s.stride)
	}
	if s.blocks > 0 {
		o.SQ.Buf, o.SQ.WQECnt, o.SQ.Stride = buf+uintptr(s.wqes*s.stride), uint32(s.blocks), blockSize
		if q.sends.chunk != nil {
			o.SQ.Buf = uintptr(q.sends.addr())
		}
	}
	o.BF.Reg = q.reg.addr()
	if q.reg.bar != q.c.bars.common || q.reg.number != 0 {
		o.BF.Size = q.c.info.BFRegSize / 2
	}
	q.optional(o, mask)
	return o, nil
}

// optional fills in the numbers that mask wants.
func (q *qp) optional(o *abi.MLX5DVQP, mask uint64) {
	if mask&abi.MLX5DV_QP_MASK_UAR_MMAP_OFFSET != 0 && q.reg.bar.mem != nil {
		o.UARMmapOffset = q.reg.bar.at
		o.CompMask |= abi.MLX5DV_QP_MASK_UAR_MMAP_OFFSET
	}
	if mask&abi.MLX5DV_QP_MASK_RAW_QP_HANDLES != 0 {
		n := &q.own.numbers
		o.TIRN, o.TISN, o.RQN, o.SQN = n.TIRN, n.TISN, n.RQN, n.SQN
		o.CompMask |= abi.MLX5DV_QP_MASK_RAW_QP_HANDLES
	}
}
