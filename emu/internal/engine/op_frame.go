//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// Bits of an Ethernet segment. C: MLX5_ETH_WQE_*.
const (
	ethL3Csum = 1 << 6
	ethL4Csum = 1 << 7
	ethInsert = 1 << 15 // of the size of the inline header: it is a VLAN tag to insert
)

// ethernet is what a raw packet QP's WQE says of its frame. C: struct mlx5_wqe_eth_seg.
type ethernet struct {
	cs     uint8
	mss    uint16
	insert bool
	tag    uint16 // to insert
	header []byte // of the frame
	odd    bool   // bits are set that this device has no meaning for
}

// frames is what sending a frame needs.
type frames struct {
	buf   []byte // as the WQE has it
	out   []byte // as it goes out
	in    []byte // as it is received
	heads headers
	param *param // the fields that matchers compare, nil if not known yet
	was   []byte // as it was before a rule changed it
}

// ethernet reads the Ethernet segment.
func (w *wqe) ethernet(b *segments) string {
	s := b.next(16)
	if s == nil {
		return RuleWQEFormat
	}
	n := binary.BigEndian.Uint16(s[12:])
	w.eth = ethernet{cs: s[4], mss: binary.BigEndian.Uint16(s[6:])}
	w.eth.odd = w.eth.cs&^(ethL3Csum|ethL4Csum) != 0 || s[5] != 0 || [4]byte(s) != [4]byte{} ||
		[4]byte(s[8:]) != [4]byte{}
	if n&ethInsert != 0 {
		w.eth.insert, w.eth.tag = true, binary.BigEndian.Uint16(s[14:])
		return ""
	}
	if n > 2 && b.next(int(n-2+15)&^15) == nil { // two bytes of it are in the segment, the rest follows
		return RuleWQEFormat
	}
	w.eth.header = s[14 : 14+int(n)] // the segment and what follows are one piece of the WQE
	return ""
}

// frame executes a WQE of a raw packet QP. Nobody tells the sender whether it arrived.
func (sw *switcher) frame(qp *hca.QP, w *wqe) verdict {
	if sw.b.wqes > 0 {
		return alone
	}
	list, bad := sw.lists.localList(qp, w, sw.lists.src[:0], 0)
	sw.lists.src = list
	from := qp.Port()
	switch {
	case bad != 0:
		return sw.req.failed(qp, w, bad)
	case from == nil:
		return sw.req.failed(qp, w, synLocalQPOp)
	case !sw.strict.ethernet(qp, w):
		return sw.req.failed(qp, w, synLocalQPOp)
	case w.opcode == opTSO && w.n > hca.MaxTSO, w.n > uint64(qp.Context.Device.Config.Limits.MaxMsgSize):
		return sw.req.failed(qp, w, synLocalLength)
	}
	if n := int(w.n) + len(w.eth.header); w.opcode != opTSO && n > from.MaxFrame() {
		sw.strict.longFrame(qp, w, n, from)
		return sw.req.done(qp, w, uint64(n))
	}
	f := &sw.frames
	f.buf = append(append(f.buf[:0], w.eth.header...), make([]byte, w.n)...)
	if sw.b.err = gather(list, f.buf[len(w.eth.header):]); sw.b.err != nil {
		sw.req.badMemory(qp, badSource)
		return halt
	}
	if b := sw.b.flip; b >= 0 && len(f.buf) > 0 {
		f.buf[len(f.buf)-1] ^= 1
		sw.b.flip = -1
	}
	if w.opcode != opTSO {
		sw.emit(qp, from, w, f.buf)
	} else if !sw.segment(qp, from, w) {
		sw.strict.badWQE(qp, w, RuleEthSegment)
		return sw.req.failed(qp, w, synLocalQPOp)
	}
	return sw.req.done(qp, w, w.n+uint64(len(w.eth.header)))
}

// emit sends one frame, with what the WQE asks for.
func (sw *switcher) emit(qp *hca.QP, from *hca.Port, w *wqe, frame []byte) {
	f := &sw.frames
	f.out = append(f.out[:0], frame...)
	if w.eth.insert {
		f.out = append(f.out[:12], etherVLAN>>8, etherVLAN&0xff, byte(w.eth.tag>>8), byte(w.eth.tag))
		f.out = append(f.out, frame[12:]...)
	}
	if len(f.out) > from.MaxFrame() {
		sw.strict.longFrame(qp, w, len(f.out), from)
		return
	}
	if w.eth.cs != 0 {
		f.heads.parse(f.out)
		f.heads.outer.fill(f.out, w.eth.cs&ethL3Csum != 0, w.eth.cs&ethL4Csum != 0)
	}
	const shortest = 60 // a port pads what is shorter
	for len(f.out) < shortest {
		f.out = append(f.out, 0)
	}
	f.parse()
	sw.transmit(qp, from)
}

// Flags of a TCP header.
const (
	tcpFIN = 0x01
	tcpPSH = 0x08
	tcpCWR = 0x80
)

// segment cuts what a TSO WQE sends into frames, each with the WQE's headers. It reports whether the headers are those
// of TCP.
func (sw *switcher) segment(qp *hca.QP, from *hca.Port, w *wqe) bool {
	f := &sw.frames
	size := len(w.eth.header)
	f.heads.parse(f.buf)
	l := f.heads.outer
	if l.proto != protoTCP || size < l.l4+20 || size != l.l4+int(f.buf[l.l4+12]>>4)*4 {
		return false
	}
	payload := f.buf[size:]
	seq, id := binary.BigEndian.Uint32(f.buf[l.l4+4:]), uint16(0)
	if l.version == 4 {
		id = binary.BigEndian.Uint16(f.buf[l.l3+4:])
	}
	flags := f.buf[l.l4+13]
	frame := append([]byte(nil), f.buf[:size]...)
	for off := 0; off < len(payload) || off == 0; off += int(w.eth.mss) {
		part := payload[off:min(len(payload), off+int(w.eth.mss))]
		frame = append(frame[:size], part...)
		if l.version == 4 {
			binary.BigEndian.PutUint16(frame[l.l3+2:], uint16(size-l.l3+len(part)))
			binary.BigEndian.PutUint16(frame[l.l3+4:], id)
		} else {
			binary.BigEndian.PutUint16(frame[l.l3+4:], uint16(size-l.l3-40+len(part)))
		}
		binary.BigEndian.PutUint32(frame[l.l4+4:], seq+uint32(off))
		now := flags
		if off > 0 {
			now &^= tcpCWR
		}
		if off+len(part) < len(payload) {
			now &^= tcpFIN | tcpPSH
		}
		frame[l.l4+13] = now
		sw.emit(qp, from, w, frame)
		id++
	}
	return true
}
