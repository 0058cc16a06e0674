//go:build linux

package engine

import (
	"encoding/binary"
	"strconv"

	"github.com/pureverbs/pureverbs/internal/emu/guest"
	"github.com/pureverbs/pureverbs/internal/emu/hca"
)

// Opcodes of CQEs. C: MLX5_CQE_*.
const (
	cqeReq         = 0
	cqeRespWrImm   = 1
	cqeRespSend    = 2
	cqeRespSendImm = 3
	cqeRespSendInv = 4
	cqeResize      = 5
	cqeReqErr      = 13
	cqeRespErr     = 14

	scatter32 = 1 << 2
	scatter64 = 2 << 2

	neverArmed = 0xffffffff
)

var neverArmedBytes = [4]byte{0xff, 0xff, 0xff, 0xff}

// Syndromes of error CQEs. C: MLX5_CQE_SYNDROME_*.
const (
	synLocalLength  = 0x01
	synLocalQPOp    = 0x02
	synLocalProt    = 0x04
	synFlush        = 0x05
	synMWBind       = 0x06
	synBadResp      = 0x10
	synLocalAccess  = 0x11
	synRemoteInval  = 0x12
	synRemoteAccess = 0x13
	synRemoteOp     = 0x14
	synRetry        = 0x15
	synRNR          = 0x16
)

// vendorSyndrome is what hardware gives along, as users' logs of ConnectX-4 to 7 show it; those of MW_BIND, BAD_RESP, LOCAL_ACCESS and of a receive's
// LOCAL_LENGTH (0x6a) are this emulator's own.
var vendorSyndrome = [32]uint8{
	synLocalLength: 0xda, synLocalQPOp: 0x68, synLocalProt: 0x51, synFlush: 0xf9, synMWBind: 0x57, synBadResp: 0x82, synLocalAccess: 0x53,
	synRemoteInval: 0x8a, synRemoteAccess: 0x88, synRemoteOp: 0x89, synRetry: 0x81, synRNR: 0x87,
}

const (
	vendorRecvLength = 0x6a
	vendorRecvProt   = 0x33
)

// pending is a completion that is not written yet.
type pending struct {
	cq   *hca.CQ
	qp   *hca.QP
	img  [64]byte
	inl  [64]byte // payload in a 128-byte CQE
	at   uint32   // producer index
	wide bool     // inl is used
	sol  bool
	drop bool
	swap bool // wrong owner bit (injected)
}

func ownerBit(pi, entries uint32) byte {
	if pi&entries != 0 {
		return 1
	}
	return 0
}

// cqe appends a completion with the fields that all have.
func (e *Engine) cqe(cq *hca.CQ, qp *hca.QP, opcode uint8, uidx uint32, top uint8, counter uint16) *pending {
	b := &e.b
	if len(b.cqes) == cap(b.cqes) { // cannot be: a batch ends before
		b.cqes = append(b.cqes, pending{})
	} else {
		b.cqes = b.cqes[:len(b.cqes)+1]
	}
	p := &b.cqes[len(b.cqes)-1]
	*p = pending{cq: cq, qp: qp}
	i := p.img[:]
	binary.BigEndian.PutUint32(i[32:], uidx&0xffffff)
	binary.BigEndian.PutUint64(i[48:], Clock())
	binary.BigEndian.PutUint32(i[56:], uint32(top)<<24|qp.Num)
	binary.BigEndian.PutUint16(i[60:], counter)
	i[63] = opcode << 4
	return p
}

// fail makes a completion an error.
func (p *pending) fail(syndrome, vendor uint8) {
	clear(p.img[48:54])
	p.img[54], p.img[55] = vendor, syndrome
	p.sol = true
}

// image puts the bytes as they go to the ring and returns how many.
func (p *pending) image(b []byte) int {
	if p.wide {
		copy(b, p.inl[:])
		return 64 + copy(b[64:], p.img[:])
	}
	return copy(b, p.img[:])
}

// spans appends where the image goes: the part with the owner bit is written last.
func (p *pending) spans(v []guest.IOV) []guest.IOV {
	size := uint64(p.cq.CQESize)
	at := p.cq.Buf + uint64(p.at&(p.cq.Entries-1))*size
	n := uint64(56)
	if p.wide {
		n += 64
	} else {
		at += size - 64
	}
	return append(v, guest.IOV{Base: at, Len: n}, guest.IOV{Base: at + n, Len: 8})
}

