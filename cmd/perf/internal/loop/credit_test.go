package loop

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

func TestAccount(t *testing.T) {
	t.Run("due", func(t *testing.T) {
		for _, tc := range []struct {
			depth, told, got, all uint64
			want                  bool
		}{
			{512, 0, 0, 1000, false},
			{512, 0, 169, 1000, false},
			{512, 0, 170, 1000, true},
			{512, 176, 345, 1000, false},
			{512, 176, 346, 1000, true},
			{512, 850, 1000, 1000, false},
			{512, 800, 1000, 1000, false}, // the last message
			{512, 1 << 40, 1<<40 + 170, math.MaxUint64, true},
			{5, 0, 1, 5, true},
			{2, 0, 1, 5, true}, // a third of it is none
			{1, 3, 3, 5, false},
		} {
			a := account{depth: tc.depth, told: tc.told}
			if got := a.due(tc.got, tc.all); got != tc.want {
				t.Errorf("%+v: %v", tc, got)
			}
		}
	})
	t.Run("hear", func(t *testing.T) {
		for _, tc := range []struct {
			heard  uint64
			word   uint32
			posted uint64
			want   uint64
		}{
			{0, 0, 0, 0},
			{0, 0, 511, 0},
			{0, 170, 511, 170},
			{170, 170, 600, 170},
			{170, 511, 511, 511},
			{0, 852, 100, 0},     // of another run
			{170, 100, 600, 170}, // the same
			{1<<32 - 10, 5, 1<<32 + 400, 1<<32 + 5},
			{1<<33 + 7, 100, 1<<33 + 200, 1<<33 + 100},
		} {
			a := account{depth: 512, heard: tc.heard}
			if a.hear(tc.word, tc.posted); a.heard != tc.want {
				t.Errorf("%+v: heard %d", tc, a.heard)
			}
		}
	})
	t.Run("limit", func(t *testing.T) {
		for _, tc := range []struct{ depth, heard, list, want uint64 }{
			{512, 0, 1, 512}, // 511 are posted: one more
			{512, 170, 1, 682},
			{512, 0, 16, 497}, // 496 are posted: 16 more
			{16, 0, 16, 1},
			{8, 0, 16, 0}, // never
			{8, 8, 16, 1},
		} {
			a := account{depth: tc.depth, heard: tc.heard}
			if got := a.limit(tc.list); got != tc.want {
				t.Errorf("%+v: %d", tc, got)
			}
		}
	})
}

// stockEnd is perftest on iWARP at the other end of one link, as its queues are seen here: it sends as far as this end
// has written credits, and writes credits for what it receives. What comes when is random.
type stockEnd struct {
	t          *testing.T
	rnd        *rand.Rand
	link       Credit
	depth      uint64
	all, list  uint64 // of its messages
	receives   uint64 // posted here
	sent, came uint64 // of its messages: those that it has sent, and those that have completed here
	credit     uint32 // that it has
	arrived    uint64 // messages of this end
	taken      uint64 // those that it has received and posted receives for again
	wcs        []ibv.WC
	credits    int // writes of credits
	open       int // those that have not completed
	refuse     ibv.WCStatus
	gone       bool // it has refused a write, as on iWARP
	flush      bool
}

func (s *stockEnd) PostRecv(wrs []ibv.RecvWR) (int, error) {
	s.receives += uint64(len(wrs))
	return len(wrs), nil
}

func (s *stockEnd) PostSend(wrs []ibv.SendWR) (int, error) {
	for i := range wrs {
		wr := &wrs[i]
		wc := ibv.WC{ID: wr.ID, Opcode: ibv.WCSend}
		if wr.Opcode == ibv.OpWrite {
			if wr.Remote != s.link.Remote || len(wr.SGEs) != 1 || wr.SGEs[0] != s.link.SGE {
				s.t.Errorf("a credit is %+v, want one at %+v from %+v", wr, s.link.Remote, s.link.SGE)
			}
			if s.credits++; s.open > 0 {
				s.t.Error("a second credit is under way: the send queue has room for one")
			}
			s.open++
			wc.Opcode, wc.Status = ibv.WCWrite, s.refuse
			s.gone = s.gone || s.flush
		} else if s.arrived++; s.arrived-s.taken > s.depth {
			s.t.Errorf("message %d of this end finds no receive: %d were posted", s.arrived, s.taken+s.depth)
		}
		if wr.Flags&ibv.Signaled != 0 {
			s.wcs = append(s.wcs, wc)
		}
	}
	return len(wrs), nil
}

