package session

import (
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
)

// Pair is one queue pair with the addresses that its messages have.
type Pair struct {
	QP      *ibv.QP
	AH      *ibv.AH // UD, DC: the peer's address
	DCKey   uint64  // DC
	QKey    uint32  // UD, SRD
	PeerQPN uint32
	SRQ     *ibv.SRQ // of its receives, if they are shared
	SRQN    uint32   // XRC: the peer's

	Local   uint64 // what is sent, or read to
	Landing uint64 // where the peer's messages arrive
	LKey    uint32
	Remote  uint64 // the peer's Landing
	RKey    uint32
	Credit  *Credit // nil: messages need none
}

// toward and lost are for ways that connect nothing by themselves.
func (s *Session) toward(int) *reach { return nil }

func (s *Session) lost() (int, error) { return 0, nil }

// Pairs lists the queue pairs.
func (s *Session) Pairs() []Pair {
	out := make([]Pair, s.plan.Queues.QPs)
	for i := range out {
		peer := &s.peer[s.plan.Partner(i)]
		out[i] = Pair{
			QP: s.qps[i], PeerQPN: peer.QPN, QKey: ibv.DefaultQKey, SRQ: s.srq, SRQN: peer.SRQN,
			Local: s.region(i).Addr() + s.sendOff(i), Landing: s.landing(i), LKey: s.region(i).LKey(),
			Remote: peer.VAddr, RKey: peer.RKey, Credit: s.credit(i),
		}
		if r := s.way.toward(i); r != nil {
			out[i].AH, out[i].PeerQPN, out[i].QKey = r.ah, r.qpn, r.qkey
		} else if s.ahs != nil {
			out[i].AH = s.ahs[i]
		}
		if s.plan.Transport == wire.DC {
			out[i].DCKey = dcKey
		}
	}
	return out
}