// number gives the completions of the batch their places in the rings.
func (e *Engine) number() {
	b := &e.b
	for i := range b.cqes {
		e.place(&b.cqes[i])
	}
}

func (e *Engine) place(p *pending) {
	cq := p.cq
	r := &cq.Run
	if r.Dead || cq.Context.Dead {
		p.drop = true
		return
	}
	if r.Held {
		p.drop = true
		e.held = append(e.held, *p)
		return
	}
	if h := e.Hooks.AtCQE; h != nil {
		switch f, d := h(cq, p.qp); f {
		case FaultLost:
			p.drop = true
			return
		case FaultOwner:
			p.swap = true
		case FaultDelay:
			p.drop = true
			r.Held = true
			e.held = append(e.held, *p)
			e.after(int64(d)*1000, nil, cq)
			return
		case FaultCQError:
			p.drop = true
			e.breakCQ(cq)
			return
		}
	}
	if r.PI-r.CI >= cq.Entries && !cq.IgnoreOverrun && !e.roomy(cq) {
		p.drop = true
		if e.watching() {
			e.violate(cq.Mem.PID, RuleCQOverrun, "CQ 0x"+hex(cq.Num)+": "+strconv.Itoa(int(cq.Entries))+" entries are taken: poll more often or create it larger")
		}
		e.breakCQ(cq)
		return
	}
	p.at = r.PI
	p.img[63] |= ownerBit(r.PI, cq.Entries)
	if p.swap {
		p.img[63] ^= 1
	}
	r.PI++
}

func (e *Engine) unnumber() {
	b := &e.b
	for i := range b.cqes {
		if p := &b.cqes[i]; !p.drop {
			p.cq.Run.PI--
			p.img[63] &^= 1
		}
	}
}

// roomy reads the consumer index and tells if there is room.
func (e *Engine) roomy(cq *hca.CQ) bool {
	b := e.io.tmp[:4]
	if cq.Mem.Read(cq.DB, b) != nil {
		return true // the write will tell
	}
	e.consumer(cq, binary.BigEndian.Uint32(b))
	return cq.Run.PI-cq.Run.CI < cq.Entries
}

// consumer takes in a consumer index of 24 bits.
func (e *Engine) consumer(cq *hca.CQ, v uint32) {
	r := &cq.Run
	behind := (r.PI - v) & 0xffffff
	if behind > 0xffffff/2 {
		if e.watching() {
			e.violate(cq.Mem.PID, RuleCQConsumer, "CQ 0x"+hex(cq.Num)+": consumer index "+u(v)+" is beyond the producer's "+u(r.PI&0xffffff))
		}
		behind = 0
	}
	r.CI = r.PI - behind
	const far = 1 << 30 // half of what a comparison of indices bears
	if r.PI-r.Told > far {
		r.Told = r.PI - far
	}
	if r.PI-r.LastSol > far {
		r.LastSol = r.PI - far
	}
}

// breakCQ is a CQ error: no completions any more, and the QPs that complete there cannot go on.
func (e *Engine) breakCQ(cq *hca.CQ) {
	if cq.Run.Dead {
		return
	}
	cq.Run.Dead = true
	cq.Event(hca.EventCQErr)
	cq.Context.Device.EachQP(func(qp *hca.QP) {
		if (qp.SendCQ == cq || qp.RecvCQ == cq) && qp.State != hca.Reset && qp.State != hca.Err {
			qp.Event(hca.EventQPFatal)
			e.toErr(qp)
		}
	})
}

// lostCQ is a CQ whose ring cannot be written.
func (e *Engine) lostCQ(cq *hca.CQ, err error) {
	if err == guest.ErrFault && !cq.Run.Dead && e.watching() {
		e.violate(cq.Mem.PID, RuleRingUnmapped, "CQ 0x"+hex(cq.Num)+": its ring cannot be written")
	}
	cq.Run.Dead = true
}

