package session

import (
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
)

// Credit is the memory of a queue pair's credits: one word for this end to write from, and one that the peer writes to.
type Credit struct {
	Own, Peers []byte
	SGE        ibv.SGE // Own
}

const creditLen = 4 // of a word

// Credits reports whether messages need credits: those of perftest's send bw do on iWARP, where a message that finds no
// receive ends the connection. Two of ours do without.
func (s *Session) Credits() bool {
	p := &s.plan
	return p.Verb == wire.Send && p.Bandwidth() && s.Meets() && !s.terms.Ours && !s.dev.Info().Transport.RNR()
}

// makeCredits makes the memory of credits, if messages need any. It is the processor's, wherever messages are.
func (s *Session) makeCredits() (err error) {
	if s.Credits() {
		s.credits, err = s.pd.AllocMR(2*creditLen*s.plan.Queues.QPs, ibv.LocalWrite|ibv.RemoteWrite, nil)
	}
	return err
}

// exposed returns what the peer has to know of the memory of queue pair i: its receive area, or its word for credits.
func (s *Session) exposed(i int) (rkey uint32, addr uint64) {
	if s.credits == nil {
		return s.region(i).RKey(), s.landing(i)
	}
	return s.credits.RKey(), s.credits.Addr() + creditLen*uint64(2*i+1)
}

// credit returns the memory of the credits of queue pair i, nil if there are none.
func (s *Session) credit(i int) *Credit {
	if s.credits == nil {
		return nil
	}
	at := 2 * creditLen * i
	words := s.credits.Bytes()[at:]
	return &Credit{Own: words[:creditLen], Peers: words[creditLen:][:creditLen], SGE: s.credits.SGE(at, creditLen)}
}

// sendDepth is the depth of a send queue.
func (s *Session) sendDepth() int {
	if s.Credits() {
		return s.plan.Queues.TxDepth + 1 // a credit
	}
	if s.plan.Bandwidth() {
		return s.plan.Queues.TxDepth
	}
	return max(s.plan.Queues.TxDepth, 2) // the next one is posted before the last one is done with
}
