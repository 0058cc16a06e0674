package ibv

import (
	"errors"

	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/ops"
	"github.com/pureverbs/pureverbs/internal/work"
)

// isDC reports whether the type is of mlx5's dynamically connected transport.
func (t QPType) isDC() bool { return t == DCI || t == DCT }

// toC returns C's number.
func (t QPType) toC() uint32 {
	if t.isDC() || t == SRD {
		t = Driver
	}
	return uint32(t)
}

// checkDC checks options of a DC QP, and drops the sizes of queues that it does not have.
func (o *QPOptions) checkDC(byMlx5dv bool) error {
	switch {
	case !o.Type.isDC():
		return nil
	case !byMlx5dv:
		return &UnsupportedError{Feature: "a " + o.Type.String() + " QP", Need: "mlx5dv.CreateQP",
			Have: "a function that knows C's QP types only"}
	case o.Type == DCT && o.SRQ == nil:
		return &ArgError{Arg: "SRQ", Got: "nil", Want: "an SRQ: a DCT has no receive queue of its own"}
	case o.Type == DCI && o.SRQ != nil:
		return &ArgError{Arg: "SRQ", Got: "set", Want: "nil: a DCI does not receive"}
	case o.Type == DCT:
		o.MaxSendWR, o.MaxSendSGE, o.MaxInline = 0, 0, 0
	case o.Type == DCI:
		o.MaxRecvWR, o.MaxRecvSGE = 0, 0
	}
	return nil
}

// wantSendOps makes the ops engine post by ibv_wr_* on a DCI, since nothing else takes the number and the key of a DCT,
// and where mlx5's own work requests are posted.
func (o *QPOptions) wantSendOps(d *Device, path DataPath, mlx5 bool) error {
	switch {
	case o.Type != DCI && !mlx5 || path != DataPathOps:
		return nil
	case !d.v.HasQPToQPEx():
		return d.v.lacks("posting by ibv_wr_* on a "+o.Type.String()+" QP of CQs made with DataPathOps",
			"libibverbs of rdma-core v24 or later, or CQs of the direct data path", "")
	case o.SendOps != 0:
		return nil
	}
	o.SendOps = SendOps(work.SendFlagsOf(work.GrantedTo(workType(o.Type), work.ByType|work.ByAtomics) &^ d.lackedOps()))
	return nil
}

// dcSetters are the functions by which the ops engine names a DCT.
func (sq *sender) dcSetters(ex uintptr) (*ops.DCSetters, error) {
	dv, err := sq.mlx5Ex(ex)
	if err != nil {
		return nil, err
	}
	return ops.NewDCSetters(dv, sq.qp.make.streams), nil
}

// mlx5Ex returns the struct mlx5dv_qp_ex of a struct ibv_qp_ex.
func (sq *sender) mlx5Ex(ex uintptr) (uintptr, error) {
	lib, err := sq.qp.dev.v.mlx5()
	if err != nil {
		return 0, err
	}
	return lib.QPExFromIBVQPEx(ex)
}

// dctQuery has the attributes that can be queried of a DCT.
const dctQuery = MaskState | MaskAccessFlags | MaskPort | MaskMinRNRTimer | MaskAV | MaskPathMTU | MaskPKeyIndex

// explainQuery returns why a DCT cannot be queried.
func (qp *QP) explainQuery(err error, mask QPAttrMask) error {
	if qp.typ != DCT || !errors.Is(err, errInvalid) {
		return err
	}
	if s := qp.loadState(); s != StateRTR {
		return &StateError{Op: "query qp", State: s, Need: "RTR: a DCT is not there before"}
	}
	if odd := mask &^ dctQuery; odd != 0 {
		return &ArgError{Arg: "mask", Got: odd.String(), Want: "of " + QPAttrMask(dctQuery).String() + " on a DCT"}
	}
	return err
}

// errNoSend is why a DCT posts nothing.
var errNoSend = &ArgError{Arg: "qp", Got: "a DCT, which only receives", Want: "a DCI"}

// errNoRecv is why a DCI takes no receives.
var errNoRecv = &ArgError{Arg: "qp", Got: "a DCI, which only sends", Want: "the SRQ of a DCT"}

// takeDCT gives a DCT, which has no rings, the SRQ whose receives complete with its number. The number is 0 until the
// DCT is in RTR.
func (qp *QP) takeDCT() error {
	qp.recv.mu.Lock()
	defer qp.recv.mu.Unlock()
	if qp.recv.queues.xrc != nil {
		return &UnsupportedError{Feature: "a DCT and an XRC SRQ on one CQ of the direct data path",
			Need: "a CQ for each, or a CQ made with DataPathOps",
			Have: qp.recv.node.String() + ", which has an XRC SRQ"}
	}
	qp.recv.queues.dcts++
	qp.sq.direct = qp.dctRings()
	return nil
}

func (qp *QP) dctRings() *mlx5.QP {
	q := mlx5.NewQP(qp.num.Load(), false, nil, nil, qp.srq.direct)
	q.Carry(qp.inCQE.receives, false)
	return q
}

// openDCT runs modify, which moves a DCT to RTR: there it gets its number, and its completions may come before modify
// returns.
func (qp *QP) openDCT(modify func() error) error {
	qp.sq.mu.Lock()
	defer qp.sq.mu.Unlock()
	qp.rq.mu.Lock()
	defer qp.rq.mu.Unlock()
	d := &qp.dev.direct
	if qp.sq.direct != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.qps.Expect()
		defer d.qps.Expected()
	}
	if err := modify(); err != nil {
		return err
	}
	qp.num.Store(qp.dev.v.QPNumber(qp.handle))
	if qp.sq.direct != nil {
		qp.sq.direct = qp.dctRings()
		d.qps.Add(qp.sq.direct)
	}
	return nil
}
