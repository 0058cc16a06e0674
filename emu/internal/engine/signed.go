//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// signed is memory under a key with a signature: at is where it lies, and the piece of which it is part counts bytes on
// the wire.
type signed struct {
	key *hca.MKey
	at  []piece
}

const (
	cqeSigErr = 12

	// maxSigned bounds a message through a key with a signature, which is not moved in pieces.
	maxSigned = 64 << 20

	domainWire   = 0
	domainMemory = 1
)

// signed appends the n bytes at addr, as on the wire, of a key with a signature. They begin with a block. The last one
// may end before its signature, which is then neither made nor looked at: rdma-core's own tests send and receive 512
// bytes through a key with signatures on the wire.
func (ls *lists) signed(d *hca.Device, k *hca.MKey, addr, n uint64, under hca.Access, list []piece) ([]piece, bool) {
	m, w := &k.Sig.Memory, &k.Sig.Wire
	raw := func(v uint64) (_ uint64, ok bool) {
		if w.Block == 0 {
			return v, true
		}
		size := uint64(w.Block + sigSize(w))
		return v/size*uint64(w.Block) + v%size, v%size <= uint64(w.Block)
	}
	inMemory := func(v uint64) uint64 {
		if m.Block == 0 {
			return v
		}
		return v + v/uint64(m.Block)*uint64(sigSize(m))
	}
	from, ok1 := raw(addr)
	size, ok2 := raw(n)
	if !ok1 || !ok2 || n > maxSigned || w.Block > 0 && addr%uint64(w.Block+sigSize(w)) != 0 ||
		m.Block > 0 && from%uint64(m.Block) != 0 {
		return list, false
	}
	from, size = inMemory(from), inMemory(size)
	key := *k
	key.Sig, key.Access = nil, key.Access|under
	at, ok := ls.indirect(d, &key, from, size, under, under, nil, 0)
	return append(list, piece{n: n, mem: k.Mem, sig: &signed{k, at}}), ok
}

func hasSigned(list []piece) bool {
	for i := range list {
		if list[i].sig != nil {
			return true
		}
	}
	return false
}

// carrySigned is carry where a side has a signature: in a batch of its own, and at once.
func (rq *requester) carrySigned(qp *hca.QP, w *wqe, n uint64) verdict {
	b := rq.b
	switch {
	case b.wqes > 0:
		return alone
	case n > maxSigned:
		return rq.failed(qp, w, synLocalLength)
	}
	at := [2]*hca.QP{qp, qp} // whose keys source and target are of
	if far := 1; b.peer != nil {
		if w.is&isRead != 0 {
			far = 0
		}
		at[far] = b.peer
	}
	var data []byte
	for i := range rq.lists.src {
		p, from := &rq.lists.src[i], rq.lists.src[i:i+1]
		if p.sig != nil {
			from = p.sig.at
		}
		in := make([]byte, length(from))
		if b.err = gather(from, in); b.err != nil {
			rq.badMemory(qp, badSource)
			return halt
		}
		if s := p.sig; s != nil {
			out, bad := translate(s.key.Sig, &s.key.Sig.Memory, &s.key.Sig.Wire, in)
			rq.tellSigError(at[0], s.key, bad, domainMemory)
			in = out[:min(p.n, uint64(len(out)))]
		}
		data = append(data, in...)
	}
	for i := range rq.lists.dst {
		p := &rq.lists.dst[i]
		part := data[:min(p.n, uint64(len(data)))]
		data = data[len(part):]
		to := rq.lists.dst[i : i+1]
		if s := p.sig; s != nil {
			sig := s.key.Sig
			out, bad := translate(sig, &sig.Wire, &sig.Memory, part)
			rq.tellSigError(at[1], s.key, bad, domainWire)
			part, to = out, s.at
		}
		if b.err = scatter(to, part); b.err != nil {
			rq.badMemory(qp, badTarget)
			return halt
		}
	}
	return proceed
}

// length returns how many bytes pieces are.
func length(list []piece) (n uint64) {
	for i := range list {
		n += list[i].n
	}
	return n
}

// scatter writes to pieces.
func scatter(list []piece, data []byte) error {
	for i := range list {
		p := &list[i]
		part := data[:min(p.n, uint64(len(data)))]
		data = data[len(part):]
		if p.zero || len(part) == 0 {
			continue
		}
		if err := p.mem.Write(p.va, part); err != nil {
			return err
		}
	}
	return nil
}

// tellSigError completes a signature that is not what it has to be, once until the program says that it knows. qp is
// the one of the key's program that used it.
func (rq *requester) tellSigError(qp *hca.QP, k *hca.MKey, bad *sigError, domain byte) {
	cq := qp.SendCQ
	if cq == nil {
		cq = qp.RecvCQ
	}
	if bad == nil || k.SigTold || cq == nil {
		return
	}
	k.SigTold = true
	if qp.Extra.DrainSigErr {
		rq.batches.stopLater(qp)
	}
	p := rq.comps.cqe(cq, qp, cqeSigErr, 0, 0, 0)
	clear(p.img[:63])
	copy(p.img[16:20], bad.want[:4])
	copy(p.img[20:24], bad.got[:4])
	copy(p.img[24:28], bad.want[4:])
	copy(p.img[28:32], bad.got[4:])
	binary.BigEndian.PutUint16(p.img[32:], bad.syndrome)
	p.img[35] = domain
	put32(p.img[36:], k.Key)
	binary.BigEndian.PutUint64(p.img[40:], bad.offset)
}

// stopped moves a QP to SQD behind the work request whose signature was wrong, so that its program can cancel those
// that follow. C: MLX5DV_QP_CREATE_SIG_PIPELINING, mlx5dv_qp_cancel_posted_send_wrs(3).
func (rq *requester) stopped(qp *hca.QP) {
	if qp.State != hca.RTS {
		return
	}
	rq.comps.writeLater()
	qp.State = hca.SQD
	rq.states.modified(qp, hca.RTS, hca.SQD)
	qp.Event(hca.EventSQDrained)
}

// setPSV sets the state of a signature before a message. What it says is in the key as well, so nothing is kept.
func (rq *requester) setPSV(qp *hca.QP, w *wqe) verdict {
	if !qp.Context.Device.HasPSV(binary.BigEndian.Uint32(w.umr), qp.PD) {
		return rq.failed(qp, w, synLocalQPOp)
	}
	return rq.done(qp, w, 0)
}
