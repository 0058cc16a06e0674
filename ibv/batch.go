package ibv

import (
	"errors"
	"fmt"
)

// Batch collects work requests and posts them with one doorbell:
//
//	b := qp.Batch() // once: Post empties it for reuse
//	b.Write(1, 0, mr.SGE(0, 4096), remote.At(0))
//	b.WriteImm(2, ibv.Signaled, mr.SGE(4096, 64), remote.At(4096), 7)
//	err := b.Post()
//
// A Batch is plain memory. It holds no lock and reserves no room in the queue: building one
// never waits, and one that is never posted is only garbage. One goroutine at a time may use a
// Batch; a QP may have several. Each method means what the same work request means to PostSend;
// Post reports mistakes. A Batch does not allocate once it has grown to its usual size.
type Batch struct {
	qp     *QP
	wrs    []SendWR
	posted int    // how many of wrs an incomplete Post has posted: wrs[:posted]
	own    []SGE  // own[i] is the SGE of wrs[i], if that has just one
	lists  []SGE  // SGEs of work requests that have several
	inline []byte // copied data
	flush  []FlushRange
	dirty  bool  // some work request has an AH, or SGEs other than own[i]
	err    error // of an Add that added nothing
}

// Batch returns an empty Batch for the send queue.
func (qp *QP) Batch() *Batch { return &Batch{qp: qp} }

// Len returns the number of work requests that Post would post.
func (b *Batch) Len() int { return len(b.wrs) - b.posted }

// Reset empties the Batch.
func (b *Batch) Reset() {
	if b.dirty {
		b.restore()
	}
	b.wrs, b.lists, b.inline, b.flush = b.wrs[:0], b.lists[:0], b.inline[:0], b.flush[:0]
	b.posted, b.err = 0, nil
}

// restore gives every slot its own SGE again, and no AH.
func (b *Batch) restore() {
	for i := range b.wrs {
		b.wrs[i] = SendWR{SGEs: b.own[i : i+1 : i+1]}
	}
	b.dirty = false
}

// next starts a work request with s as its only SGE, in own[i]. Fields of the slot's previous
// work request remain only where op does not use them.
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

// grow makes room and drops what is already posted.
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
	b.dirty = true
	wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, qpn, qkey
}

// SendImmTo sends a message with immediate data from a UD QP.
func (b *Batch) SendImmTo(id uint64, flags SendFlags, s SGE, imm uint32, ah *AH, qpn, qkey uint32) {
	wr := b.next(id, OpSendImm, flags, s)
	b.dirty = true
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

// CompareSwap sets 8 bytes of the peer's memory to swap if they equal compare; s, of 8 bytes,
// receives the previous value.
func (b *Batch) CompareSwap(id uint64, flags SendFlags, s SGE, at RemoteAddr, compare, swap uint64) {
	wr := b.next(id, OpCompareSwap, flags, s)
	wr.Remote, wr.CompareAdd, wr.Swap = at, compare, swap
}

// FetchAdd adds to 8 bytes of the peer's memory; s, of 8 bytes, receives the previous value.
func (b *Batch) FetchAdd(id uint64, flags SendFlags, s SGE, at RemoteAddr, add uint64) {
	wr := b.next(id, OpFetchAdd, flags, s)
	wr.Remote, wr.CompareAdd = at, add
}

// LocalInv invalidates a local memory window or fast-registered MR.
func (b *Batch) LocalInv(id uint64, flags SendFlags, rkey uint32) {
	wr := b.next(id, OpLocalInv, flags, SGE{})
	b.dirty = true
	wr.SGEs, wr.InvalidateRKey = nil, rkey
}

// Flush makes earlier writes to memory of the peer reach what r says, and then completes.
func (b *Batch) Flush(id uint64, flags SendFlags, at RemoteAddr, r FlushRange) {
	wr := b.next(id, OpFlush, flags, SGE{})
	b.dirty = true
	wr.SGEs, wr.Remote = nil, at
	b.setFlush(wr, &r)
}

func (b *Batch) setFlush(wr *SendWR, r *FlushRange) {
	b.flush = append(b.flush, *r)
	wr.Flush = &b.flush[len(b.flush)-1]
}

// AtomicWrite writes 8 bytes to memory of the peer, at a multiple of 8, so that no reader sees only
// some of them.
func (b *Batch) AtomicWrite(id uint64, flags SendFlags, to RemoteAddr, value [8]byte) {
	wr := b.next(id, OpAtomicWrite, flags, SGE{})
	wr.Remote = to
	b.setInline(wr, value[:])
}

// SendInline sends a copy of data, made before it returns.
func (b *Batch) SendInline(id uint64, flags SendFlags, data []byte) {
	b.setInline(b.next(id, OpSend, flags, SGE{}), data)
}

// WriteInline writes a copy of data, made before it returns, to memory of the peer.
func (b *Batch) WriteInline(id uint64, flags SendFlags, data []byte, to RemoteAddr) {
	wr := b.next(id, OpWrite, flags, SGE{})
	wr.Remote = to
	b.setInline(wr, data)
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
	b.dirty = true
	own := to.SGEs
	*to = *wr
	switch n := len(wr.SGEs); n {
	case 1:
		own[0], to.SGEs = wr.SGEs[0], own
	default:
		b.lists = append(b.lists, wr.SGEs...)
		to.SGEs = b.lists[len(b.lists)-n : len(b.lists) : len(b.lists)]
	}
	if wr.Flush != nil {
		b.setFlush(to, wr.Flush)
	}
	if wr.Inline != nil {
		sges := to.SGEs
		b.setInline(to, wr.Inline)
		to.SGEs = sges // Inline and SGEs together are a mistake, which Post reports
	}
}

// setInline gives wr a copy of data in place of SGEs.
func (b *Batch) setInline(wr *SendWR, data []byte) {
	b.dirty = true
	b.inline = append(b.inline, data...)
	end := len(b.inline)
	wr.SGEs, wr.Inline = nil, b.inline[end-len(data):end:end]
	if wr.Inline == nil {
		wr.Inline = []byte{}
	}
}

// Post posts the Batch with one doorbell and empties it. An error is a *PostError. A mistake in
// one work request rejects the whole Batch. When the queue is full, the work requests that fit
// are posted and the others stay in the Batch: poll completions and call Post again, or Reset
// it.
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
	var op *OpError // unwrapped: the PostError names the object and the operation
	if errors.As(err, &op) && op.Op == opPostSend {
		err = op.Err
		if op.Detail != "" {
			err = fmt.Errorf("%s: %w", op.Detail, op.Err)
		}
	}
	return &PostError{Object: qp.name, Accepted: n, Total: len(wrs), Err: err}
}

// PostError reports a Batch that was not posted as a whole. What was accepted will complete;
// the rest is still in the Batch.
type PostError struct {
	Object   string
	Accepted int // how many work requests were posted, from the first
	Total    int
	Err      error
}

func (e *PostError) Error() string {
	return fmt.Sprintf("post batch %s: %d of %d work requests posted: %v", e.Object, e.Accepted, e.Total, e.Err)
}

// Unwrap returns the reason.
func (e *PostError) Unwrap() error { return e.Err }
