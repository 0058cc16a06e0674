package ibv

import (
	"errors"
	"fmt"
	"math"

	"github.com/pureverbs/pureverbs/internal/mlx5"
)

// Posted has the last work requests of a QP, as far as its rings still have them, oldest first.
type Posted struct {
	QP    string // "mlx5_0/0x000041"
	Type  QPType
	Sends []PostedSend
	Recvs []PostedRecv // nil with an SRQ, whose receives belong to no QP
}

// PostedSend is a work request of a send queue, as the device reads it in the ring.
//
// Of SendWR it has what the opcode uses; ID on the direct data path alone. Opcode is ^Opcode(0) if
// the entry is none that PostSend makes; DeviceOpcode then has its number. SGEs lacks those of no bytes. Inline, AH,
// Bind, Mkey and TSO.Header are nil; the flag Inline means that data was copied into the entry. The flag Signaled is
// also set by QPOptions.SignalAll.
type PostedSend struct {
	SendWR
	Index     uint16 // where it begins in the ring, in blocks of 64 bytes: the wqe_counter of its completion
	State     PostedState
	Status    WCStatus // of its completion, if State is PostedFailed or PostedFlushed
	VendorErr uint32   // likewise

	InlineLen    int // bytes of data that were copied into it
	HeaderLen    int // bytes of a frame that were copied before them, or of TSO.Header
	Change       *PostedChange
	DeviceOpcode uint8
	Damaged      bool // something overwrote it: it is not as it was posted
}

// PostedChange is the effect of a work request on a key: OpBindMW, or OpDriver1 of an Mkey.
type PostedChange struct {
	Key, NewKey uint32
	LKey        uint32 // OpBindMW: of the memory
	Addr        uint64 // OpBindMW
	Length      uint64 // 0: bound to nothing, or not changed
	Access      AccessFlags
}

// PostedRecv is a work request of a receive queue. Its fields are as in PostedSend.
type PostedRecv struct {
	RecvWR
	Index     uint16 // its entry, counted from the first receive on
	State     PostedState
	Status    WCStatus
	VendorErr uint32
}

// LastPosted returns the last n work requests of each of the QP's queues, or as many as the rings
// still have. It is for finding out what failed, when a completion with an error was polled and
// before more is posted: Explain returns what is around the work request that failed.
//
// Nothing is recorded for it: an mlx5 device's rings keep what was posted until the queue has come
// around, and Modify to RESET empties them. On other devices the error is ErrNotSupported. On the direct data path, IDs
// and outcomes are also known. On the others libmlx5 keeps those to itself, entries may be from before the last reset,
// and posting by C meanwhile makes the result meaningless. Payload is never read, only its length. Posting and polling
// of the QP wait meanwhile; with SingleThreaded the goroutine that posts and polls has to call it.
func (qp *QP) LastPosted(n int) (*Posted, error) {
	return value(&qp.node, "last posted", func() (*Posted, error) {
		if n < 1 {
			return nil, &ArgError{Arg: "n", Got: fmt.Sprint(n), Want: "1 or more"}
		}
		if qp.send == nil || qp.typ == DCT {
			return nil, &UnsupportedError{Feature: "a record of work requests",
				Need: "a QP that work requests are posted to", Have: "one of type " + qp.typ.String()}
		}
		p := &Posted{QP: qp.name, Type: qp.typ}
		if qp.path() == DataPathDirect {
			p.readQueues(qp, n)
			return p, nil
		}
		if err := qp.dev.directError(); err != nil {
			have := err.Error()
			if u := (*UnsupportedError)(nil); errors.As(err, &u) {
				have = u.Have
			}
			return nil, &UnsupportedError{Feature: "a record of work requests",
				Need: "a device of libmlx5, whose rings have them; elsewhere, keep what is posted under its ID, " +
					"which the completion has", Have: have}
		}
		if err := p.readRings(qp, n); err != nil {
			return nil, err
		}
		return p, nil
	})
}

