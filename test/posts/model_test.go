//go:build linux

package posts

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/pureverbs/pureverbs/ibv"
)

// job is a work request with what else the model has to know about it.
type job struct {
	wr      ibv.SendWR
	sge     string // what MR.SGE was asked for where it could not be
	outside bool   // RemoteMemory.At was asked for what is not there
	badKey  bool
	otherPD bool
	closed  bool // the AH
}

// mistake is a reason to refuse a work request: the error is an *ArgError of what, a *LimitError if limited, an
// *UnsupportedError if unsupported, or ErrClosed if closed.
type mistake struct {
	what, got    string
	limited      bool
	asked, limit uint64
	closed       bool
	unsupported  bool
}

const (
	extendedOps = 1<<ibv.OpFlush | 1<<ibv.OpAtomicWrite // no mlx5 device has them
	inlineOps   = 1<<ibv.OpWrite | 1<<ibv.OpWriteImm | 1<<ibv.OpSend | 1<<ibv.OpSendImm | 1<<ibv.OpSendInv
	maskedOps   = 1<<ibv.OpMaskedCompareSwap | 1<<ibv.OpMaskedFetchAdd
	atomicOps   = 1<<ibv.OpCompareSwap | 1<<ibv.OpFetchAdd | maskedOps
	dataOps     = inlineOps | 1<<ibv.OpRead | atomicOps
	remoteOps   = 1<<ibv.OpWrite | 1<<ibv.OpWriteImm | 1<<ibv.OpRead | atomicOps
)

func in(op ibv.Opcode, set uint32) bool { return op < 32 && set>>op&1 != 0 }

// mistakes returns everything that is wrong with a work request. A post may report any one of them.
func (p *pair) mistakes(j *job) (ms []mistake) {
	wr, c := &j.wr, p.a.qp.Cap()
	arg := func(what, got string) { ms = append(ms, mistake{what: what, got: got}) }
	limit := func(what string, asked, limit uint64) {
		ms = append(ms, mistake{what: what, limited: true, asked: asked, limit: limit})
	}
	if p.typ == ibv.RC && in(wr.Opcode, extendedOps) {
		ms = append(ms, mistake{what: "posting " + wr.Opcode.String(), unsupported: true})
		return ms
	}
	if !slices.Contains(takes[p.typ], wr.Opcode) {
		arg("Opcode", wr.Opcode.String())
		return ms // what the other fields mean is not known
	}
	if in(wr.Opcode, maskedOps) {
		feature := "posting " + wr.Opcode.String()
		if p.engine.path == ibv.DataPathDirect && p.signalAll {
			feature += " on a QP with SignalAll"
		}
		if p.engine.path != ibv.DataPathDirect || p.signalAll {
			ms = append(ms, mistake{what: feature, unsupported: true})
		}
	}
	known := ibv.Fence | ibv.Signaled | ibv.Solicited | ibv.Inline
	if odd := wr.Flags &^ known; odd != 0 {
		arg("Flags", odd.String())
	}
	inline := wr.Inline != nil || wr.Flags&ibv.Inline != 0
	switch {
	case !in(wr.Opcode, dataOps):
		if len(wr.SGEs) > 0 || inline {
			arg("SGEs and Inline", "set")
		}
	case inline && !in(wr.Opcode, inlineOps):
		arg("Inline", "set")
	}
	if in(wr.Opcode, dataOps) && wr.Inline != nil && len(wr.SGEs) > 0 {
		arg("Inline and SGEs", "both set")
	}
	if len(wr.SGEs) > c.MaxSendSGE {
		limit("sge", uint64(len(wr.SGEs)), uint64(c.MaxSendSGE))
	}
	total := uint64(len(wr.Inline))
	for i, s := range wr.SGEs {
		switch {
		case j.sge != "":
			arg(fmt.Sprintf("SGE %d", i), j.sge)
		case s.Length >= 1<<31:
			limit(fmt.Sprintf("length of sge %d", i), uint64(s.Length), 1<<31-1)
		}
		total += uint64(s.Length)
	}
	if inline && total > uint64(c.MaxInline) {
		limit("inline bytes", total, uint64(c.MaxInline))
	}
	if in(wr.Opcode, remoteOps) && j.outside {
		arg("Remote", "")
	}
	if in(wr.Opcode, atomicOps) && (len(wr.SGEs) != 1 || wr.SGEs[0].Length != 8) {
		arg("SGEs", "")
	}
	switch {
	case !names(p.typ, wr.Opcode):
		if wr.AH != nil {
			arg("AH", "set")
		}
	case wr.AH == nil:
		arg("AH", "nil")
	case j.otherPD:
		arg("AH", "one of another PD")
	case j.closed:
		ms = append(ms, mistake{closed: true})
	case wr.RemoteQPN >= 1<<24:
		limit("remote qpn", uint64(wr.RemoteQPN), 1<<24-1)
	}
	return ms
}