// step has the peer do some of what it may do.
func (s *stockEnd) step() {
	if s.gone {
		return
	}
	for range s.rnd.IntN(1 + int(s.arrived-s.taken)) {
		s.taken++
		if s.taken%s.depth%max(s.depth/3, 1) == 0 {
			word(s.link.Peers).Store(uint32(s.taken))
		}
	}
	if s.rnd.IntN(3) == 0 {
		s.credit = word(s.link.Own).Load()
	}
	for range s.rnd.IntN(20) {
		if s.sent == s.all || uint32(s.sent+s.list)-s.credit >= uint32(s.depth) {
			break
		}
		if s.sent += s.list; s.sent > s.receives {
			s.t.Errorf("message %d of the peer finds no receive: %d were posted", s.sent, s.receives)
		}
	}
}

type stockSends struct{ *stockEnd }

func (s stockSends) Poll(wcs []ibv.WC) (int, error) {
	s.step()
	n := copy(wcs, s.wcs[:s.rnd.IntN(1+len(s.wcs))])
	for i := range wcs[:n] {
		if wcs[i].Opcode == ibv.WCWrite {
			s.open--
			s.credit = word(s.link.Own).Load()
		}
	}
	s.wcs = s.wcs[:copy(s.wcs, s.wcs[n:])]
	return n, nil
}

type stockRecvs struct{ *stockEnd }

func (s stockRecvs) Poll(wcs []ibv.WC) (int, error) {
	s.step()
	if s.gone {
		wcs[0] = ibv.WC{Status: ibv.WCWRFlushErr}
		return 1, nil
	}
	n := min(len(wcs), int(s.sent-s.came))
	n = s.rnd.IntN(1 + n)
	for i := range wcs[:n] {
		wcs[i] = ibv.WC{Opcode: ibv.WCRecv}
	}
	s.came += uint64(n)
	return n, nil
}

// newCreditLoop returns a loop of messages that need credits in the directions that are asked for, and its peer.
func newCreditLoop(t *testing.T, seed uint64, sends, recvs bool, n, depth, list, peers uint64) (*Bandwidth, *stockEnd) {
	mem := make([]byte, 16)
	c := Credit{Own: mem[:4], Peers: mem[4:8], SGE: ibv.SGE{Addr: 1 << 30, Length: 4, LKey: 3},
		Remote: ibv.RemoteAddr{Addr: 0x7000, RKey: 0x66}}
	s := &stockEnd{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), link: c, depth: depth, list: peers}
	b, _ := newFakeLoop(n, int(list), int(list), int(max(list, depth/2)))
	b.Monitor = NewMonitor(b.clk, testutil.Patience, false)
	l := b.Links[0]
	l.Send, l.Recv = s, s
	for i := range l.WRs {
		l.WRs[i].Opcode = ibv.OpSend
	}
	b.Credits = &Credits{CQ: stockSends{s}, Depth: depth, Links: []Credit{c}}
	if sends {
		b.Sends = stockSends{s}
	}
	if recvs {
		b.Recvs, s.all = stockRecvs{s}, n
		if err := l.PostRecv(int(depth)); err != nil {
			t.Fatal(err)
		}
	}
	return b, s
}

// TestCredits has loops of each direction against a peer that works as perftest does. Each message has to find a
// receive, no end may wait for ever, and only messages count.
func TestCredits(t *testing.T) {
	n := uint64(0)
	for _, size := range []struct{ n, depth uint64 }{
		{5, 5}, {50, 50}, {1000, 512}, {1001, 512}, {513, 512}, {600, 20}, {64, 1}, {96, 2}, {96, 3}, {128, 64},
	} {
		for _, list := range []uint64{1, 4, 16} {
			if list > 1 && (size.n%list != 0 || list > size.depth-size.depth/3) {
				continue
			}
			for _, way := range []string{"out", "in", "both"} {
				if size.depth == 1 && way != "out" {
					continue // perftest sends fewer messages than it has receives: none
				}
				n++
				name := fmt.Sprintf("%s n=%d depth=%d list=%d", way, size.n, size.depth, list)
				t.Run(name, func(t *testing.T) {
					sends, recvs := way != "in", way != "out"
					b, s := newCreditLoop(t, n, sends, recvs, size.n, size.depth, list, list)
					var want uint64
					for _, x := range []bool{sends, recvs} {
						if x {
							want += size.n
						}
					}
					if err := b.Run(); err != nil {
						t.Fatal(err)
					}
					if m := b.moved(); m.Total() != want || sends && m.Sent != size.n {
						t.Errorf("moved %+v, want %d", m, want)
					}
					if s.open != 0 || s.sent != s.all || sends && s.arrived != size.n {
						t.Errorf("%d credits are open, %d of %d messages came, %d went", s.open, s.sent, s.all,
							s.arrived)
					}
					if recvs && size.n > size.depth && s.credits == 0 || !recvs && s.credits > 0 {
						t.Errorf("%d credits", s.credits)
					}
				})
			}
		}
	}
}

