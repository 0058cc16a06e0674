//go:build linux

package engine

import (
	"bytes"
	"hash/maphash"

	"github.com/pureverbs/pureverbs/internal/emu/guest"
	"github.com/pureverbs/pureverbs/internal/emu/hca"
)

var seed = maphash.MakeSeed()

func hash(b []byte) uint64 { return maphash.Bytes(seed, b) | 1 }

// remember keeps what a WQE looks like that is to be tried again.
func (e *Engine) remember(qp *hca.QP, w *wqe) {
	e.win.n = 0 // it is read again
	if e.watching() {
		qp.Run.Hash = hash(w.raw[:w.size])
	}
}

// checkChanged reads the executed part of the window again, before its completions are written.
func (e *Engine) checkChanged(qp *hca.QP, tail uint32) {
	w, r := &e.win, &qp.Run
	if w.qp != qp || tail-w.from >= w.n || r.Tail == tail {
		return
	}
	from := tail - w.from
	n := min(r.Tail-tail, w.n-from)
	i := tail & (qp.SQ.Count - 1)
	k := min(n, qp.SQ.Count-i)
	v := append(e.io.win[:0], guest.IOV{Base: qp.SQ.Base + uint64(i)<<blockShift, Len: uint64(k) << blockShift})
	if k < n {
		v = append(v, guest.IOV{Base: qp.SQ.Base, Len: uint64(n-k) << blockShift})
	}
	now := e.look4[:n<<blockShift]
	if qp.Mem.ReadV(now, v) != nil {
		return
	}
	was := w.buf[from<<blockShift:][:len(now)]
	if bytes.Equal(now, was) {
		return
	}
	for i := range now {
		if now[i] != was[i] {
			e.violate(qp.Mem.PID, RuleWQEChanged, "QP 0x"+hex(qp.Num)+", block "+u((tail+uint32(i)>>blockShift)&0xffff)+", byte "+u(uint32(i)&63))
			return
		}
	}
}
