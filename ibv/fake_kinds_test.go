package ibv

import (
	"testing"

	"github.com/pureverbs/pureverbs/internal/work"
)

// Each kind that libibverbs posts is posted: by a QP whose SendOps name it, and, where struct ibv_send_wr has room for
// it, by one without. Its completion succeeds.
func TestFake_Kinds(t *testing.T) {
	flushing(t)
	set(t, "tso.max", 4096)
	set(t, "tso.qpts", 1<<RawPacket)
	for op := range Opcode(len(work.Kinds)) {
		k := &work.Kinds[op]
		if k.SendOp == 0 {
			continue
		}
		for _, ops := range []SendOps{SendOps(k.SendOp), 0} {
			if ops == 0 && k.By == work.BySendOps || ops != 0 && fakeLacks>>op&1 != 0 {
				continue
			}
			t.Run(op.String()+" with SendOps "+ops.String(), func(t *testing.T) { fakeKind(t, op, k, ops) })
		}
	}
}

// fakeLacks are the kinds for which the fake library's struct ibv_qp_ex has no function.
const fakeLacks = 1<<OpBindMW | 1<<OpTSO

func fakeKind(t *testing.T, op Opcode, k *work.Kind, ops SendOps) {
	s := fakeSide(t, nil)
	access := LocalWrite | RemoteWrite | RemoteRead | RemoteAtomic | MWBind | FlushGlobal
	mr := closing(t, must(s.pd.AllocMR(4096, access, nil))(t))
	o := &QPOptions{MaxSendSGE: 2, MaxInline: 64, SendOps: ops}
	if k.Fields&work.TSO != 0 {
		o.Type, o.Raw.MaxTSOHeader = RawPacket, 100
	}
	s.newQP(t, o)
	if o.Type == RawPacket {
		rawReady(t, s.qp)
	} else {
		ok(t, s.qp.Connect(must(s.qp.Endpoint(1, 1))(t), nil))
		recv(t, s.qp, RecvWR{ID: 9, SGEs: []SGE{mr.SGE(2048, 64)}})
	}
	wr := SendWR{ID: 5, Opcode: op, Flags: Signaled, Remote: mr.Remote().At(1024), Imm: 7, CompareAdd: 1, Swap: 2,
		InvalidateRKey: 0x1234}
	if k.Fields&work.Data != 0 {
		wr.SGEs = []SGE{mr.SGE(0, 8)}
	}
	switch {
	case k.Fields&work.Window != 0:
		mw := closing(t, must(s.pd.AllocMW(MWType2))(t))
		wr.Bind = &BindMW{MW: mw, RKey: NextRKey(mw.RKey()), MR: mr, Addr: mr.Addr(), Length: 64, Access: RemoteRead}
	case k.Fields&work.Flush != 0:
		wr.Flush = &FlushRange{Type: FlushToMemory, Length: 8}
	case k.Fields&work.Value != 0:
		wr.Inline = make([]byte, 8)
	case k.Fields&work.TSO != 0:
		wr.TSO = &TSO{Header: make([]byte, 66), MSS: 4}
	}
	post(t, s.qp, wr)
	for {
		wc := s.next(t)
		if wc.Opcode.IsRecv() {
			continue
		}
		if wc.ID != 5 || wc.Status != WCSuccess || k.Device != 0 && wc.Opcode != WCOpcode(k.Completion) {
			t.Errorf("%+v", wc)
		}
		return
	}
}
