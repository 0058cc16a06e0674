package mlx5

import (
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

func toDest(a *abi.AHAttr) abi.UverbsQPDest {
	return abi.UverbsQPDest{DGID: a.GRH.DGID, FlowLabel: a.GRH.FlowLabel, DLID: a.DLID, SGIDIndex: a.GRH.SGIDIndex,
		HopLimit: a.GRH.HopLimit, TrafficClass: a.GRH.TrafficClass, SL: a.SL, SrcPathBits: a.SrcPathBits,
		StaticRate: a.StaticRate, IsGlobal: a.IsGlobal, PortNum: a.PortNum}
}

func fromDest(d *abi.UverbsQPDest) abi.AHAttr {
	return abi.AHAttr{DLID: d.DLID, SL: d.SL, SrcPathBits: d.SrcPathBits, StaticRate: d.StaticRate,
		IsGlobal: d.IsGlobal, PortNum: d.PortNum, GRH: abi.GlobalRoute{DGID: d.DGID, FlowLabel: d.FlowLabel,
			SGIDIndex: d.SGIDIndex, HopLimit: d.HopLimit, TrafficClass: d.TrafficClass}}
}

// choose copies *from to *to if mask has bit.
func choose[T any](mask, bit uint32, to *T, from T) {
	if mask&bit != 0 {
		*to = from
	}
}

// modification returns the request, with the attributes that mask names. The kernel wants the others to be zero.
func modification(a *abi.QPAttr, mask uint32) *abi.UverbsModifyQP {
	m := &abi.UverbsModifyQP{AttrMask: mask}
	choose(mask, abi.IBV_QP_STATE, &m.QPState, uint8(a.QPState))
	choose(mask, abi.IBV_QP_CUR_STATE, &m.CurQPState, uint8(a.CurQPState))
	choose(mask, abi.IBV_QP_EN_SQD_ASYNC_NOTIFY, &m.EnSqdAsyncNotify, a.EnSqdAsyncNotify)
	choose(mask, abi.IBV_QP_ACCESS_FLAGS, &m.QPAccessFlags, a.QPAccessFlags)
	choose(mask, abi.IBV_QP_PKEY_INDEX, &m.PKeyIndex, a.PKeyIndex)
	choose(mask, abi.IBV_QP_PORT, &m.PortNum, a.PortNum)
	choose(mask, abi.IBV_QP_QKEY, &m.QKey, a.QKey)
	choose(mask, abi.IBV_QP_AV, &m.Dest, toDest(&a.AHAttr))
	choose(mask, abi.IBV_QP_PATH_MTU, &m.PathMTU, uint8(a.PathMTU))
	choose(mask, abi.IBV_QP_TIMEOUT, &m.Timeout, a.Timeout)
	choose(mask, abi.IBV_QP_RETRY_CNT, &m.RetryCnt, a.RetryCnt)
	choose(mask, abi.IBV_QP_RNR_RETRY, &m.RNRRetry, a.RNRRetry)
	choose(mask, abi.IBV_QP_RQ_PSN, &m.RQPSN, a.RQPSN)
	choose(mask, abi.IBV_QP_MAX_QP_RD_ATOMIC, &m.MaxRdAtomic, a.MaxRdAtomic)
	choose(mask, abi.IBV_QP_ALT_PATH, &m.AltDest, toDest(&a.AltAHAttr))
	choose(mask, abi.IBV_QP_ALT_PATH, &m.AltPKeyIndex, a.AltPKeyIndex)
	choose(mask, abi.IBV_QP_ALT_PATH, &m.AltPortNum, a.AltPortNum)
	choose(mask, abi.IBV_QP_ALT_PATH, &m.AltTimeout, a.AltTimeout)
	choose(mask, abi.IBV_QP_MIN_RNR_TIMER, &m.MinRNRTimer, a.MinRNRTimer)
	choose(mask, abi.IBV_QP_SQ_PSN, &m.SQPSN, a.SQPSN)
	choose(mask, abi.IBV_QP_MAX_DEST_RD_ATOMIC, &m.MaxDestRdAtomic, a.MaxDestRdAtomic)
	choose(mask, abi.IBV_QP_PATH_MIG_STATE, &m.PathMigState, uint8(a.PathMigState))
	choose(mask, abi.IBV_QP_DEST_QPN, &m.DestQPNum, a.DestQPNum)
	return m
}

// ModifyQP changes the attributes of a QP that mask names. In RESET its counters begin again.
func (q *qp) ModifyQP(a *abi.QPAttr, mask uint32) error {
	var err error
	m := modification(a, mask)
	m.QPHandle = q.kernel
	if want := q.ece.want(); want != 0 || mask&abi.IBV_QP_RATE_LIMIT != 0 || q.own.extended() {
		resp := new(abi.MLX5IBModifyQPResp)
		err = q.c.file.ModifyQPEx(m, a.RateLimit, uverbs.Driver{In: uverbs.Bytes(q.own.modification(m, want)),
			Out: uverbs.Bytes(resp)})
		if err == nil {
			err = q.opensDCT(m, resp)
		}
		if err == nil && want != 0 {
			q.ece.granted(resp.ECEOptions)
		}
	} else {
		err = q.c.file.ModifyQP(m)
	}
	if err != nil {
		return err
	}
	if mask&abi.IBV_QP_STATE != 0 {
		if a.QPState == abi.IBV_QPS_RESET && !q.opened {
			q.queue.record.zero()
		}
		q.state.Store(a.QPState)
		if a.QPState == abi.IBV_QPS_INIT {
			return q.inInit()
		}
	}
	return nil
}

// inInit sets in INIT for what the kernel has no attributes.
func (q *qp) inInit() (err error) {
	if q.own.drains {
		err = q.drainAtErrors()
	}
	if err == nil && q.own.copies {
		err = q.permitCopies()
	}
	return err
}

// QueryQP returns the attributes of a QP. init may be nil.
func (q *qp) QueryQP(a *abi.QPAttr, mask uint32, init *abi.QPInitAttrEx) error {
	r, err := q.c.file.QueryQP(q.kernel, mask)
	if err != nil {
		return err
	}
	c := q.init.Cap
	*a = r.QPAttr()
	a.Cap, a.AHAttr, a.AltAHAttr = c, fromDest(&r.Dest), fromDest(&r.AltDest)
	if init != nil {
		*init = abi.QPInitAttrEx{QPContext: q.init.QPContext, SendCQ: q.init.SendCQ, RecvCQ: q.init.RecvCQ,
			SRQ: q.init.SRQ, QPType: q.init.QPType, Cap: c, SQSigAll: int32(r.SQSigAll)}
	}
	q.state.Store(uint32(r.QPState))
	return nil
}

// AttachMcast makes a QP receive what is sent to a group.
func (q *qp) AttachMcast(gid *abi.GID, lid uint16) error {
	return q.c.file.Mcast(true, q.kernel, *gid, lid)
}

// DetachMcast undoes AttachMcast.
func (q *qp) DetachMcast(gid *abi.GID, lid uint16) error {
	return q.c.file.Mcast(false, q.kernel, *gid, lid)
}

// extended reports whether the QP is modified by the longer command alone.
func (o *own) extended() bool { return o.flags&abi.MLX5_QP_FLAG_TYPE_DCT != 0 || o.ordered }

// modification returns the driver's part of a modification.
func (o *own) modification(m *abi.UverbsModifyQP, ece uint32) *abi.MLX5IBModifyQP {
	d := &abi.MLX5IBModifyQP{ECEOptions: ece}
	if o.ordered && m.AttrMask&abi.IBV_QP_STATE != 0 && m.QPState == abi.IBV_QPS_INIT {
		d.CompMask = abi.MLX5_IB_MODIFY_QP_OOO_DP
	}
	return d
}

// opensDCT takes the number of a DCT, which it gets in RTR.
func (q *qp) opensDCT(m *abi.UverbsModifyQP, r *abi.MLX5IBModifyQPResp) error {
	if q.own.flags&abi.MLX5_QP_FLAG_TYPE_DCT == 0 || m.AttrMask&abi.IBV_QP_STATE == 0 || m.QPState != abi.IBV_QPS_RTR {
		return nil
	}
	if r.ResponseLength < 8 || r.Dctn == 0 {
		return &uverbs.ReplyError{Command: "modify_qp_ex", Field: "dctn", Got: uint64(r.Dctn),
			Want: "the number of a DCT"}
	}
	if err := deviceNumber24("modify_qp_ex", "dctn", r.Dctn); err != nil {
		return err
	}
	q.number = r.Dctn
	return nil
}
