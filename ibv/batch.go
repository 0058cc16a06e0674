package ibv

import (
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/internal/work"
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
	n      int      // work requests
	briefs []brief  // the first n are the work requests
	full   []SendWR // those that do not fit into a brief
	sges   []SGE    // of these
	inline []byte   // of these
	flush  []FlushRange
	wrs    []SendWR // for expand
	err    error    // of an Add that added nothing
}

// brief has the layout of work.Brief.
type brief struct {
	id     uint64
	op     Opcode
	flags  SendFlags
	sge    [1]SGE
	remote RemoteAddr
	imm    uint32 // or the key to invalidate
	full   uint32 // index in Batch.full, plus 1
	_      uint64
}

// Batch returns an empty Batch for the send queue.
func (qp *QP) Batch() *Batch { return &Batch{qp: qp} }

// Len returns the number of work requests that Post would post.
func (b *Batch) Len() int { return b.n }

// Reset empties the Batch.
func (b *Batch) Reset() {
	b.n, b.err = 0, nil
	if len(b.full) > 0 {
		b.resetFull()
	}
}

func (b *Batch) resetFull() {
	clear(b.full)
	clear(b.wrs)
	b.full, b.sges, b.inline, b.flush = b.full[:0], b.sges[:0], b.inline[:0], b.flush[:0]
}

// brief adds a work request with one SGE. remote is that of an earlier one. Callers inline brief.
func (b *Batch) brief(id uint64, op Opcode, flags SendFlags, s SGE) *brief {
	n, list := b.n, b.briefs
	if n == len(list) {
		list = append(list, brief{})
		b.briefs = list
	}
	b.n = n + 1
	w := &list[n]
	w.imm, w.full = 0, 0
	w.id, w.op, w.flags, w.sge[0] = id, op, flags, s
	return w
}

// next adds a work request of any kind, with one SGE.
func (b *Batch) next(id uint64, op Opcode, flags SendFlags, s SGE) *SendWR {
	b.sges = append(b.sges, s)
	n := len(b.sges)
	b.full = append(b.full, SendWR{ID: id, Opcode: op, Flags: flags, SGEs: b.sges[n-1 : n : n]})
	b.brief(id, op, flags, SGE{}).full = uint32(len(b.full))
	return &b.full[len(b.full)-1]
}

// expand returns all work requests.
func (b *Batch) expand() []SendWR {
	if len(b.full) == b.n {
		return b.full
	}
	if n := b.n - len(b.wrs); n > 0 {
		b.wrs = append(b.wrs, make([]SendWR, n)...)
	}
	for i := range b.briefs[:b.n] {
		w, to := &b.briefs[i], &b.wrs[i]
		if w.full != 0 {
			*to = b.full[w.full-1]
			continue
		}
		w.expand(to, w.sge[:])
	}
	return b.wrs[:b.n]
}

// expand writes w to a work request whose other fields are zero.
func (w *brief) expand(to *SendWR, sges []SGE) {
	to.ID, to.Opcode, to.Flags, to.SGEs = w.id, w.op, w.flags, sges
	to.Imm, to.InvalidateRKey, to.Remote = w.imm, w.imm, RemoteAddr{}
	if work.FieldsOf(uint32(w.op))&work.Remote != 0 {
		to.Remote = w.remote
	}
}

// drop removes the first n work requests.
func (b *Batch) drop(n int) {
	b.n = copy(b.briefs, b.briefs[n:b.n])
	if len(b.full) == 0 {
		return
	}
	clear(b.wrs)
	var full []SendWR
	for i := range b.briefs[:b.n] {
		if w := &b.briefs[i]; w.full != 0 {
			full = append(full, b.full[w.full-1])
			w.full = uint32(len(full))
		}
	}
	b.full, b.sges, b.inline, b.flush = full, nil, nil, nil // what is left still uses the old ones
}

// Send sends a message. A UD QP needs SendTo.
func (b *Batch) Send(id uint64, flags SendFlags, s SGE) {
	b.brief(id, OpSend, flags, s)
}

// SendImm sends a message with immediate data, in host order.
func (b *Batch) SendImm(id uint64, flags SendFlags, s SGE, imm uint32) {
	b.brief(id, OpSendImm, flags, s).imm = imm
}

// SendInv sends a message and invalidates an rkey of the peer.
func (b *Batch) SendInv(id uint64, flags SendFlags, s SGE, rkey uint32) {
	b.brief(id, OpSendInv, flags, s).imm = rkey
}

// SendTo sends a message from a UD QP.
func (b *Batch) SendTo(id uint64, flags SendFlags, s SGE, ah *AH, qpn, qkey uint32) {
	wr := b.next(id, OpSend, flags, s)
	wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, qpn, qkey
}

