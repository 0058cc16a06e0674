package mlx5

import (
	"encoding/binary"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
)

// createFlags are the flags of mlx5dv and of abi.MLX5IBCreateQP.
var createFlags = [...]struct{ dv, own uint32 }{
	{abi.MLX5DV_QP_CREATE_TUNNEL_OFFLOADS, abi.MLX5_QP_FLAG_TUNNEL_OFFLOADS},
	{abi.MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC, abi.MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC},
	{abi.MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_MC, abi.MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC},
	{abi.MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE, abi.MLX5_QP_FLAG_SCATTER_CQE | abi.MLX5_QP_FLAG_ALLOW_SCATTER_CQE},
	{abi.MLX5DV_QP_CREATE_PACKET_BASED_CREDIT_MODE, abi.MLX5_QP_FLAG_PACKET_BASED_CREDIT_MODE},
	{abi.MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE, 0},
	{abi.MLX5DV_QP_CREATE_OOO_DP, 0},
	{abi.MLX5DV_QP_CREATE_SIG_PIPELINING, 0},
}

// CreateQP makes a QP with attributes of mlx5.
func (c *context) CreateQP(a *abi.QPInitAttrEx, dv *abi.MLX5DVQPInitAttr) (handle, error) {
	o, err := c.ownOf(a, dv)
	if err != nil {
		return 0, err
	}
	return c.v.createQP(a.PD, a, o)
}

func (c *context) ownOf(a *abi.QPInitAttrEx, dv *abi.MLX5DVQPInitAttr) (o own, err error) {
	const masks = abi.MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS | abi.MLX5DV_QP_INIT_ATTR_MASK_DC |
		abi.MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS | abi.MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS
	dc := dv.CompMask&abi.MLX5DV_QP_INIT_ATTR_MASK_DC != 0
	switch {
	case dv.CompMask&^masks != 0:
		return o, control.ErrNotNative
	case dc != (a.QPType == abi.IBV_QPT_DRIVER):
		return o, syscall.EINVAL
	}
	o.flags = scatterFlag()
	if dv.CompMask&abi.MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS != 0 {
		if err := o.create(dv.CreateFlags); err != nil {
			return o, err
		}
		if o.ordered {
			if d, err := c.driver(); err != nil || d.Flags&abi.MLX5_IB_QUERY_DEV_RESP_FLAGS_OOO_DP == 0 {
				return o, also(syscall.EOPNOTSUPP, err)
			}
		}
		if o.drains && c.info.CompMask&abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_SQD2RTS == 0 {
			return o, syscall.EOPNOTSUPP
		}
	}
	if dv.CompMask&abi.MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS != 0 {
		o.ops = dv.SendOpsFlags
	}
	if o.ops&abi.MLX5DV_QP_EX_WITH_MEMCPY != 0 {
		g := c.queryCaps(capsGeneral)
		if g.memcpy() == 0 {
			return o, syscall.EOPNOTSUPP
		}
		o.copies = g.has(capMemcpyQP)
	}
	if !dc {
		return o, nil
	}
	return o, c.dynamic(&o, dv)
}

// create takes the flags of mlx5dv.
func (o *own) create(flags uint32) error {
	const disable, allow = abi.MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE, abi.MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE
	if flags&(disable|allow) == disable|allow {
		return syscall.EINVAL
	}
	if flags&disable != 0 {
		o.flags = 0
	}
	o.ordered = flags&abi.MLX5DV_QP_CREATE_OOO_DP != 0
	o.drains = flags&abi.MLX5DV_QP_CREATE_SIG_PIPELINING != 0
	for _, f := range createFlags {
		if flags&f.dv != 0 {
			o.flags |= f.own
			flags &^= f.dv
		}
	}
	if flags != 0 {
		return control.ErrNotNative
	}
	return nil
}

// dynamic takes the attributes of a DCI or a DCT.
func (c *context) dynamic(o *own, dv *abi.MLX5DVQPInitAttr) error {
	d, err := c.driver()
	if err != nil {
		return err
	}
	streams := dv.CompMask&abi.MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS != 0
	switch {
	case dv.DCInitAttr.DCType == abi.MLX5DV_DCTYPE_DCT && o.ops == 0 && !streams:
		if o.flags&^abi.MLX5_QP_FLAG_SCATTER_CQE != 0 || o.ordered {
			return syscall.EINVAL
		}
		if d.Flags&abi.MLX5_IB_QUERY_DEV_RESP_FLAGS_SCAT2CQE_DCT == 0 {
			o.flags = 0
		}
		o.flags |= abi.MLX5_QP_FLAG_TYPE_DCT
		o.key = dv.DCInitAttr.DCTAccessKey
	case dv.DCInitAttr.DCType == abi.MLX5DV_DCTYPE_DCI:
		o.flags |= abi.MLX5_QP_FLAG_TYPE_DCI
		if o.ops != 0 {
			o.flags &^= abi.MLX5_QP_FLAG_SCATTER_CQE
		}
		if streams {
			o.flags |= abi.MLX5_QP_FLAG_DCI_STREAM
			o.streams = [2]uint8{uint8(dv.DCInitAttr.DCTAccessKey), uint8(dv.DCInitAttr.DCTAccessKey >> 8)}
			if o.streams[0] > d.DCIStreamsCaps.MaxLogNumConcurent || o.streams[1] > d.DCIStreamsCaps.MaxLogNumErrored {
				return syscall.EINVAL
			}
		}
	default:
		return syscall.EINVAL
	}
	return nil
}

// drainAtErrors stops the send queue at a wrong signature.
func (q *qp) drainAtErrors() error {
	const option, drains, at = 1 << 11, 1 << 26, 28 * 8 // C: MLX5_QPC_OPT_MASK_INIT2INIT_DRAIN_SIGERR, qpc.drain_sigerr
	return q.modify(init2init, q.number, modifyQPSize, func(in []byte) {
		setBits(in, optionsAt, 32, option)
		setBits(in, at, 32, drains)
	})
}

// permitCopies lets a QP copy memory.
func (q *qp) permitCopies() error {
	const mask, permitted = 1 << 3, 1 << 5 // C: MLX5_QPC_OPT_MASK_32_INIT2INIT_MMO
	return q.extend(init2init, mask, func(ext []byte) { ext[0] = permitted })
}

// DCIStreamIDReset ends the error of a stream.
func (q *qp) DCIStreamIDReset(stream uint16) error {
	const mask = 1 << 0 // C: MLX5_QPC_OPT_MASK_32_DCI_STREAM_CHANNEL_ID
	switch {
	case q.own.flags&abi.MLX5_QP_FLAG_TYPE_DCI == 0:
		return syscall.EINVAL
	case q.state.Load() != abi.IBV_QPS_RTS:
		return syscall.EOPNOTSUPP
	}
	return q.extend(rts2rts, mask, func(ext []byte) { binary.BigEndian.PutUint16(ext[2:], stream) })
}
