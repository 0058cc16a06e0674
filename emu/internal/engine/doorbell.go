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

// scan empties the doorbells of all pages, and reports whether there were some. It looks for arms after it has looked
// for sends, and acts on them before: what a program armed before it rang must have an event.
func (e *Engine) scan() (hit bool) {
	for _, page := range e.pages {
		if e.rung(page) {
			page.Run.Rung = true
		}
	}
	for _, page := range e.pages {
		if slot := &words(page.Page)[armSlot]; atomic.LoadUint64(slot) != 0 {
			atomic.SwapUint64(slot, 0)
			e.arms(page.Context)
			hit = true
		}
	}
	for _, page := range e.pages {
		if page.Run.Rung && len(e.ready.qps) <= fewReady {
			page.Run.Rung = false
			e.look(page)
			hit = true
		}
	}
	return hit
}

// rung empties the send doorbells of a page, and reports whether there were some. A slot keeps only the last of several
// doorbells, so that each hit means: look at every queue of the page.
func (e *Engine) rung(page *hca.UAR) (sent bool) {
	p := words(page.Page)
	for s := range slots {
		at := &p[firstSlot+s*slotStep]
		if atomic.LoadUint64(at) == 0 {
			continue
		}
		v := atomic.SwapUint64(at, 0)
		sent = true
		e.strict.doorbell(page, s, v)
	}
	return sent
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
