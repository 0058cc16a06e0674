package inmem

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/ibv"
)

// wcOpcodes are the opcodes of completions, by those of work requests.
var wcOpcodes = [...]ibv.WCOpcode{ibv.OpSend: ibv.WCSend, ibv.OpWrite: ibv.WCWrite, ibv.OpRead: ibv.WCRead,
	ibv.OpCompareSwap: ibv.WCCompareSwap, ibv.OpFetchAdd: ibv.WCFetchAdd}

// do does a work request, and returns how many bytes it has moved. wait means that the peer has no receive yet.
// Preconditions: a.mu is held.
func (q *QP) do(r *request) (n int, status ibv.WCStatus, wait bool) {
	p := q.peer
	if p == nil || p.failed {
		return 0, ibv.WCRetryExcErr, false
	}
	remote := r.wr.Remote
	switch r.wr.Opcode {
	case ibv.OpSend:
		return q.send(r)
	case ibv.OpWrite:
		size := r.bytes()
		to, ok := p.allowed(remote, size, ibv.RemoteWrite)
		if !ok {
			return 0, q.refused(), false
		}
		return size, q.gather(to, r), false
	case ibv.OpRead:
		size := r.bytes()
		from, ok := p.allowed(remote, size, ibv.RemoteRead)
		if !ok {
			return 0, q.refused(), false
		}
		return size, q.scatter(r, from, q.a.Transport().ReadSink()), false
	case ibv.OpCompareSwap, ibv.OpFetchAdd:
		at, ok := p.allowed(remote, 8, ibv.RemoteAtomic)
		if !ok || remote.Addr%8 != 0 {
			return 0, q.refused(), false
		}
		was := binary.NativeEndian.Uint64(at)
		switch {
		case r.wr.Opcode == ibv.OpFetchAdd:
			binary.NativeEndian.PutUint64(at, was+r.wr.CompareAdd)
		case was == r.wr.CompareAdd:
			binary.NativeEndian.PutUint64(at, r.wr.Swap)
		}
		var old [8]byte
		binary.NativeEndian.PutUint64(old[:], was)
		return 8, q.scatter(r, old[:], ibv.LocalWrite), false
	}
	return 0, ibv.WCLocQPOpErr, false
}

// send delivers a SEND to a receive of the peer.
// Preconditions: a.mu is held.
func (q *QP) send(r *request) (n int, status ibv.WCStatus, wait bool) {
	p := q.peer
	in, ok := p.rq.pop()
	switch p.mute = false; {
	case ok:
	case q.a.Transport().RNR():
		return 0, 0, true
	default:
		p.failed = true
		return 0, ibv.WCRemOpErr, false
	}
	size := r.bytes()
	wc := ibv.WC{ID: in.id, Opcode: ibv.WCRecv, ByteLen: uint32(size), QPN: p.num}
	to, err := q.a.at(in.sge.LKey, in.sge.Addr, int(in.sge.Length), ibv.LocalWrite)
	switch {
	case err != nil:
		wc.Status, status = ibv.WCLocProtErr, ibv.WCRemOpErr
	case size > len(to):
		wc.Status, status = ibv.WCLocLenErr, ibv.WCRemInvReqErr
	default:
		status = q.gather(to[:size], r)
		if status != ibv.WCSuccess { // nothing was sent
			wc.Status = ibv.WCWRFlushErr
		}
	}
	p.cq.push(wc)
	if wc.Status != ibv.WCSuccess {
		p.failed = true
	}
	return size, status, false
}

// allowed returns memory of this end that the peer may access.
// Preconditions: a.mu is held.
func (q *QP) allowed(at ibv.RemoteAddr, n int, access ibv.AccessFlags) ([]byte, bool) {
	if q.access&access != access {
		return nil, false
	}
	mem, err := q.a.at(at.RKey, at.Addr, n, access)
	return mem, err == nil
}

// refused is the status of an operation that the peer does not permit. It ends the peer's queue pair as well.
// Preconditions: a.mu is held.
func (q *QP) refused() ibv.WCStatus {
	q.peer.failed = true
	return ibv.WCRemAccessErr
}

// bytes is how many bytes a work request has.
func (r *request) bytes() int {
	n := r.n
	for _, s := range r.sge[:r.sges] {
		n += int(s.Length)
	}
	return n
}

// gather copies the data of a work request to to, which has as many bytes.
// Preconditions: a.mu is held.
func (q *QP) gather(to []byte, r *request) ibv.WCStatus {
	to = to[copy(to, r.inline[:r.n]):]
	for _, s := range r.sge[:r.sges] {
		from, err := q.a.at(s.LKey, s.Addr, int(s.Length), 0)
		if err != nil {
			return ibv.WCLocProtErr
		}
		to = to[copy(to, from):]
	}
	return ibv.WCSuccess
}

// scatter copies from to the memory of a work request, which needs this access.
// Preconditions: a.mu is held.
func (q *QP) scatter(r *request, from []byte, access ibv.AccessFlags) ibv.WCStatus {
	for _, s := range r.sge[:r.sges] {
		to, err := q.a.at(s.LKey, s.Addr, int(s.Length), access)
		if err != nil {
			return ibv.WCLocProtErr
		}
		from = from[copy(to, from):]
	}
	return ibv.WCSuccess
}
