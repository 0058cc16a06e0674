package inmem

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/ibv"
)

// wcOpcodes are the opcodes of completions, by those of work requests.
var wcOpcodes = [...]ibv.WCOpcode{ibv.OpSend: ibv.WCSend, ibv.OpWrite: ibv.WCWrite, ibv.OpRead: ibv.WCRead,
	ibv.OpCompareSwap: ibv.WCCompareSwap, ibv.OpFetchAdd: ibv.WCFetchAdd}

// rights has the access to the peer's memory that an operation needs.
var rights = [...]ibv.AccessFlags{ibv.OpWrite: ibv.RemoteWrite, ibv.OpRead: ibv.RemoteRead,
	ibv.OpCompareSwap: ibv.RemoteAtomic, ibv.OpFetchAdd: ibv.RemoteAtomic}

// do does a work request, and returns how many bytes it has moved. wait means that the peer has no receive yet.
// Preconditions: a.mu is held.
func (q *QP) do(r *request) (n int, status ibv.WCStatus, wait bool) {
	p := q.peer
	switch {
	case p == nil || p.failed:
		return 0, ibv.WCRetryExcErr, false
	case r.wr.Opcode == ibv.OpSend:
		return q.send(r)
	case rights[r.wr.Opcode] == 0:
		return 0, ibv.WCLocQPOpErr, false
	}
	size, need := r.bytes(), rights[r.wr.Opcode]
	if need == ibv.RemoteAtomic {
		size = 8
	}
	at, ok := q.a.at(r.wr.Remote.RKey, r.wr.Remote.Addr, size, need)
	if !ok || p.access&need == 0 || need == ibv.RemoteAtomic && r.wr.Remote.Addr%8 != 0 {
		p.failed = true // a refusal ends both queue pairs
		return 0, ibv.WCRemAccessErr, false
	}
	switch r.wr.Opcode {
	case ibv.OpWrite:
		return size, q.gather(at, r), false
	case ibv.OpRead:
		return size, q.scatter(r, at, q.a.Transport().ReadSink()), false
	}
	was := binary.NativeEndian.Uint64(at)
	switch {
	case r.wr.Opcode == ibv.OpFetchAdd:
		binary.NativeEndian.PutUint64(at, was+r.wr.CompareAdd)
	case was == r.wr.CompareAdd:
		binary.NativeEndian.PutUint64(at, r.wr.Swap)
	}
	return size, q.scatter(r, binary.NativeEndian.AppendUint64(make([]byte, 0, 8), was), ibv.LocalWrite), false
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
	to, ok := q.a.at(in.sge.LKey, in.sge.Addr, int(in.sge.Length), ibv.LocalWrite)
	switch {
	case !ok:
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
		from, ok := q.a.at(s.LKey, s.Addr, int(s.Length), 0)
		if !ok {
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
		to, ok := q.a.at(s.LKey, s.Addr, int(s.Length), access)
		if !ok {
			return ibv.WCLocProtErr
		}
		from = from[copy(to, from):]
	}
	return ibv.WCSuccess
}
