package efadv

import (
	"errors"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/bind/libefa"
	"github.com/pureverbs/pureverbs/internal/ops"
)

// CQOptions configures a CQ: ibv's options, and those of EFA alone.
//
// C: struct efadv_cq_init_attr.
type CQOptions struct {
	ibv.CQOptions

	SrcGID      bool // WCEx.SrcGID is the GID of a sender that has no AH here; needs CapCQWithSGID
	Unsolicited bool // WCEx.Unsolicited; needs CapUnsolicitedWrite
}

// C: EFADV_WC_EX_WITH_*.
const (
	wcSGID        = 1 << 0
	wcUnsolicited = 1 << 1
)

// CreateCQ creates a CQ for at least cqe completions; opt may be nil. PollEx and WaitEx return what SrcGID and
// Unsolicited ask for. It needs rdma-core v43.
//
// C: efadv_create_cq(3).
func CreateCQ(dev *ibv.Device, cqe int, opt *CQOptions) (*ibv.CQ, error) {
	const op = "efadv create cq"
	if opt == nil {
		opt = &CQOptions{}
	}
	lib, attr, err := query(dev, op)
	if err != nil {
		return nil, err
	}
	flags, err := flagsOf(dev, op, "a CQ", attr, option{opt.SrcGID, wcSGID, CapCQWithSGID},
		option{opt.Unsolicited, wcUnsolicited, CapUnsolicitedWrite})
	if err != nil {
		return nil, err
	}
	dv := &abi.EFADVCQInitAttr{WCFlags: flags}
	o := opt.CQOptions
	if o.Fields == 0 && dv.WCFlags != 0 {
		o.Fields = ibv.FieldsStandard
	}
	var refused error // in the words of libefa
	cq, err := verbs.CreateCQ(dev, cqe, &o, func(h uintptr, attr *abi.CQInitAttrEx) (cq uintptr, err error) {
		cq, err = lib.CreateCQ(h, attr, dv)
		refused = err
		return cq, err
	})
	if err := created(dev, op, "a CQ", refused, err); err != nil {
		return nil, err
	}
	if dv.WCFlags == 0 {
		return cq, nil
	}
	fn, obj, err := readers(lib, cq, op)
	if err != nil {
		return nil, errors.Join(explain(dev, op, "reading a completion", err), cq.Close())
	}
	r := ops.EFAReaders{CQ: obj}
	if opt.SrcGID {
		r.SGID = fn.WCReadSGID
	}
	if opt.Unsolicited { // behind the end of the struct of a library that lacks it
		r.Unsolicited = fn.WCIsUnsolicited
	}
	verbs.SetEFAReaders(cq, r)
	return cq, nil
}

func readers(lib libefa.Lib, cq *ibv.CQ, op string) (*abi.EFADVCQ, uintptr, error) {
	h, leave, err := verbs.EnterC(cq, op)
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	return lib.CQFromIBVCQEx(h)
}

// CQMemory is the memory of a CQ, for programs that poll it directly. ibv must then not poll it.
//
// C: struct efadv_cq_attr.
type CQMemory struct {
	Buffer    uintptr
	EntrySize int
	Entries   int
	Doorbell  uintptr // 0 without events
}

// QueryCQ returns the memory of a CQ. It needs rdma-core v59.
//
// C: efadv_query_cq(3).
func QueryCQ(cq *ibv.CQ) (m CQMemory, err error) {
	a := new(abi.EFADVCQAttr)
	ref, dev := verbs.Ref(cq)
	if err := ask("efadv query cq", "the memory of a CQ", "cq", ref, dev,
		func(lib libefa.Lib, h uintptr) error { return lib.QueryCQ(h, a) }); err != nil {
		return m, err
	}
	return CQMemory{a.Buffer, int(a.EntrySize), int(a.NumEntries), a.Doorbell}, nil
}