// copies reports whether the data is copied when the work request is posted, so that its memory is free from then on.
func (j *job) copies() bool { return j.wr.Inline != nil || j.wr.Flags&ibv.Inline != 0 }

// message is a message that the peer receives.
type message struct {
	data   []byte // nil for a write
	n      int
	imm    uint32
	hasImm bool
	opcode ibv.WCOpcode
}

// execute executes in the model a work request that was accepted. Data that is copied is already in j.wr.Inline or in
// a's image.
func (p *pair) execute(j *job) {
	wr := &j.wr
	if p.failed {
		p.flushed(wr)
		p.a.want = append(p.a.want, ibv.WC{ID: wr.ID, Status: ibv.WCWRFlushErr})
		return
	}
	var data []byte
	if wr.Inline != nil {
		data = wr.Inline
	} else {
		for _, s := range wr.SGEs {
			at := int(s.Addr - p.a.mr.Addr())
			data = append(data, p.a.image[at:at+int(s.Length)]...)
		}
	}
	p.onWire(j, len(data))
	p.small = wr.Opcode == ibv.OpLocalInv || wr.Opcode == ibv.OpBindMW
	n, to := len(data), int(wr.Remote.Addr-p.b.mr.Addr())
	wc := ibv.WC{ID: wr.ID}
	imm := wr.Opcode == ibv.OpSendImm || wr.Opcode == ibv.OpWriteImm
	if imm {
		wc.Flags = ibv.WCWithImm
	}
	m := message{n: n, data: data, imm: wr.Imm, hasImm: imm, opcode: ibv.WCRecv}
	word := func() uint64 { return binary.NativeEndian.Uint64(p.b.image[to:]) }
	// An rkey is checked only if there is something to access.
	denied := in(wr.Opcode, remoteOps) && j.badKey && n > 0
	switch {
	case wr.Opcode == ibv.OpLocalInv && !p.window.has(wr.InvalidateRKey):
		p.fail(wr, ibv.WCMWBindErr)
		return
	case wr.Opcode == ibv.OpSendInv:
		p.fail(wr, ibv.WCRemAccessErr)
		p.peerFails()
		return
	case denied && p.reliable():
		p.fail(wr, ibv.WCRemAccessErr)
		p.peerFails()
		return
	}
	switch wr.Opcode {
	case ibv.OpLocalInv:
		wc.Opcode, p.window.bound = ibv.WCLocalInv, false
	case ibv.OpBindMW:
		wc.Opcode, p.window.bound, p.window.key = ibv.WCBindMW, wr.Bind.Length > 0, wr.Bind.RKey
	case ibv.OpWrite, ibv.OpWriteImm:
		wc.Opcode = ibv.WCWrite
		if denied { // UC: the peer drops it, and nobody is told
			break
		}
		copy(p.b.image[to:], data)
		if imm {
			m.data, m.opcode = nil, ibv.WCRecvImm
			p.arrive(&m)
		}
	case ibv.OpSend, ibv.OpSendImm:
		wc.Opcode = ibv.WCSend
		if !p.arrive(&m) && p.reliable() {
			p.fail(wr, ibv.WCRemInvReqErr)
			return
		}
	case ibv.OpRead:
		wc.Opcode, wc.ByteLen = ibv.WCRead, uint32(n)
		from := p.b.image[to:]
		for _, s := range wr.SGEs {
			at := int(s.Addr - p.a.mr.Addr())
			from = from[copy(p.a.image[at:at+int(s.Length)], from):]
		}
	case ibv.OpCompareSwap, ibv.OpFetchAdd:
		wc.Opcode, wc.ByteLen = ibv.WCCompareSwap, 8
		old, now := word(), wr.Swap
		if wr.Opcode == ibv.OpFetchAdd {
			wc.Opcode, now = ibv.WCFetchAdd, old+wr.CompareAdd
		} else if old != wr.CompareAdd {
			now = old
		}
		binary.NativeEndian.PutUint64(p.a.image[wr.SGEs[0].Addr-p.a.mr.Addr():], old)
		binary.NativeEndian.PutUint64(p.b.image[to:], now)
	case ibv.OpMaskedCompareSwap, ibv.OpMaskedFetchAdd:
		wc.Opcode, wc.ByteLen = ibv.WCCompareSwap, 8
		old, m := word(), wr.Masked
		now := old
		if wr.Opcode == ibv.OpMaskedFetchAdd {
			wc.Opcode, now = ibv.WCFetchAdd, addFields(old, m.SwapAdd[0], m.Mask[0])
		} else if (old^m.Compare[0])&m.CompareMask[0] == 0 {
			now = old&^m.Mask[0] | m.SwapAdd[0]&m.Mask[0]
		}
		binary.NativeEndian.PutUint64(p.a.image[wr.SGEs[0].Addr-p.a.mr.Addr():], old)
		binary.NativeEndian.PutUint64(p.b.image[to:], now)
	}
	if p.signalAll || wr.Flags&ibv.Signaled != 0 {
		p.a.want = append(p.a.want, wc)
	}
}