// SendImmTo sends a message with immediate data from a UD QP.
func (b *Batch) SendImmTo(id uint64, flags SendFlags, s SGE, imm uint32, ah *AH, qpn, qkey uint32) {
	wr := b.next(id, OpSendImm, flags, s)
	wr.Imm, wr.AH, wr.RemoteQPN, wr.RemoteQKey = imm, ah, qpn, qkey
}

// Write writes to memory of the peer.
func (b *Batch) Write(id uint64, flags SendFlags, s SGE, to RemoteAddr) {
	b.brief(id, OpWrite, flags, s).remote = to
}

// WriteImm writes to memory of the peer and consumes one of its receives.
func (b *Batch) WriteImm(id uint64, flags SendFlags, s SGE, to RemoteAddr, imm uint32) {
	w := b.brief(id, OpWriteImm, flags, s)
	w.remote, w.imm = to, imm
}

func (b *Batch) setFlush(wr *SendWR, r *FlushRange) {
	b.flush = append(b.flush, *r)
	wr.Flush = &b.flush[len(b.flush)-1]
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

// ToSRQ makes the work request that was added last name an XRC SRQ of the peer, by its SRQ.Num. An
// XRCSend QP needs it for all but LocalInv.
func (b *Batch) ToSRQ(num uint32) { b.last("ToSRQ").RemoteSRQN = num }

// ToDCT makes the work request that was added last name a DCT, by its number and key, and the address of
// its device. A DCI needs it for all but LocalInv.
func (b *Batch) ToDCT(ah *AH, num uint32, key uint64) {
	wr := b.last("ToDCT")
	wr.AH, wr.RemoteQPN, wr.DCKey = ah, num, key
}

// OnStream puts the work request that was added last into a stream of a DCI (mlx5dv.DCOptions.LogStreams).
func (b *Batch) OnStream(stream uint16) { b.last("OnStream").DCStream = stream }

// last returns the work request that was added last, with room for all fields. If there is none, which Post reports, it
// returns one that is never posted.
func (b *Batch) last(method string) *SendWR {
	if b.n == 0 {
		if b.err == nil {
			b.err = &ArgError{Arg: method, Got: "an empty Batch", Want: "a work request before it: Reset the Batch " +
				"and build it again"}
		}
		return &SendWR{}
	}
	w := &b.briefs[b.n-1]
	if w.full == 0 {
		b.sges = append(b.sges, w.sge[0])
		n := len(b.sges)
		b.full = append(b.full, SendWR{})
		w.full = uint32(len(b.full))
		w.expand(&b.full[w.full-1], b.sges[n-1:n:n])
	}
	return &b.full[w.full-1]
}

// Add adds a copy of a work request of any kind, with its SGEs, Inline and Flush. The Batch keeps the pointers Bind,
// TSO, Masked and Mkey; their targets must not change before Post.
func (b *Batch) Add(wr *SendWR) {
	if wr == nil {
		if b.err == nil {
			b.err = &ArgError{Arg: "wr", Got: "nil", Want: "a work request: Reset the Batch and build it again"}
		}
		return
	}
	to := b.next(wr.ID, wr.Opcode, wr.Flags, SGE{})
	*to = *wr
	if wr.Flush != nil {
		b.setFlush(to, wr.Flush)
	}
	if wr.Inline != nil {
		b.setInline(to, wr.Inline)
	}
	n := len(wr.SGEs)
	b.sges = append(b.sges, wr.SGEs...)
	to.SGEs = b.sges[len(b.sges)-n : len(b.sges) : len(b.sges)] // with Inline a mistake, which Post reports
}

// setInline gives wr a copy of data in place of SGEs.
func (b *Batch) setInline(wr *SendWR, data []byte) {
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
	if b.err != nil {
		return &PostError{Object: qp.name, Total: b.Len(), Err: b.err}
	}
	n, err := b.post()
	if err == nil {
		b.n = 0
		if len(b.full) > 0 {
			b.resetFull()
		}
		return nil
	}
	return b.incomplete(n, err)
}

// incomplete removes the n work requests that Post posted and returns its error.
func (b *Batch) incomplete(n int, err error) error {
	total := b.Len()
	b.drop(n)
	var op *OpError // unwrapped: the PostError names the object and the operation
	if errors.As(err, &op) && op.Op == opPostSend {
		err = op.Err
		if op.Detail != "" {
			err = fmt.Errorf("%s: %w", op.Detail, op.Err)
		}
	}
	return &PostError{Object: b.qp.name, Accepted: n, Total: total, Err: err}
}

// PostError reports a Batch that was not posted as a whole. The accepted work requests will complete; the rest is still
// in the Batch.
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
