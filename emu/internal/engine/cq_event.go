//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

const neverArmed = 0xffffffff // an arm word that no program writes

// arm follows an arm word and the consumer index beside it.
func (e *Engine) arm(cq *hca.CQ, ci, word uint32) {
	r := &cq.Run
	if word == r.LastArm || r.Dead {
		return
	}
	e.consumer(cq, ci)
	r.LastArm = word
	sn, sol, from := uint8(word>>28&3), word>>24&1 != 0, word&0xffffff
	if e.Hooks.Trace != nil {
		e.traceArm(cq, from, sn, sol)
	}
	if sn != r.SN {
		e.strict.armed(cq, sn)
		return
	}
	r.Armed, r.SolOnly, r.ModN = true, sol, 0
	last := r.PI
	if sol {
		last = r.LastSol
	}
	// What was neither polled nor announced counts as if it came now. The program has gone on since it rang: its record
	// may say more than the arm word.
	n := min(int32(last-r.Told), int32(last-r.CI), int32((last-from)<<8)>>8)
	if n > 0 && sol {
		n = 1 // how many more are solicited is not known
	}
	if n > 0 {
		e.came(cq, uint32(n))
	}
}

// written comes when a completion is in memory: events.
func (e *Engine) written(p *pending) {
	cq := p.cq
	r := &cq.Run
	if e.Hooks.Trace != nil {
		e.traceCQE(p)
	}
	countCQE(p)
	if p.sol && int32(p.at+1-r.LastSol) > 0 { // what is postponed comes after later ones
		r.LastSol = p.at + 1
	}
	if !r.Armed || r.SolOnly && !p.sol {
		return
	}
	e.came(cq, 1)
}

// came counts n completions that an armed CQ is to announce: at once, or moderated.
func (e *Engine) came(cq *hca.CQ, n uint32) {
	r := &cq.Run
	r.ModN += n
	off := cq.ModCount <= 1 || cq.ModPeriod == 0
	if off || r.ModN >= uint32(cq.ModCount) || r.Held { // held completions have the timer
		e.fire(cq)
		return
	}
	if !r.Timed {
		r.Timed = true
		e.after(int64(cq.ModPeriod)*1000, nil, cq)
	}
}

// fire makes an armed CQ announce itself when the batch is through.
func (e *Engine) fire(cq *hca.CQ) {
	r := &cq.Run
	if r.Timed {
		r.Timed = false
		r.Timer++
	}
	r.Armed, r.ModN, r.Told = false, 0, r.PI
	r.SN = (r.SN + 1) & 3
	e.toNotify = append(e.toNotify, cq)
}

func (e *Engine) notify() {
	if len(e.toNotify) == 0 && len(e.broken) == 0 {
		return
	}
	e.writeLater() // it may be among what the event is for
	for _, cq := range e.toNotify {
		if e.Hooks.Trace != nil {
			e.traceEvent(cq)
		}
		cq.Notify()
	}
	e.toNotify = e.toNotify[:0]
	e.tellBroken()
}

// cqTimer is the end of a delay: of completions that were held, or of moderation.
func (e *Engine) cqTimer(cq *hca.CQ) {
	r := &cq.Run
	if r.Held {
		r.Held = false
		hook := e.Hooks.AtCQE
		e.Hooks.AtCQE = nil
		e.b.clear()
		kept := e.held[:0]
		for _, p := range e.held {
			if p.cq != cq || len(e.b.cqes) == cap(e.b.cqes) {
				kept = append(kept, p)
				continue
			}
			p.drop = false
			e.b.cqes = append(e.b.cqes, p)
		}
		e.held = kept
		e.commit()
		e.Hooks.AtCQE = hook
		for i := range e.held {
			if e.held[i].cq == cq {
				r.Held = true
				e.after(0, nil, cq)
				break
			}
		}
	}
	if r.Timed {
		r.Timed = false
		if r.Armed {
			e.fire(cq)
			e.notify()
		}
	}
}
