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

const (
	lookChunk  = 1024     // doorbell records read by one call
	lookBytes  = 64 << 10 // with what lies between them
	recordPage = 4096

	fewReady = 8 // QPs with work, above which nobody looks for more: looking at many costs as much as some messages
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
	if page.Run.Rung && len(e.ready) <= fewReady {
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
			e.push(qps[0])
		}
		return
	}
	e.records(qps, func(qp *hca.QP, _, sq uint16) { e.announce(qp, sq) })
}

// records reads the doorbell records of QPs.
func (e *Engine) records(qps []*hca.QP, do func(qp *hca.QP, rq, sq uint16)) {
	eachRecord(e, qps, func(qp *hca.QP) (guest.Mem, uint64) { return qp.Mem, qp.DB }, func(qp *hca.QP, rec []byte) {
		do(qp, binary.BigEndian.Uint16(rec[2:]), binary.BigEndian.Uint16(rec[6:]))
	})
}

// eachRecord reads the doorbell records of objects, in few pieces: libraries put them side by side, and what a piece
// costs is finding its page. Objects are best in the order of their records.
func eachRecord[T any](e *Engine, list []T, of func(T) (guest.Mem, uint64), do func(o T, rec []byte)) {
	s := &e.io
	for len(list) > 0 {
		m, _ := of(list[0])
		s.riov = s.riov[:0]
		n, size := 0, 0
		for ; n < len(list) && n < lookChunk; n++ {
			own, at := of(list[n])
			if own != m {
				break
			}
			if k := len(s.riov) - 1; k >= 0 {
				if p := &s.riov[k]; at >= p.Base && at+8-p.Base <= recordPage && p.Base/recordPage == at/recordPage {
					grown := max(p.Len, at+8-p.Base)
					if size+int(grown-p.Len) > len(s.rec) {
						break
					}
					size += int(grown - p.Len)
					p.Len, s.places[n] = grown, size-int(grown)+int(at-p.Base)
					continue
				}
			}
			if size+8 > len(s.rec) {
				break
			}
			s.riov = append(s.riov, guest.IOV{Base: at, Len: 8})
			s.places[n] = size
			size += 8
		}
		err := m.ReadV(s.rec[:size], s.riov)
		for i, o := range list[:n] {
			rec := s.rec[s.places[i] : s.places[i]+8]
			if err != nil {
				rec = s.tmp[:]
				if _, at := of(o); m.Read(at, rec) != nil {
					continue
				}
			}
			do(o, rec)
		}
		list = list[n:]
	}
}

// announce follows a send doorbell record after a doorbell.
func (e *Engine) announce(qp *hca.QP, rec uint16) {
	r := &qp.Run
	d := uint32(rec - uint16(r.Announced))
	if d == 0 || qp.SQ.Count == 0 {
		return
	}
	if h := e.Hooks.AtDoorbell; h != nil && h(qp) == FaultLost {
		r.Lost = true
		return
	}
	if e.Hooks.Trace != nil {
		e.traceDoorbell(qp, rec, d)
	}
	r.Lost = false
	e.strict.announced(qp)
	if qp.State == hca.Reset { // its library clears the record in a moment; strict mode knows from the doorbell itself
		return
	}
	if qp.State < hca.RTS {
		e.strict.sendState(qp)
	}
	r.Announced += d
	if r.Announced-r.Tail > qp.SQ.Count {
		e.strict.sendAhead(qp)
		r.Tail = r.Announced
		e.fatal(qp)
		return
	}
	e.push(qp)
}

// arms looks at every CQ of a context, because their doorbells overwrite each other.
func (e *Engine) arms(c *hca.Context) {
	cqs := e.cqs[:0]
	hca.EachCQ(c, func(cq *hca.CQ) { cqs = append(cqs, cq) })
	e.cqs = cqs
	eachRecord(e, cqs, func(cq *hca.CQ) (guest.Mem, uint64) {
		return cq.Mem, cq.DB // another than the context's for a process that imported it
	}, func(cq *hca.CQ, rec []byte) {
		e.arm(cq, binary.BigEndian.Uint32(rec), binary.BigEndian.Uint32(rec[4:]))
	})
	e.notify()
}
