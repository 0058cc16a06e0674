package ibv

import (
	"errors"
	"fmt"
)

// Batch collects work requests and posts them with one doorbell:
//
//	b := qp.Batch() // once: after Post it is used again
//	b.Write(1, 0, mr.SGE(0, 4096), remote.At(0))
//	b.WriteImm(2, ibv.Signaled, mr.SGE(4096, 64), remote.At(4096), 7)
//	err := b.Post()
//
// A Batch is memory of its own. It holds no lock and no place in the queue, so
// building waits for nobody, and one that is never posted is only garbage. One
// goroutine at a time uses a Batch; a QP may have several. Each method means what
// PostSend means by the same work request; mistakes are reported by Post. Once a
// Batch has grown to its usual size, it does not allocate.
type Batch struct {
	qp     *QP
	wrs    []SendWR
	posted int    // the first so many of wrs, which Post could not yet clear away
	own    []SGE  // own[i] is where wrs[i] has its one SGE
	lists  []SGE  // of work requests with several
	inline []byte // copied data
	odd    bool   // a work request has an AH, or not own[i] for its SGEs
	err    error  // of a call that left no work request
}

// Batch returns an empty Batch for the send queue.
func (qp *QP) Batch() *Batch { return &Batch{qp: qp} }

// Len is the number of work requests that Post would post.
func (b *Batch) Len() int { return len(b.wrs) - b.posted }

// Reset empties the Batch.
func (b *Batch) Reset() {
	if b.odd {
		b.restore()
	}
	b.wrs, b.lists, b.inline = b.wrs[:0], b.lists[:0], b.inline[:0]
	b.posted, b.err = 0, nil
}

// restore makes all work requests plain again.
func (b *Batch) restore() {
	for i := range b.wrs {
		b.wrs[i] = SendWR{SGEs: b.own[i : i+1 : i+1]}
	}
	b.odd = false
}

// next starts a work request. It has one SGE, which is own[i], and nothing else is
// left of the one that was here before, but fields that its opcode will not use.
func (b *Batch) next(id uint64, op Opcode, flags SendFlags, s SGE) *SendWR {
	if len(b.wrs) == cap(b.wrs) {
		b.grow()
	}
	i := len(b.wrs)
	b.wrs = b.wrs[:i+1]
	wr := &b.wrs[i]
	wr.ID, wr.Opcode, wr.Flags = id, op, flags
	b.own[i] = s
	return wr
}

// grow makes room, and forgets what is posted.
func (b *Batch) grow() {
	live := b.wrs[b.posted:]
	n := max(2*len(live), 16)
	wrs, own := make([]SendWR, n), make([]SGE, n)
	for i := range wrs {
		if i < len(live) {
			wrs[i] = live[i]
		}
		if i >= len(live) || len(wrs[i].SGEs) == 1 {
			if i < len(live) {
				own[i] = live[i].SGEs[0]
			}
			wrs[i].SGEs = own[i : i+1 : i+1]
		}
	}
	b.wrs, b.own, b.posted = wrs[:len(live)], own, 0
}

// Send sends a message. A UD QP needs SendTo.
func (b *Batch) Send(id uint64, flags SendFlags, s SGE) {
	b.next(id, OpSend, flags, s)
}

// SendImm sends a message with immediate data, in host order.
func (b *Batch) SendImm(id uint64, flags SendFlags, s SGE, imm uint32) {
	b.next(id, OpSendImm, flags, s).Imm = imm
}

// SendInv sends a message and invalidates an rkey of the peer.
func (b *Batch) SendInv(id uint64, flags SendFlags, s SGE, rkey uint32) {
	b.next(id, OpSendInv, flags, s).InvalidateRKey = rkey
}

// SendTo sends a message from a UD QP.
func (b *Batch) SendTo(id uint64, flags SendFlags, s SGE, ah *AH, qpn, qkey uint32) {
	wr := b.next(id, OpSend, flags, s)
	b.odd = true
	wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, qpn, qkey
}

// SendImmTo sends a message with immediate data from a UD QP.
func (b *Batch) SendImmTo(id uint64, flags SendFlags, s SGE, imm uint32, ah *AH, qpn, qkey uint32) {
	wr := b.next(id, OpSendImm, flags, s)
	b.odd = true
	wr.Imm, wr.AH, wr.RemoteQPN, wr.RemoteQKey = imm, ah, qpn, qkey
}

// Write writes to memory of the peer.
func (b *Batch) Write(id uint64, flags SendFlags, s SGE, to RemoteAddr) {
	b.next(id, OpWrite, flags, s).Remote = to
}

// WriteImm writes to memory of the peer and consumes one of its receives.
func (b *Batch) WriteImm(id uint64, flags SendFlags, s SGE, to RemoteAddr, imm uint32) {
	wr := b.next(id, OpWriteImm, flags, s)
	wr.Remote, wr.Imm = to, imm
}