// addFields adds bit by bit, and carries nothing over the last bit of a field.
func addFields(a, b, ends uint64) (sum uint64) {
	carry := uint64(0)
	for i := range 64 {
		s := a>>i&1 + b>>i&1 + carry
		sum |= s & 1 << i
		if carry = s >> 1; ends>>i&1 != 0 {
			carry = 0
		}
	}
	return sum
}

// fail completes the work request with an error, even if it is unsignaled, and stops the QP.
func (p *pair) fail(wr *ibv.SendWR, s ibv.WCStatus) {
	p.failed = true
	p.a.want = append(p.a.want, ibv.WC{ID: wr.ID, Status: s})
}

// peerFails moves b to ERR: the receives of its own queue are flushed, those of an SRQ stay.
func (p *pair) peerFails() {
	if p.srq {
		return
	}
	for _, r := range p.b.recvs {
		p.b.want = append(p.b.want, ibv.WC{ID: r.id, Status: ibv.WCWRFlushErr})
	}
	p.b.recvs = nil
}

// arrive puts a message in b's next receive. If the receive is too short, b fails.
func (p *pair) arrive(m *message) bool {
	r := p.b.recvs[0]
	p.b.recvs = p.b.recvs[1:]
	wc := ibv.WC{ID: r.id, Opcode: m.opcode, ByteLen: uint32(m.n)}
	if m.hasImm {
		wc.Flags, wc.Imm = ibv.WCWithImm, m.imm
	}
	skip, room := 0, 0
	for _, s := range r.sges {
		room += int(s.Length)
	}
	if p.typ == ibv.UD {
		room -= grh
	}
	if room < len(m.data) {
		p.b.want = append(p.b.want, ibv.WC{ID: r.id, Status: ibv.WCLocLenErr})
		p.failed = true
		p.peerFails()
		return false
	}
	if p.typ == ibv.UD {
		skip = grh
		wc.ByteLen += grh
		wc.Flags |= ibv.WCGRH
		wc.SrcQPN = p.a.qp.Num()
		p.headers = append(p.headers, r)
	}
	data := m.data
	for _, s := range r.sges {
		at, n := int(s.Addr-p.b.mr.Addr()), int(s.Length)
		k := min(skip, n)
		skip, at, n = skip-k, at+k, n-k
		data = data[copy(p.b.image[at:at+n], data):]
	}
	p.b.want = append(p.b.want, wc)
	return true
}

// wqe is the line that the emulator's trace must have for a work request.
type wqe struct {
	Device  string `json:"device"`
	QP      string `json:"qp"`
	Cell    string `json:"cell"`
	Op      string `json:"op"`
	DS      int    `json:"ds"` // 16-byte segments
	CE      bool
	SE      bool
	FENCE   bool
	Small   bool   `json:"SMALL_FENCE"`
	UMR     *umr   `json:"umr"`
	Imm     string `json:"imm"`
	Key     string `json:"key"`
	QKey    string `json:"qkey"`
	DCKey   string `json:"dc_key"`
	DQPN    string `json:"dqpn"`
	SRQN    string `json:"srqn"`
	RAddr   string `json:"raddr"`
	RKey    string `json:"rkey"`
	SwapAdd string `json:"swap_add"`
	Compare string `json:"compare"`
	Size    int    `json:"atomic_size"`
	Atomic  string `json:"atomic"` // the operands of one with masks
	Inline  int    `json:"inline"`
	SGEs    []sge  `json:"sges"`
	L3      bool   `json:"L3_CSUM"`
	L4      bool   `json:"L4_CSUM"`
	Header  int    `json:"header"` // bytes of a frame in the Ethernet segment
}

