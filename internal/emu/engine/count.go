//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/internal/emu/hca"
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

// count updates the ports' counters after a work request of n bytes.
func (e *Engine) count(qp *hca.QP, opcode uint8, n uint64) {
	if qp.Type == hca.RawPacket {
		return // the counters of RDMA do not count frames
	}
	var there *hca.Port
	if qp.Run.Peer != nil {
		there = qp.Run.Peer.Port()
	}
	here, mtu := qp.Port(), uint64(128)<<(qp.Attr.PathMTU&7)
	asked := func(c hca.Counter) {
		if there != nil {
			there.Count[c]++
		}
	}
	switch opcode {
	case opWrite, opWriteImm:
		asked(hca.RxWriteRequests)
		move(here, there, n, mtu)
	case opSend, opSendImm, opSendInval:
		move(here, there, n, mtu)
	case opRead:
		asked(hca.RxReadRequests)
		move(here, there, 0, mtu)
		move(there, here, n, mtu)
	case opAtomicCS, opAtomicFA, opMaskedCS, opMaskedFA:
		asked(hca.RxAtomicRequests)
		move(here, there, n, mtu)
		move(there, here, n, mtu)
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
