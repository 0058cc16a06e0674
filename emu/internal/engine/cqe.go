//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// Opcodes of CQEs. C: MLX5_CQE_*.
const (
	cqeReq         = 0
	cqeRespWrImm   = 1
	cqeRespSend    = 2
	cqeRespSendImm = 3
	cqeRespSendInv = 4
	cqeResize      = 5
	cqeNoPacket    = 6
	cqeReqErr      = 13
	cqeRespErr     = 14

	scatter32 = 1 << 2
	scatter64 = 2 << 2
)

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
	synAborted      = 0x22
)

// vendorSyndrome is what hardware adds, as users' logs of ConnectX-4 to 7 show it; those of MW_BIND, BAD_RESP,
// LOCAL_ACCESS and of a receive's LOCAL_LENGTH (0x6a) are this emulator's own.
var vendorSyndrome = [32]uint8{
	synLocalLength:  0xda,
	synLocalQPOp:    0x68,
	synLocalProt:    0x51,
	synFlush:        0xf9,
	synMWBind:       0x57,
	synBadResp:      0x82,
	synLocalAccess:  0x53,
	synRemoteInval:  0x8a,
	synRemoteAccess: 0x88,
	synRemoteOp:     0x89,
	synRetry:        0x81,
	synRNR:          0x87,
}

const (
	vendorRecvLength = 0x6a
	vendorRecvProt   = 0x33
	vendorPageFault  = 0x93 // C: MLX5_CQE_VENDOR_SYNDROME_ODP_PFAULT
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

	inBlock bool   // written with others
	block   uint32 // so many, of which this is the title
	next    int    // the next one of the block, in the batch
}

func ownerBit(pi, entries uint32) byte {
	if pi&entries != 0 {
		return 1
	}
	return 0
}

// fail makes a completion an error.
func (p *pending) fail(syndrome, vendor uint8) {
	clear(p.img[48:54])
	p.img[54], p.img[55] = vendor, syndrome
	p.sol = true
}

// failReceive makes a receive's completion an error of its own.
func (p *pending) failReceive(syndrome uint8) {
	vendor := uint8(vendorRecvLength)
	if syndrome == synLocalProt {
		vendor = vendorRecvProt
	}
	p.fail(syndrome, vendor)
}

// solicit marks a responder's completion whose message asks for an event.
func (p *pending) solicit(w *wqe) {
	if w.flags&flagSolicited != 0 {
		p.sol = true
		p.img[63] |= 2
	}
}

// inline puts a payload in the completion itself.
func (p *pending) inline(data []byte) {
	if p.cq.CQESize == 128 {
		p.wide = true
		copy(p.inl[:], data)
		p.img[63] |= scatter64
		return
	}
	copy(p.img[:32], data)
	p.img[63] |= scatter32
}

func put32(b []byte, v uint32) { binary.BigEndian.PutUint32(b, v) }

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