// written comes when a completion is in memory: events.
func (e *Engine) written(p *pending) {
	cq := p.cq
	r := &cq.Run
	if e.Hooks.Trace != nil {
		e.traceCQE(p)
	}
	countCQE(p)
	if p.sol {
		r.LastSol = p.at + 1
	}
	if !r.Armed || r.SolOnly && !p.sol {
		return
	}
	e.came(cq, 1)
}

// came counts n completions that an armed CQ is to announce: at once, or moderated.
func (e *Engine) came(cq *hca.CQ, n uint32) {
	r := &cq.Run
	r.ModN += n
	off := cq.ModCount <= 1 || cq.ModPeriod == 0
	if off || r.ModN >= uint32(cq.ModCount) || r.Held { // held completions have the timer
		e.fire(cq)
		return
	}
	if !r.Timed {
		r.Timed = true
		e.after(int64(cq.ModPeriod)*1000, nil, cq)
	}
}

// fire makes an armed CQ announce itself when the batch is through.
func (e *Engine) fire(cq *hca.CQ) {
	r := &cq.Run
	if r.Timed {
		r.Timed = false
		r.Timer++
	}
	r.Armed, r.ModN, r.Told = false, 0, r.PI
	r.SN = (r.SN + 1) & 3
	e.notes = append(e.notes, cq)
}

func (e *Engine) notify() {
	for _, cq := range e.notes {
		if e.Hooks.Trace != nil {
			e.trace(Record{Kind: KindEvent, CQ: cq, PID: cq.Mem.PID, Index: cq.Run.PI})
		}
		cq.Notify()
	}
	e.notes = e.notes[:0]
}

// cqTimer is the end of a delay: of completions that were held, or of moderation.
func (e *Engine) cqTimer(cq *hca.CQ) {
	r := &cq.Run
	if r.Held {
		r.Held = false
		hook := e.Hooks.AtCQE
		e.Hooks.AtCQE = nil
		e.b.clear()
		kept := e.held[:0]
		for _, p := range e.held {
			if p.cq != cq || len(e.b.cqes) == cap(e.b.cqes) {
				kept = append(kept, p)
				continue
			}
			p.drop = false
			e.b.cqes = append(e.b.cqes, p)
		}
		e.held = kept
		e.commit()
		e.Hooks.AtCQE = hook
		for i := range e.held {
			if e.held[i].cq == cq {
				r.Held = true
				e.after(0, nil, cq)
				break
			}
		}
	}
	if r.Timed {
		r.Timed = false
		if r.Armed {
			e.fire(cq)
			e.notify()
		}
	}
}

// arm takes in an arm word and the consumer index beside it.
func (e *Engine) arm(cq *hca.CQ, ci, word uint32) {
	r := &cq.Run
	if word == r.LastArm || r.Dead {
		return
	}
	e.consumer(cq, ci)
	r.LastArm = word
	sn, sol, from := uint8(word>>28&3), word>>24&1 != 0, word&0xffffff
	if e.Hooks.Trace != nil {
		e.trace(Record{Kind: KindArm, CQ: cq, PID: cq.Mem.PID, Index: from, SN: sn, Solicited: sol})
	}
	if sn != r.SN {
		// One behind is a program that arms again before it took the event: the event is its answer.
		if sn != (r.SN-1)&3 && e.watching() {
			e.violate(cq.Mem.PID, RuleCQArmSequence, "CQ 0x"+hex(cq.Num)+": armed with sequence number "+u(uint32(sn))+", want "+u(uint32(r.SN)))
		}
		return
	}
	r.Armed, r.SolOnly, r.ModN = true, sol, 0
	last := r.PI
	if sol {
		last = r.LastSol
	}
	// What was neither polled nor announced counts as if it came now. The program has gone on since it rang: its record may say more than the arm word.
	n := min(int32(last-r.Told), int32(last-r.CI), int32((last-from)<<8)>>8)
	if n > 0 && sol {
		n = 1 // how many more are solicited is not known
	}
	if n > 0 {
		e.came(cq, uint32(n))
	}
}

func u(v uint32) string   { return strconv.FormatUint(uint64(v), 10) }
func hex(v uint32) string { return strconv.FormatUint(uint64(v), 16) }

func hex64(v uint64) string { return strconv.FormatUint(v, 16) }
