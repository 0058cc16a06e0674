package efadv

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/bind/libefa"
)

// QPOptions configures an SRD queue pair: ibv's options, and those of EFA alone. The zero value selects
// the defaults. With SendOps 0 all that the device can do may be posted.
//
// C: struct efadv_qp_init_attr.
type QPOptions struct {
	ibv.QPOptions // Type and SignalAll are set by CreateQP

	SL                uint8 // service level
	UnsolicitedWrites bool  // a write with immediate from a peer consumes no receive
	InlineWrites      bool  // writes may carry their data in the work request
}

// Creation flags. C: EFADV_QP_FLAGS_*.
const (
	flagUnsolicited = 1 << 0
	flagInlineWrite = 1 << 1
)

// CreateQP creates an SRD queue pair in the state RESET; opt may be nil. Endpoint and Connect bring it up;
// it has no peer. Its CQs are of the ops data path.
//
// C: efadv_create_qp_ex(3).
func CreateQP(pd *ibv.PD, send, recv *ibv.CQ, opt *QPOptions) (*ibv.QP, error) {
	const op = "efadv create qp"
	if pd == nil {
		return nil, nilArg(op, "pd", "pd")
	}
	if opt == nil {
		opt = &QPOptions{}
	}
	dev := pd.Device()
	fail := func(err error) (*ibv.QP, error) { return nil, opError(op, dev.Name(), err) }
	lib, attr, err := query(dev, op)
	if err != nil {
		return nil, err
	}
	o := opt.QPOptions
	if o.Type != 0 && o.Type != ibv.SRD {
		return fail(&ibv.ArgError{Arg: "Type", Got: o.Type.String(), Want: "ibv.SRD, or 0"})
	}
	o.Type, o.SignalAll = ibv.SRD, true
	has := opsOf(DeviceCaps(attr.DeviceCaps))
	if o.SendOps == 0 {
		o.SendOps = has
	} else if o.SendOps&^has != 0 {
		return fail(&ibv.UnsupportedError{Feature: "posting " + (o.SendOps &^ has).String(),
			Need: "an adapter with RDMA reads and writes (DeviceAttr.Caps)",
			Have: dev.Name() + ", which has " + has.String()})
	}
	flags, err := flagsOf(dev, op, "a QP", attr, option{opt.UnsolicitedWrites, flagUnsolicited, CapUnsolicitedWrite},
		option{opt.InlineWrites, flagInlineWrite, CapWrite})
	if err != nil {
		return nil, err
	}
	if err := checkSizes(dev, &o, attr); err != nil {
		return fail(err)
	}
	ref, _ := verbs.Ref(dev) // pd keeps it open
	dv := &abi.EFADVQPInitAttr{Flags: uint16(flags), SL: opt.SL}
	var refused error // in the words of libefa
	qp, err := verbs.CreateSRD(pd, send, recv, &o, func(pd uintptr, init *abi.QPInitAttrEx) (qp uintptr, err error) {
		init.CompMask |= abi.IBV_QP_INIT_ATTR_PD
		init.PD = pd
		qp, err = lib.CreateQPEx(ref.Handle, init, dv)
		refused = err
		return qp, err
	})
	if err := created(dev, op, "an SRD QP", refused, err); err != nil {
		return nil, err
	}
	return qp, nil
}

// opsOf returns what can be posted.
func opsOf(c DeviceCaps) ibv.SendOps {
	ops := ibv.SendOpSend | ibv.SendOpSendImm
	if c&CapRead != 0 {
		ops |= ibv.SendOpRead
	}
	if c&CapWrite != 0 {
		ops |= ibv.SendOpWrite | ibv.SendOpWriteImm
	}
	return ops
}

// checkSizes compares with the adapter's own limits: those of ibv.DeviceAttr are of all its kinds of QPs.
func checkSizes(dev *ibv.Device, o *ibv.QPOptions, a *abi.EFADVDeviceAttr) error {
	for _, l := range []struct {
		what  string
		asked int
		most  int
	}{{"max_send_wr", o.MaxSendWR, int(a.MaxSQWR)}, {"max_recv_wr", o.MaxRecvWR, int(a.MaxRQWR)},
		{"max_send_sge", o.MaxSendSGE, int(a.MaxSQSGE)}, {"max_recv_sge", o.MaxRecvSGE, int(a.MaxRQSGE)},
		{"max_inline_data", o.MaxInline, max(int(a.InlineBufSize), int(a.InlineBufSizeEx))}} {
		if l.asked > l.most {
			return &ibv.LimitError{What: l.what, Asked: uint64(l.asked), Limit: uint64(l.most), Where: dev.Name()}
		}
	}
	return nil
}

// WQ is the memory of a work queue, for programs that fill it directly, for example from a GPU. ibv must then not post
// on the QP.
//
// C: struct efadv_wq_attr.
type WQ struct {
	Buffer    uintptr
	EntrySize int
	Entries   int
	Doorbell  uintptr
	MaxBatch  int  // entries for one doorbell
	WideIDs   bool // request IDs have 64 bits
}

func wqOf(a *abi.EFADVWQAttr) WQ {
	return WQ{a.Buffer, int(a.EntrySize), int(a.NumEntries), a.Doorbell, int(a.MaxBatch), a.Caps&1 != 0}
}

// QueryWQs returns the work queues of a QP. It needs rdma-core v59.
//
// C: efadv_query_qp_wqs(3).
func QueryWQs(qp *ibv.QP) (send, recv WQ, err error) {
	sq, rq := new(abi.EFADVWQAttr), new(abi.EFADVWQAttr)
	ref, dev := verbs.Ref(qp)
	if err := ask("efadv query wqs", "the memory of work queues", "qp", ref, dev,
		func(lib libefa.Lib, h uintptr) error { return lib.QueryQPWQs(h, sq, rq) }); err != nil {
		return send, recv, err
	}
	return wqOf(sq), wqOf(rq), nil
}
