//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// move counts n bytes in packets of size mtu that go from one port to another; either may be nil.
func move(from, to *hca.Port, n, mtu uint64) {
	packets := max(1, (n+mtu-1)/mtu)
	if from != nil {
		from.Count[hca.XmitData] += n / 4
		from.Count[hca.XmitPackets] += packets
	}
	if to != nil {
		to.Count[hca.RcvData] += n / 4
		to.Count[hca.RcvPackets] += packets
	}
}

// uncounted is a work request in a batch. It counts when the batch is through: one that is undone is executed again.
type uncounted struct {
	here, there *hca.Port // may be nil
	n, mtu      uint64
	opcode      uint8
}

func (u *uncounted) count() {
	asked := func(c hca.Counter) {
		if u.there != nil {
			u.there.Count[c]++
		}
	}
	switch u.opcode {
	case opWrite, opWriteImm:
		asked(hca.RxWriteRequests)
		move(u.here, u.there, u.n, u.mtu)
	case opSend, opSendImm, opSendInval:
		move(u.here, u.there, u.n, u.mtu)
	case opRead:
		asked(hca.RxReadRequests)
		move(u.here, u.there, 0, u.mtu)
		move(u.there, u.here, u.n, u.mtu)
	case opAtomicCS, opAtomicFA, opMaskedCS, opMaskedFA:
		asked(hca.RxAtomicRequests)
		move(u.here, u.there, u.n, u.mtu)
		move(u.there, u.here, u.n, u.mtu)
	}
}

// countCQE updates the counters of errors, and of datagrams, whose sender does not know the receiver's port.
func countCQE(p *pending) {
	if p.qp == nil {
		return
	}
	port := p.qp.Port()
	if port == nil {
		return
	}
	switch p.img[63] >> 4 {
	case cqeReqErr:
		port.Count[hca.ReqCQEError]++
		switch p.img[55] {
		case synFlush:
			port.Count[hca.ReqCQEFlush]++
		case synRemoteAccess:
			port.Count[hca.ReqRemoteAccess]++
		case synRemoteInval:
			port.Count[hca.ReqRemoteInvalid]++
		}
	case cqeRespErr:
		port.Count[hca.RespCQEError]++
		switch p.img[55] {
		case synFlush:
			port.Count[hca.RespCQEFlush]++
		case synLocalLength:
			port.Count[hca.RespLocalLength]++
		}
	case cqeRespSend, cqeRespSendImm:
		if p.qp.Type == hca.UD {
			move(nil, port, uint64(binary.BigEndian.Uint32(p.img[44:])), 4096)
		}
	}
}

// countAt adds one to a counter of the port of a QP, which may have none.
func countAt(qp *hca.QP, c hca.Counter) {
	if qp == nil {
		return
	}
	if p := qp.Port(); p != nil {
		p.Count[c]++
	}
}
