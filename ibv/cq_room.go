package ibv

import "github.com/pureverbs/pureverbs/internal/ops"

// countSends makes polling free the room of the QP's send queue, if the QP has it counted.
func (cq *CQ) countSends(qp *QP) {
	if qp.sq.room == nil {
		return
	}
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if cq.ops.rooms == nil {
		cq.ops.rooms = make(map[uint32]*ops.Room)
	}
	cq.ops.rooms[qp.Num()] = qp.sq.room
}

// forgetSends undoes countSends, unless a new QP has got the number meanwhile.
func (cq *CQ) forgetSends(qp *QP) {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if cq.ops.rooms[qp.Num()] == qp.sq.room {
		delete(cq.ops.rooms, qp.Num())
	}
	if len(cq.ops.rooms) == 0 {
		cq.ops.rooms = nil
	}
}

// freeRoom notes the completions of send queues that are counted.
// Preconditions: cq.mu is held.
func (cq *CQ) freeRoom(wcs []WC) {
	for i := range wcs {
		room := cq.ops.rooms[wcs[i].QPN]
		switch {
		case room == nil:
		case wcs[i].Status != WCSuccess:
			room.Failed(wcs[i].ID)
		case !wcs[i].Opcode.IsRecv():
			room.Completed()
		}
	}
}