// TestCreditsOfAnotherRun: what the peer has written for the last size admits nothing of the next.
func TestCreditsOfAnotherRun(t *testing.T) {
	b, s := newCreditLoop(t, 1, true, false, 1000, 60, 1, 1)
	word(s.link.Peers).Store(1000)
	if err := b.Run(); err != nil || s.taken == 0 {
		t.Fatalf("%v; the peer has taken %d messages", err, s.taken)
	}
}

// TestCreditRefused: if the peer refuses the write of a credit, or ends the connection for it, the error names the
// credit. That of a peer that leaves later does not.
func TestCreditRefused(t *testing.T) {
	for _, tc := range []struct {
		name  string
		sends bool
		make  func(s *stockEnd)
		cause error
	}{
		{"refused", false, func(s *stockEnd) { s.refuse = ibv.WCRemAccessErr }, ibv.WCRemAccessErr.Err()},
		{"refused, both directions", true, func(s *stockEnd) { s.refuse = ibv.WCRemAccessErr },
			ibv.WCRemAccessErr.Err()},
		{"connection ended", false, func(s *stockEnd) { s.flush = true }, ibv.WCWRFlushErr.Err()},
		{"connection ended, both directions", true, func(s *stockEnd) { s.flush = true }, ibv.WCWRFlushErr.Err()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, s := newCreditLoop(t, 1, tc.sends, true, 1000, 100, 1, 1)
			tc.make(s)
			err := b.Run()
			var bad *CreditError
			if !errors.As(err, &bad) || !errors.Is(err, tc.cause) {
				t.Fatalf("run = %v, want a CreditError of %v", err, tc.cause)
			}
			if bad.Remote != s.link.Remote || bad.Messages < 33 || bad.Messages > 100 {
				t.Errorf("%+v", bad)
			}
			for _, part := range []string{"queue pair 1", "credit", "address 0x7000", "key 0x66", "advertised"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is not in %v", part, err)
				}
			}
		})
	}
	t.Run("a peer that leaves", func(t *testing.T) {
		b, s := newCreditLoop(t, 1, false, true, 1000, 100, 1, 1)
		b.Recvs = during{b.Recvs, func() { s.gone = s.came > 500 }}
		err := b.Run()
		if bad := (*CreditError)(nil); errors.As(err, &bad) || !errors.Is(err, ibv.WCWRFlushErr.Err()) {
			t.Errorf("run = %v", err)
		}
	})
}

// asleep sleeps where nothing is to come.
type asleep struct{ stockSends }

func (a asleep) Poll(wcs []ibv.WC) (int, error) {
	if len(a.wcs) == 0 {
		return 0, errors.New("it sleeps, and no completion is to come")
	}
	return a.stockSends.Poll(wcs)
}

// TestCreditsWakeNobody: an end that sleeps for completions does not while it waits for credits.
func TestCreditsWakeNobody(t *testing.T) {
	for _, moderate := range []int{1, 7} {
		b, s := newCreditLoop(t, 3, true, false, 1000, 30, 1, 1)
		b.Sends, b.Links[0].Moderate = asleep{stockSends{s}}, moderate
		b.Links[0].Begin(64, 64, 4096, 64, 0)
		if err := b.Run(); err != nil {
			t.Errorf("a completion for %d messages: %v", moderate, err)
		}
	}
}

// TestCreditsStall: a peer that writes no credits is reported.
func TestCreditsStall(t *testing.T) {
	b, s := newCreditLoop(t, 1, true, false, 1000, 30, 1, 1)
	b.Monitor = NewMonitor(b.clk, 20*time.Millisecond, false)
	b.Sends = during{b.Sends, func() { s.gone = true }}
	if err := b.Run(); !errors.Is(err, ErrStalled) || s.arrived != 30 {
		t.Errorf("run = %v after %d messages, want ErrStalled after 30", err, s.arrived)
	}
}

func TestCreditsDoNotAllocate(t *testing.T) {
	b, s := newCreditLoop(t, 1, true, true, 1<<62, 60, 1, 1)
	s.wcs = make([]ibv.WC, 0, 1000)
	started := errors.New("started")
	b.Recvs = during{b.Recvs, func() {
		if s.credits == 10 && b.why.Load() == nil {
			b.Abort(started)
		}
	}}
	if err := b.Run(); !errors.Is(err, started) {
		t.Fatal(err)
	}
	before := s.credits
	if n := testing.AllocsPerRun(1000, func() {
		if err := errors.Join(b.fill(), b.poll()); err != nil {
			t.Fatal(err)
		}
	}); n != 0 || s.credits == before {
		t.Errorf("with %d credits: %v allocations", s.credits-before, n)
	}
}
