//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

const neverArmed = 0xffffffff // an arm word that no program writes

// arm follows an arm word and the consumer index beside it.
func (cs *completions) arm(cq *hca.CQ, ci, word uint32) {
	r := &cq.Run
	if word == r.LastArm || r.Dead {
		return
	}
	cs.consumer(cq, ci)
	r.LastArm = word
	sn, sol, from := uint8(word>>28&3), word>>24&1 != 0, word&0xffffff
	if cs.hooks.Trace != nil {
		cs.tr.traceArm(cq, from, sn, sol)
	}
	if sn != r.SN {
		cs.strict.armed(cq, sn)
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
		cs.came(cq, uint32(n))
	}
}

// written comes when a completion is in memory: events.
func (cs *completions) written(p *pending) {
	cq := p.cq
	r := &cq.Run
	if cs.hooks.Trace != nil {
		cs.tr.traceCQE(p)
	}
	countCQE(p)
	if p.sol && int32(p.at+1-r.LastSol) > 0 { // what is postponed comes after later ones
		r.LastSol = p.at + 1
	}
	if !r.Armed || r.SolOnly && !p.sol {
		return
	}
	cs.came(cq, 1)
}

// came counts n completions that an armed CQ is to announce: at once, or moderated.
func (cs *completions) came(cq *hca.CQ, n uint32) {
	r := &cq.Run
	r.ModN += n
	off := cq.ModCount <= 1 || cq.ModPeriod == 0
	if off || r.ModN >= uint32(cq.ModCount) || r.Held { // held completions have the timer
		cs.fire(cq)
		return
	}
	if !r.Timed {
		r.Timed = true
		cs.timers.after(int64(cq.ModPeriod)*1000, nil, cq)
	}
}

// fire makes an armed CQ announce itself when the batch is through.
func (cs *completions) fire(cq *hca.CQ) {
	r := &cq.Run
	if r.Timed {
		r.Timed = false
		r.Timer++
	}
	r.Armed, r.ModN, r.Told = false, 0, r.PI
	r.SN = (r.SN + 1) & 3
	cs.toNotify = append(cs.toNotify, cq)
}

func (cs *completions) notify() {
	if len(cs.toNotify) == 0 && len(cs.broken) == 0 {
		return
	}
	cs.writeLater() // it may be among what the event is for
	for _, cq := range cs.toNotify {
		if cs.hooks.Trace != nil {
			cs.tr.traceEvent(cq)
		}
		cq.Notify()
	}
	cs.toNotify = cs.toNotify[:0]
	cs.tellBroken()
}

// release makes the completions of a CQ that were held the batch. It reports whether there are more than that takes.
func (cs *completions) release(cq *hca.CQ) (more bool) {
	kept := cs.held[:0]
	for _, p := range cs.held {
		if p.cq != cq || len(cs.b.cqes) == cap(cs.b.cqes) {
			more = more || p.cq == cq
			kept = append(kept, p)
			continue
		}
		p.drop = false
		cs.b.cqes = append(cs.b.cqes, p)
	}
	cs.held = kept
	return more
}
