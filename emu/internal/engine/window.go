//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

// window is a stretch of a send queue as last read.
type window struct {
	buf  [windowBytes]byte
	qp   *hca.QP
	from uint32
	n    uint32 // blocks
}

// forget has the next WQE be read again.
func (w *window) forget() { w.n = 0 }

const windowBytes = 64 << blockShift

const (
	aheadQPs    = 16 // whose WQEs are read by one call
	aheadBlocks = 8  // of each; a QP that has more is worth a call of its own
)

// wqesAhead is WQEs of the QPs whose turn is next. Where many QPs have one or two WQEs each, reading them one by one
// costs as much as a small message. What was announced does not change before it completes.
type wqesAhead struct {
	list  [aheadQPs]aheadQP // in turn
	n     int
	next  int
	epoch uint64
	buf   [aheadQPs * aheadBlocks << blockShift]byte
}

// aheadQP is blocks of a QP's send queue, from index from on, at a place of wqesAhead.buf.
type aheadQP struct {
	qp      *hca.QP
	from, n uint32
	at      int // below 0: not there
}
