package ibv

import "github.com/pureverbs/pureverbs/internal/ops"

// datagrams reports whether each work request of such QPs names its peer by an AH.
func (t QPType) datagrams() bool { return t == UD || t == SRD }

// checkSRD checks options of a QP of EFA's scalable reliable datagrams.
func (o *QPOptions) checkSRD(byEFADV bool, send, recv *CQ) error {
	switch {
	case o.Type != SRD:
		return nil
	case !byEFADV:
		return &UnsupportedError{Feature: "an SRD QP", Need: "efadv.CreateQP",
			Have: "a function that knows C's QP types only"}
	case o.SRQ != nil:
		return &ArgError{Arg: "SRQ", Got: "set", Want: "nil: SRD has receive queues of its own"}
	case send == nil || recv == nil:
		return &ArgError{Arg: "CQ", Got: "nil", Want: "CQs for both queues of an SRD QP"}
	case !o.SignalAll:
		return &ArgError{Arg: "SignalAll", Got: "false", Want: "true: EFA gives a completion for each work request"}
	}
	return nil
}

// wantSRDOps makes the ops engine post by ibv_wr_*: nothing else takes an address with an RDMA operation.
func (o *QPOptions) wantSRDOps(d *Device) error {
	switch {
	case o.Type != SRD:
		return nil
	case !d.v.HasQPToQPEx():
		return d.v.lacks("an SRD QP", "libibverbs of rdma-core v24 or later", "")
	case o.SendOps == 0:
		o.SendOps = SendOpSend | SendOpSendImm
	}
	return nil
}

// readEFA reads what only EFA has of the completion that p is at.
func (wc *WCEx) readEFA(p *ops.ExPoller) {
	var gid [16]byte
	gid, wc.HasSrcGID = p.SrcGID()
	wc.SrcGID = GID(gid)
	wc.Unsolicited = p.IsUnsolicited()
}
