package sendq

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// MaxInline is how long a frame may be to be copied into its work request, if the device copies so much: it fits into
// one basic block of a WQE.
const MaxInline = wire.HeaderLen + wire.ControlMost

// doorbell is a list of work requests for one doorbell.
type doorbell[H comparable] struct {
	wrs  []ibv.SendWR
	mem  []wrMem // what they refer to
	back []H     // to be given back when it was posted
}

// wrMem is the memory of a work request until it was posted.
type wrMem struct {
	sges   [2]ibv.SGE
	inline [MaxInline]byte
}

func newDoorbell[H comparable](n int) doorbell[H] {
	return doorbell[H]{wrs: make([]ibv.SendWR, 0, n), mem: make([]wrMem, n), back: make([]H, 0, n)}
}

// grow makes room for n work requests. The list must be empty.
func (d *doorbell[H]) grow(n int) {
	if cap(d.wrs) < n {
		*d = newDoorbell[H](n)
	}
}

func (d *doorbell[H]) begin() {
	d.wrs = d.wrs[:0]
	clear(d.back)
	d.back = d.back[:0]
}

func (d *doorbell[H]) full() bool { return len(d.wrs) == cap(d.wrs) }

// giveBack has something given back when the list was posted.
func (d *doorbell[H]) giveBack(h H) {
	var nothing H
	if h != nothing {
		d.back = append(d.back, h)
	}
}

// add adds a work request, and returns its place in the list.
func (d *doorbell[H]) add(op ibv.Opcode) (wr *ibv.SendWR, at int) {
	at = len(d.wrs)
	d.wrs = d.wrs[:at+1]
	d.wrs[at] = ibv.SendWR{Opcode: op}
	return &d.wrs[at], at
}

// control adds a frame that has no memory of its own.
func (q *Queue[H, O]) control(h *wire.Header, payload []byte) *ibv.SendWR {
	wr, at := q.bell.add(ibv.OpSend)
	mem := &q.bell.mem[at]
	p := mem.inline[:wire.HeaderLen+len(payload)]
	h.Put(p)
	copy(p[wire.HeaderLen:], payload)
	if len(p) <= q.limits.Inline {
		wr.Inline = p
	} else {
		mem.sges[0] = q.scratch.frame(q.Posted, p)
		wr.SGEs = mem.sges[:1]
	}
	return wr
}

// frame adds a data frame, and reports whether the work request contains its data.
func (q *Queue[H, O]) frame(h *wire.Header, f *Frame[H]) (wr *ibv.SendWR, inline bool) {
	d := &q.bell
	wr, at := d.add(ibv.OpSend)
	from, size := headerAt+int(f.off), wire.HeaderLen+int(f.N)
	h.Put(f.Mem[from:])
	sges := d.mem[at].sges[:1]
	switch {
	case f.Tail.Length > 0:
		sges = d.mem[at].sges[:2]
		sges[0] = ibv.SGE{Addr: f.Addr + headerAt, Length: wire.HeaderLen, LKey: f.LKey}
		sges[1] = f.Tail
	case size <= q.limits.Inline:
		wr.Inline = f.Mem[from : from+size]
		return wr, true
	default:
		sges[0] = ibv.SGE{Addr: f.Addr + uint64(from), Length: uint32(size), LKey: f.LKey}
	}
	wr.SGEs = sges
	return wr, false
}
