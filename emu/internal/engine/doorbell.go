//go:build linux

package engine

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// Where doorbells are on a page, in words of 8 bytes.
const (
	armSlot   = 0x20 / 8
	firstSlot = 0x800 / 8
	slotStep  = 0x100 / 8
	slots     = 8
)

// scan empties the doorbells of a page. A slot keeps only the last of several doorbells, so that each hit means: look
// at every queue of the page.
func (e *Engine) scan(page *hca.UAR) (hit bool) {
	p := words(page.Page)
	if atomic.LoadUint64(&p[armSlot]) != 0 {
		atomic.SwapUint64(&p[armSlot], 0)
		e.arms(page.Context)
		hit = true
	}
	sent := false
	for s := range slots {
		at := &p[firstSlot+s*slotStep]
		if atomic.LoadUint64(at) == 0 {
			continue
		}
		v := atomic.SwapUint64(at, 0)
		sent = true
		e.strict.doorbell(page, s, v)
	}
	page.Run.Rung = page.Run.Rung || sent
	if page.Run.Rung && len(e.ready.qps) <= fewReady {
		page.Run.Rung = false
		e.look(page)
		hit = true
	}
	return hit
}

// look reads the send doorbell records of a page's QPs. For a single QP that is left to exec, which reads WQEs by the
// same call.
func (e *Engine) look(page *hca.UAR) {
	qps := page.QPs
	if len(qps) == 1 {
		if qps[0].SQ.Count > 0 {
			qps[0].Run.Look = true
			e.ready.push(qps[0])
		}
		return
	}
	e.io.records(qps, func(qp *hca.QP, _, sq uint16) { e.sends.announce(qp, sq) })
}

// arms looks at every CQ of a context, because their doorbells overwrite each other.
func (e *Engine) arms(c *hca.Context) {
	cqs := e.cqs[:0]
	hca.EachCQ(c, func(cq *hca.CQ) { cqs = append(cqs, cq) })
	e.cqs = cqs
	eachRecord(e.io, cqs, func(cq *hca.CQ) (guest.Mem, uint64) {
		return cq.Mem, cq.DB // another than the context's for a process that imported it
	}, func(cq *hca.CQ, rec []byte) {
		e.comps.arm(cq, binary.BigEndian.Uint32(rec), binary.BigEndian.Uint32(rec[4:]))
	})
	e.comps.notify()
}
