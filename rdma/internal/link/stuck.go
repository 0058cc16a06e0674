package link

import (
	"errors"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/pace"
)

// A CQ whose next completion never becomes visible shows none of the later ones either, and no connection notices: its
// peer acknowledges what it sends. So each shard has a queue pair in the state ERR, the canary. Its work requests
// complete at once, and need no peer. When a CQ has been silent for a while, the shard posts one. If nothing completes
// then either, the engine has failed. A peer that is stopped or gone does not cause that.

var errStuckCQ = errors.New("the CQ shows no completion any more: the device has written one wrongly, or stopped")

// canary is a queue pair in the state ERR.
type canary struct {
	qp    *ibv.QP
	qpn   uint32
	sung  atomic.Bool  // it works on this device
	quiet pace.Silence // with tickMu
}

// openCanary makes the canary, and tries it. Without one, for example because the device has no queue pair left, a
// stuck CQ is not noticed.
func (e *Shard) openCanary() {
	cq := e.CQ.Device()
	qp, err := e.Engine.PD.CreateQP(cq, cq, &ibv.QPOptions{MaxSendWR: 1, MaxRecvWR: ibv.None})
	if err != nil {
		return
	}
	init := &ibv.QPAttr{State: ibv.StateInit, Port: 1}
	if qp.Modify(init, ibv.MaskState|ibv.MaskPKeyIndex|ibv.MaskPort|ibv.MaskAccessFlags) != nil ||
		qp.Modify(&ibv.QPAttr{State: ibv.StateErr}, ibv.MaskState) != nil {
		_ = qp.Close()
		return
	}
	e.Engine.own.Store(qp, true)
	e.canary.qp, e.canary.qpn = qp, qp.Num()
	e.ask()
}

// ask has the canary complete a work request.
func (e *Shard) ask() {
	_, _ = e.canary.qp.PostSend([]ibv.SendWR{{Opcode: ibv.OpSend, Flags: ibv.Signaled}}) // a failure is a silence
}

// listen checks whether the CQ is stuck.
// Preconditions: tickMu is held.
func (e *Shard) listen() {
	c := &e.canary
	if c.qp == nil || !c.sung.Load() {
		return
	}
	switch c.quiet.Beat(e.Stat.Completions.Load(), e.Members.Places.Load() > 0) {
	case pace.Ask:
		e.ask()
	case pace.Stuck:
		before := e.Stat.Completions.Load()
		e.Progress.CatchUp(e.Engine.Gone.Done()) // the poller may have had no processor
		if e.Stat.Completions.Load() == before {
			e.Engine.failAll(errStuckCQ)
		}
	}
}