// Around returns the part of p around the send that failed, and around the receive that did: up to n
// work requests before it, and as many after it. Where none failed, these are the last ones.
func (p *Posted) Around(n int) *Posted {
	sends, recvs := len(p.Sends)-1, len(p.Recvs)-1
	for i := range p.Sends {
		if p.Sends[i].State == PostedFailed {
			sends = i
		}
	}
	for i := range p.Recvs {
		if p.Recvs[i].State == PostedFailed {
			recvs = i
		}
	}
	q := *p
	q.Sends, q.Recvs = around(p.Sends, sends, n), around(p.Recvs, recvs, n)
	return &q
}

func around[T any](list []T, i, n int) []T {
	n = min(max(n, 0), len(list))
	return list[max(i-n, 0):min(i+1+n, len(list))]
}

// Explain returns the error of a completion of the QP, as WC.Err. On the direct data path its Posted
// has up to n work requests before the one that failed, and as many after it. Print it with "%+v",
// before more is posted. For a completion with WCWRFlushErr it also shows the cause.
//
//	if err := qp.Explain(&wc, 4); err != nil {
//		log.Printf("%+v", err)
//	}
func (qp *QP) Explain(wc *WC, n int) error {
	err := wc.Err()
	if e, ok := err.(*WCError); ok && qp.path() == DataPathDirect {
		if p, bad := qp.LastPosted(math.MaxInt32); bad == nil {
			e.Posted = p.Around(n)
		}
	}
	return err
}

// readQueues reads the rings of the direct data path.
func (p *Posted) readQueues(qp *QP, n int) {
	qp.sq.mu.Lock()
	qp.send.mu.Lock()
	sends := qp.sq.direct.LastSends(qp.form(), n)
	qp.send.mu.Unlock()
	qp.sq.mu.Unlock()
	p.addSends(sends)
	if qp.recv == nil {
		return
	}
	rq := &qp.sq.direct.RQ
	if qp.rq.frames != nil {
		rq = qp.rq.frames.RQ
	}
	qp.rq.mu.Lock()
	qp.recv.mu.Lock()
	recvs := rq.Last(n)
	qp.recv.mu.Unlock()
	qp.rq.mu.Unlock()
	p.addRecvs(recvs)
}

// readRings reads the rings that libmlx5 or the program writes.
func (p *Posted) readRings(qp *QP, n int) error {
	v, err := qp.dev.direct.dv.InitQP(qp.handle, 0)
	if err != nil {
		return err
	}
	r := ringsOf(v, qp.srq == nil)
	qp.sq.mu.Lock()
	sends := mlx5.LastSends(r.sq, r.sent(), qp.Num(), qp.form(), n)
	qp.sq.mu.Unlock()
	p.addSends(sends)
	qp.rq.mu.Lock()
	recvs := mlx5.LastRecvs(r.rq, r.stride, r.received(), n)
	qp.rq.mu.Unlock()
	p.addRecvs(recvs)
	return nil
}

func (p *Posted) addSends(sends []mlx5.Sent) {
	p.Sends = make([]PostedSend, len(sends))
	for i := range sends {
		s, to := &sends[i], &p.Sends[i]
		*to = PostedSend{Index: s.Index, State: PostedState(s.Outcome), Status: WCStatus(s.Status),
			VendorErr: s.VendorErr, InlineLen: int(s.InlineLen), HeaderLen: int(s.HeaderLen), DeviceOpcode: s.Device,
			Damaged: s.Damaged || s.Short}
		*request(&to.SendWR) = s.SendWR
		if c := s.Change; c != nil {
			to.Change = &PostedChange{Key: c.Key, NewKey: c.NewKey, LKey: c.LKey, Addr: c.Addr, Length: c.Length,
				Access: AccessFlags(c.Access)}
		}
	}
}

func (p *Posted) addRecvs(recvs []mlx5.Received) {
	for i := range recvs {
		r := &recvs[i]
		p.Recvs = append(p.Recvs, PostedRecv{RecvWR: recvOf(&r.RecvWR), Index: r.Index, State: PostedState(r.Outcome),
			Status: WCStatus(r.Status), VendorErr: r.VendorErr})
	}
}