type sge struct {
	LKey string `json:"lkey"`
	Addr string `json:"addr"`
	Len  uint32 `json:"len"`
}

var wireOps = map[ibv.Opcode]string{
	ibv.OpWrite: "RDMA_WRITE", ibv.OpWriteImm: "RDMA_WRITE_IMM", ibv.OpSend: "SEND", ibv.OpSendImm: "SEND_IMM",
	ibv.OpSendInv: "SEND_INVAL",
	ibv.OpRead:    "RDMA_READ", ibv.OpCompareSwap: "ATOMIC_CS", ibv.OpFetchAdd: "ATOMIC_FA", ibv.OpLocalInv: "UMR",
	ibv.OpBindMW: "UMR", ibv.OpMaskedCompareSwap: "MASKED_CS", ibv.OpMaskedFetchAdd: "MASKED_FA",
}

// onWire records the work requests that the device must read.
func (p *pair) onWire(j *job, n int) {
	if !p.t.recording {
		return
	}
	hex := func(v uint64) string { return fmt.Sprintf("%#x", v) }
	wr := &j.wr
	w := wqe{
		Op: wireOps[wr.Opcode], DS: 1, CE: p.signalAll || wr.Flags&ibv.Signaled != 0, SE: wr.Flags&ibv.Solicited != 0,
		FENCE: wr.Flags&ibv.Fence != 0,
		DQPN:  hex(uint64(p.b.qp.Num())),
		Small: p.small && wr.Flags&ibv.Fence == 0,
	}
	switch wr.Opcode {
	case ibv.OpBindMW:
		w.Key = hex(uint64(p.window.key))
	case ibv.OpSendImm, ibv.OpWriteImm:
		w.Imm = hex(uint64(wr.Imm))
	case ibv.OpSendInv, ibv.OpLocalInv:
		w.Key = hex(uint64(wr.InvalidateRKey))
	}
	if names(p.typ, wr.Opcode) {
		w.DS += 3
	}
	switch {
	case p.typ == ibv.UD:
		w.QKey = hex(uint64(wr.RemoteQKey))
	case p.typ == ibv.DCI && wr.Opcode == ibv.OpLocalInv:
		w.DQPN = ""
	case p.typ == ibv.DCI:
		w.DCKey = hex(wr.DCKey)
	}
	if wr.Opcode == ibv.OpLocalInv || wr.Opcode == ibv.OpBindMW {
		w.UMR = p.umr(wr)
		w.DS += 7
		if w.UMR.Start != "" {
			w.DS += 4
		}
	} else if p.typ == ibv.XRCSend {
		w.DS++
		w.SRQN = hex(uint64(wr.RemoteSRQN))
	}
	if in(wr.Opcode, remoteOps) {
		w.DS++
		w.RAddr, w.RKey = hex(wr.Remote.Addr), hex(uint64(wr.Remote.RKey))
	}
	switch wr.Opcode {
	case ibv.OpCompareSwap:
		w.DS++
		w.SwapAdd, w.Compare = hex(wr.Swap), hex(wr.CompareAdd)
	case ibv.OpFetchAdd:
		w.DS++
		w.SwapAdd, w.Compare = hex(wr.CompareAdd), "0x0"
	case ibv.OpMaskedCompareSwap:
		m := wr.Masked
		w.DS += 2
		w.Size, w.Atomic = 8, fmt.Sprintf("%016x%016x%016x%016x", m.SwapAdd[0], m.Compare[0], m.Mask[0],
			m.CompareMask[0])
	case ibv.OpMaskedFetchAdd:
		w.DS++
		w.Size, w.Atomic = 8, fmt.Sprintf("%016x%016x", wr.Masked.SwapAdd[0], wr.Masked.Mask[0]|1<<63)
	}
	switch {
	case n == 0:
	case j.copies():
		w.Inline = n
		w.DS += (n + 4 + 15) / 16
	default:
		for _, s := range wr.SGEs {
			if s.Length > 0 { // a length of 0 would be 2 GiB
				w.SGEs = append(w.SGEs, sge{hex(uint64(s.LKey)), hex(s.Addr), s.Length})
				w.DS++
			}
		}
	}
	p.t.wire(p.a.dev, p.a.qp, p.cell, &w)
}

// reliable reports whether a is told what became of its work requests at the peer.
func (p *pair) reliable() bool { return p.typ != ibv.UC && p.typ != ibv.UD }