// Read reads memory of the peer into s.
func (b *Batch) Read(id uint64, flags SendFlags, s SGE, from RemoteAddr) {
	b.next(id, OpRead, flags, s).Remote = from
}

// CompareSwap sets 8 bytes of the peer to swap if they are compare; s, of 8 bytes,
// receives what was there.
func (b *Batch) CompareSwap(id uint64, flags SendFlags, s SGE, at RemoteAddr, compare, swap uint64) {
	wr := b.next(id, OpCompareSwap, flags, s)
	wr.Remote, wr.CompareAdd, wr.Swap = at, compare, swap
}

// FetchAdd adds to 8 bytes of the peer; s, of 8 bytes, receives what was there.
func (b *Batch) FetchAdd(id uint64, flags SendFlags, s SGE, at RemoteAddr, add uint64) {
	wr := b.next(id, OpFetchAdd, flags, s)
	wr.Remote, wr.CompareAdd = at, add
}

// LocalInv invalidates a memory window or a fast-registered MR of this side.
func (b *Batch) LocalInv(id uint64, flags SendFlags, rkey uint32) {
	wr := b.next(id, OpLocalInv, flags, SGE{})
	b.odd = true
	wr.SGEs, wr.InvalidateRKey = nil, rkey
}

// SendInline sends data, which is copied at once.
func (b *Batch) SendInline(id uint64, flags SendFlags, data []byte) {
	b.copied(b.next(id, OpSend, flags, SGE{}), data)
}

// WriteInline writes data, which is copied at once, to memory of the peer.
func (b *Batch) WriteInline(id uint64, flags SendFlags, data []byte, to RemoteAddr) {
	wr := b.next(id, OpWrite, flags, SGE{})
	wr.Remote = to
	b.copied(wr, data)
}

// Add adds a copy of a work request of any kind.
func (b *Batch) Add(wr *SendWR) {
	if wr == nil {
		if b.err == nil {
			b.err = &ArgError{Arg: "wr", Got: "nil", Want: "a work request: Reset the Batch and build it again"}
		}
		return
	}
	to := b.next(wr.ID, wr.Opcode, wr.Flags, SGE{})
	b.odd = true
	own := to.SGEs
	*to = *wr
	switch n := len(wr.SGEs); n {
	case 1:
		own[0], to.SGEs = wr.SGEs[0], own
	default:
		b.lists = append(b.lists, wr.SGEs...)
		to.SGEs = b.lists[len(b.lists)-n : len(b.lists) : len(b.lists)]
	}
	if wr.Inline != nil {
		sges := to.SGEs
		b.copied(to, wr.Inline)
		to.SGEs = sges // a mistake, and Post's to report
	}
}

// copied gives wr a copy of data in place of SGEs.
func (b *Batch) copied(wr *SendWR, data []byte) {
	b.odd = true
	b.inline = append(b.inline, data...)
	end := len(b.inline)
	wr.SGEs, wr.Inline = nil, b.inline[end-len(data):end:end]
	if wr.Inline == nil {
		wr.Inline = []byte{}
	}
}

// Post posts the Batch with one doorbell and empties it. An error is a *PostError.
// A mistake in one work request refuses all. When the queue is full, the work
// requests that found room are posted, and the others stay in the Batch: poll
// completions and call Post again, or Reset it.
func (b *Batch) Post() error {
	qp := b.qp
	if qp == nil {
		return &PostError{Object: "no qp", Err: &ArgError{Arg: "Batch", Got: "the zero value",
			Want: "one that QP.Batch returned"}}
	}
	wrs := b.wrs[b.posted:]
	if b.err != nil {
		return &PostError{Object: qp.name, Total: len(wrs), Err: b.err}
	}
	n, err := qp.postWhole(wrs)
	if err == nil {
		b.Reset()
		return nil
	}
	b.posted += n
	var op *OpError // its object and operation are the PostError's
	if errors.As(err, &op) && op.Op == opPostSend {
		err = op.Err
		if op.Detail != "" {
			err = fmt.Errorf("%s: %w", op.Detail, op.Err)
		}
	}
	return &PostError{Object: qp.name, Accepted: n, Total: len(wrs), Err: err}
}

// PostError reports a Batch of which not all was posted. What was accepted will
// complete; the rest is still in the Batch.
type PostError struct {
	Object   string
	Accepted int // the first so many work requests were taken
	Total    int
	Err      error
}

func (e *PostError) Error() string {
	return fmt.Sprintf("post batch %s: %d of %d work requests taken: %v", e.Object, e.Accepted, e.Total, e.Err)
}

// Unwrap returns what stopped the posting.
func (e *PostError) Unwrap() error { return e.Err }
