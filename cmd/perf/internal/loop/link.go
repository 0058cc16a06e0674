package loop

import (
	"fmt"

	"golang.org/x/sys/cpu"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/payload"
	"github.com/pureverbs/pureverbs/ibv"
)

// A work request's ID is the number of its link and, below, the ordinal of the message on that link.
// Ordinals start over when the bits are used up.
const (
	ordinalBits = 40
	ordinalMask = 1<<ordinalBits - 1
)

// Link is one queue pair at work. All its memory is there before the loop: exported fields are set
// before it, the others are the loop's.
type Link struct {
	_        cpu.CacheLinePad // another thread's may be next to it
	Name     string           // for errors
	Send     SendQueue
	Recv     RecvQueue
	Messages uint64 // in each direction
	Moderate int    // messages for each completion

	WRs    []ibv.SendWR // one post list; each has one SGE, whose key is set
	Local  uint64       // where messages come from
	Remote uint64       // their destination, if they name one

	RecvWRs []ibv.RecvWR // posted at once, as many as are needed
	Landing uint64       // where messages of the peer arrive

	id     uint64 // its index among the links
	walk   payload.Walker
	flags  ibv.SendFlags
	unsig  int    // messages until the next that asks for a completion
	limit  uint64 // messages that may be posted: all, or what the peer's credits admit
	posted uint64 // ordinal of the last message posted
	done   uint64 // ordinal of the last message completed
	moved  int64  // ticks of that

	recvWalk   payload.Walker
	recvPosted uint64
	recvDone   uint64
	refill     int // receives used up and not posted again yet
	_          cpu.CacheLinePad
}

// NewLink returns a link whose lists have so many work requests, with one SGE of that key each.
func NewLink(sends, recvs int, lkey uint32) *Link {
	l := &Link{WRs: apart[ibv.SendWR](sends), RecvWRs: apart[ibv.RecvWR](recvs)}
	sges := apart[ibv.SGE](sends + recvs)
	for i := range sges {
		sges[i].LKey = lkey
	}
	for i := range l.WRs {
		l.WRs[i].SGEs = sges[i : i+1]
	}
	for i := range l.RecvWRs {
		l.RecvWRs[i].SGEs = sges[sends+i : sends+i+1]
	}
	return l
}

// apart returns n elements of 16 bytes or more that share no cache line with anything else.
func apart[T any](n int) []T {
	const pad = 8
	return make([]T, n+2*pad)[pad : pad+n]
}

// Number gives links their numbers, by which completions find them.
func Number(links []*Link) {
	for i, l := range links {
		l.id = uint64(i)
		for k := range l.RecvWRs {
			l.RecvWRs[k].ID = l.id << ordinalBits
		}
	}
}

// Begin starts over, for messages of another size, which step through cycle bytes. One takes
// arrives bytes where it arrives.
func (l *Link) Begin(size, arrives, cycle, line uint64, flags ibv.SendFlags) {
	l.walk = payload.NewWalker(size, cycle, line)
	l.recvWalk = payload.NewWalker(arrives, cycle, line)
	l.flags, l.unsig, l.limit = flags, l.Moderate, l.Messages
	l.posted, l.done, l.moved, l.recvPosted, l.recvDone, l.refill = 0, 0, 0, 0, 0, 0
	for i := range l.WRs {
		l.WRs[i].SGEs[0].Length = uint32(size)
	}
	for i := range l.RecvWRs {
		l.RecvWRs[i].SGEs[0].Length = uint32(arrives)
	}
}

// post posts one list.
func (l *Link) post() error {
	for i := range l.WRs {
		wr := &l.WRs[i]
		l.posted++
		wr.ID = l.id<<ordinalBits | l.posted&ordinalMask
		wr.Flags = l.flags
		if l.unsig--; l.unsig == 0 || l.posted == l.Messages {
			wr.Flags |= ibv.Signaled
			l.unsig = l.Moderate
		}
		off := l.walk.Next()
		wr.SGEs[0].Addr = l.Local + off
		wr.Remote.Addr = l.Remote + off
	}
	if n, err := l.Send.PostSend(l.WRs); err != nil {
		return fmt.Errorf("%s, message %d: %w", l.Name, l.posted-uint64(len(l.WRs)-n)+1, err)
	}
	return nil
}

// PostRecv posts n receives, at most as many as there are messages to come.
func (l *Link) PostRecv(n int) error {
	for n > 0 && l.recvPosted < l.Messages {
		k := min(uint64(n), uint64(len(l.RecvWRs)), l.Messages-l.recvPosted)
		for i := range l.RecvWRs[:k] {
			l.RecvWRs[i].SGEs[0].Addr = l.Landing + l.recvWalk.Next()
		}
		if got, err := l.Recv.PostRecv(l.RecvWRs[:k]); err != nil {
			return fmt.Errorf("%s, receive %d: %w", l.Name, l.recvPosted+uint64(got)+1, err)
		}
		l.recvPosted += k
		n -= int(k)
	}
	return nil
}

// failed explains a completion that is none.
func failed(l *Link, what string, ord uint64, wc *ibv.WC) error {
	err := wc.Err()
	if qp, ok := l.Send.(interface{ Explain(*ibv.WC, int) error }); ok {
		err = qp.Explain(wc, 2)
	}
	return fmt.Errorf("%s, %s %d: %w", l.Name, what, ord, err)
}
