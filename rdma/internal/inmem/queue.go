package inmem

import (
	"context"
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/fifo"
)

// receive is a receive that was posted.
type receive struct {
	id  uint64
	sge ibv.SGE
}

// RQ has receives, of one queue pair or of several.
type RQ struct {
	a    *Adapter
	list fifo.Queue[receive]
	qps  map[*QP]struct{} // that take from it
}

// NewRQ returns a receive queue.
func (a *Adapter) NewRQ() *RQ { return &RQ{a: a, qps: make(map[*QP]struct{})} }

// PostRecv adds receives, each with one SGE, and returns how many.
func (r *RQ) PostRecv(wrs []ibv.RecvWR) (int, error) {
	r.a.mu.Lock()
	defer r.a.mu.Unlock()
	for _, wr := range wrs {
		r.list.Push(receive{wr.ID, wr.SGEs[0]})
	}
	for q := range r.qps { // their peers may have waited
		if q.peer != nil {
			q.peer.settle()
		}
	}
	return len(wrs), nil
}

// pop takes a receive.
// Preconditions: a.mu is held.
func (r *RQ) pop() (receive, bool) {
	if r.list.Len() == 0 {
		return receive{}, false
	}
	return r.list.Pop(), true
}

// request is a work request that was posted, with a copy of its inline data.
type request struct {
	wr     ibv.SendWR
	sge    [maxSGE]ibv.SGE
	sges   int
	inline [maxInline]byte
	n      int // bytes of inline
}

// QP is a queue pair of a reliable connection.
type QP struct {
	a      *Adapter
	num    uint32
	cq     *CQ
	rq     *RQ
	own    bool // nobody else receives from rq
	peer   *QP
	access ibv.AccessFlags // of the peer
	failed bool
	mute   bool                // it must not post
	queue  fifo.Queue[request] // posted, and not done
}

// NewQP returns a queue pair that completes to cq and receives from rq; if that is nil, it has a queue of its own.
func (a *Adapter) NewQP(cq *CQ, rq *RQ) *QP {
	own := rq == nil
	if own {
		rq = a.NewRQ()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastQPN++
	q := &QP{a: a, num: a.lastQPN, cq: cq, rq: rq, own: own}
	rq.qps[q] = struct{}{}
	return q
}

// Connect makes q and p the ends of a connection, in which q dials.
func (q *QP) Connect(p *QP) {
	q.a.mu.Lock()
	defer q.a.mu.Unlock()
	q.peer, p.peer = p, q
	p.mute = q.a.Transport().DialerFirst()
}

// Cap returns the sizes.
func (q *QP) Cap() ibv.QPCap { return q.a.Granted }

// Num returns the number.
func (q *QP) Num() uint32 { return q.num }

// Allow sets what the peer may do with memory of this end.
func (q *QP) Allow(access ibv.AccessFlags) error {
	q.a.mu.Lock()
	defer q.a.mu.Unlock()
	q.access = access
	return nil
}

// PostRecv adds receives to the queue that q receives from.
func (q *QP) PostRecv(wrs []ibv.RecvWR) (int, error) { return q.rq.PostRecv(wrs) }

// PostSend posts work requests. Inline data may be reused when it returns.
func (q *QP) PostSend(wrs []ibv.SendWR) (int, error) {
	q.a.mu.Lock()
	defer q.a.mu.Unlock()
	if q.mute && !q.failed {
		return 0, errors.New("the side that accepts sends before it has received")
	}
	for i := range wrs {
		wr := &wrs[i]
		if g := &q.a.Granted; len(wr.Inline) > g.MaxInline || len(wr.SGEs) > g.MaxSendSGE {
			q.settle()
			return i, fmt.Errorf("%d bytes inline and %d SGEs: the limits are %d and %d", len(wr.Inline), len(wr.SGEs),
				g.MaxInline, g.MaxSendSGE)
		}
		if most := q.a.Granted.MaxSendWR; q.queue.Len() >= most {
			q.settle()
			return i, fmt.Errorf("%d work requests under way: the limit is %d", q.queue.Len(), most)
		}
		if int(wr.Opcode) >= len(wcOpcodes) {
			q.settle()
			return i, fmt.Errorf("opcode %v: not on connections in memory", wr.Opcode)
		}
		r := request{wr: *wr, sges: len(wr.SGEs), n: len(wr.Inline)}
		copy(r.sge[:], wr.SGEs)
		copy(r.inline[:], wr.Inline)
		r.wr.SGEs, r.wr.Inline = nil, nil
		q.queue.Push(r)
	}
	q.settle()
	return len(wrs), nil
}

// Rest completes everything that is posted, now and later, with WCWRFlushErr. The receives of an RQ of its own complete
// likewise.
func (q *QP) Rest(context.Context) error {
	q.a.mu.Lock()
	defer q.a.mu.Unlock()
	q.failed = true
	q.settle()
	for len(q.rq.qps) == 1 {
		r, ok := q.rq.pop()
		if !ok {
			break
		}
		q.cq.push(ibv.WC{ID: r.id, Status: ibv.WCWRFlushErr, QPN: q.num})
	}
	return nil
}

// Mark posts a work request whose completion follows all others of a queue pair that has failed, and another one to a
// queue of its own.
func (q *QP) Mark(_ context.Context, id uint64) (needless bool, err error) {
	q.a.mu.Lock()
	defer q.a.mu.Unlock()
	q.cq.push(ibv.WC{ID: id, Status: ibv.WCWRFlushErr, QPN: q.num})
	if q.own {
		q.cq.push(ibv.WC{ID: id, Status: ibv.WCWRFlushErr, QPN: q.num})
	}
	return false, nil
}

// Close forgets the queue pair.
func (q *QP) Close() {
	q.a.mu.Lock()
	defer q.a.mu.Unlock()
	q.failed = true
	q.settle()
	delete(q.rq.qps, q)
}

// settle does what can be done at both ends: the failure of one lets what waits at the other fail.
// Preconditions: a.mu is held.
func (q *QP) settle() {
	q.run()
	if q.peer != nil {
		q.peer.run()
		q.run()
	}
}

// run does what is posted, until a SEND finds no receive.
// Preconditions: a.mu is held.
func (q *QP) run() {
	for q.queue.Len() > 0 {
		r := q.queue.First()
		status := ibv.WCWRFlushErr
		n := 0
		if !q.failed {
			var wait bool
			if n, status, wait = q.do(r); wait {
				return
			}
		}
		if r.wr.Flags&ibv.Signaled != 0 || status != ibv.WCSuccess {
			q.cq.push(ibv.WC{ID: r.wr.ID, Status: status, Opcode: wcOpcodes[r.wr.Opcode], ByteLen: uint32(n),
				QPN: q.num})
		}
		q.queue.Pop()
		q.failed = q.failed || status != ibv.WCSuccess
	}
}
