package ucma

import (
	"fmt"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

// pairs changes the queue pairs of IDs.
type pairs struct{ v control.Verbs }

// begin moves a new QP to its first state, and exchanges what both ends know of enhanced connections.
func (p pairs) begin(w usercm.Writer, i *id, qp control.Handle) error {
	if err := initECE(p.v, i, qp); err != nil {
		return err
	}
	if err := p.toState(w, i, qp, abi.IBV_QPS_INIT, nil); err != nil {
		return err
	}
	if i.typ != abi.IBV_QPT_UD {
		return agreeECE(p.v, i, qp)
	}
	if err := p.v.ModifyQP(qp, &abi.QPAttr{QPState: abi.IBV_QPS_RTR}, abi.IBV_QP_STATE); err != nil {
		return err
	}
	return p.v.ModifyQP(qp, &abi.QPAttr{QPState: abi.IBV_QPS_RTS}, abi.IBV_QP_STATE|abi.IBV_QP_SQ_PSN)
}

func initQPAttr(w usercm.Writer, i *id, attr *abi.QPAttr) (mask uint32, err error) {
	q, r := abi.UCMQuery{ID: i.number, Arg: attr.QPState}, abi.UverbsQPAttr{}
	if err := usercm.Ask(w, usercm.CmdInitQPAttr, &q, &q.Response, &r); err != nil {
		return 0, err
	}
	if r.QPState != attr.QPState {
		return 0, &usercm.ReplyError{Command: usercm.CmdInitQPAttr, What: "the state", Got: fmt.Sprint(r.QPState),
			Want: fmt.Sprint(attr.QPState)}
	}
	*attr = r.QPAttr()
	return r.QPAttrMask, nil
}

// kernelBits are of the kernel's mask only: attributes for RoCE, which ibv_modify_qp does not know.
const kernelBits = 0x1e00000

// toState moves a QP to the state that the connection has for it. change may be nil.
func (p pairs) toState(w usercm.Writer, i *id, qp control.Handle, state uint32, change func(*abi.QPAttr)) error {
	attr := abi.QPAttr{QPState: state}
	mask, err := initQPAttr(w, i, &attr)
	if err != nil {
		return err
	}
	if change != nil {
		change(&attr)
	}
	return p.v.ModifyQP(qp, &attr, mask&^kernelBits)
}

// bringUp moves the QP of an ID, if it has one, from INIT to RTS. INIT comes again, because only now the kernel knows
// which access the connection needs. most, if not nil, are the reads and atomics.
func (p pairs) bringUp(w usercm.Writer, i *id, most *limits) error {
	qp := i.now().qp.handle
	if qp == 0 {
		return nil
	}
	for _, s := range []struct {
		state  uint32
		change func(*abi.QPAttr)
	}{
		{abi.IBV_QPS_INIT, func(*abi.QPAttr) {}},
		{abi.IBV_QPS_RTR, func(a *abi.QPAttr) { a.MaxDestRdAtomic = most.responder }},
		{abi.IBV_QPS_RTS, func(a *abi.QPAttr) { a.MaxRdAtomic = most.initiator }},
	} {
		if most == nil {
			s.change = nil
		}
		if err := p.toState(w, i, qp, s.state, s.change); err != nil {
			return err
		}
	}
	return nil
}

// stop ends what the QP of an ID is doing, if it has one: its work requests complete with an error. On iWARP the
// kernel moves the QP on from SQD.
func (p pairs) stop(i *id) error {
	s := i.now()
	if s.qp.handle == 0 {
		return nil
	}
	state := uint32(abi.IBV_QPS_ERR)
	if s.dev != nil && s.dev.transport == abi.IBV_TRANSPORT_IWARP {
		state = abi.IBV_QPS_SQD
	}
	return p.v.ModifyQP(s.qp.handle, &abi.QPAttr{QPState: state}, abi.IBV_QP_STATE)
}

// join notes what the event of a join has, and attaches the QP of the ID, if it has one and is to receive.
func (p pairs) join(g *group, to *abi.AHAttr) error {
	g.id.mu.Lock()
	g.joined, g.mgid, g.mlid = true, to.GRH.DGID, to.DLID
	qp, gid, lid := g.id.qp.handle, g.mgid, g.mlid
	g.id.mu.Unlock()
	if qp == 0 || g.sendOnly {
		return nil
	}
	return p.v.AttachMcast(qp, &gid, lid)
}
