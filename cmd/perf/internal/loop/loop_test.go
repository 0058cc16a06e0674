package loop

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/tsc"
	"github.com/pureverbs/pureverbs/ibv"
)

// fake is a queue pair that completes what is posted, some polls later, and
// delivers as many messages as receives are posted, if told so.
type fake struct {
	sent    []uint64 // IDs that asked for a completion, not polled yet
	posts   int
	wrs     int
	most    int // arrivals in a poll
	short   int // by which posts were shorter than four
	recvs   int // posted and not used up
	toCome  int // messages still to arrive
	delay   int
	failAt  int // ordinal that fails; 0: none
	silent  bool
	done    int // ordinal of the last message completed
	maxOpen int
	addrs   map[uint64]bool
}

func (f *fake) PostSend(wrs []ibv.SendWR) (int, error) {
	f.posts++
	for i := range wrs {
		f.wrs++
		f.maxOpen = max(f.maxOpen, f.wrs-f.done)
		if f.addrs != nil {
			f.addrs[wrs[i].SGEs[0].Addr] = true
			if wrs[i].Remote.Addr-wrs[i].SGEs[0].Addr != 1<<20 {
				return i, errors.New("local and remote place differ")
			}
		}
		if wrs[i].Flags&ibv.Signaled != 0 {
			f.sent = append(f.sent, wrs[i].ID)
		}
	}
	return len(wrs), nil
}

func (f *fake) PostRecv(wrs []ibv.RecvWR) (int, error) {
	f.recvs += len(wrs)
	f.short += 4 - len(wrs)
	return len(wrs), nil
}

type fakeSendCQ struct{ f *fake }

func (c fakeSendCQ) Poll(wcs []ibv.WC) (int, error) {
	f := c.f
	if f.silent {
		return 0, nil
	}
	if f.delay++; f.delay%3 != 0 {
		return 0, nil
	}
	n := 0
	for n < len(wcs) && len(f.sent) > 0 {
		wcs[n] = ibv.WC{ID: f.sent[0], Status: ibv.WCSuccess}
		f.done = int(f.sent[0] & (1<<ordinalBits - 1))
		if f.failAt > 0 && f.done >= f.failAt {
			wcs[n].Status = ibv.WCRetryExcErr
		}
		copy(f.sent, f.sent[1:])
		f.sent = f.sent[:len(f.sent)-1]
		n++
	}
	return n, nil
}

type fakeRecvCQ struct{ f *fake }

func (c fakeRecvCQ) Poll(wcs []ibv.WC) (int, error) {
	f := c.f
	n := 0
	for n < len(wcs) && f.recvs > 0 && f.toCome > 0 {
		wcs[n] = ibv.WC{Status: ibv.WCSuccess}
		f.recvs--
		f.toCome--
		n++
	}
	f.most = max(f.most, n)
	return n, nil
}

func newFakeLoop(iters uint64, list, mod, depth int) (*Bandwidth, *fake) {
	f := &fake{sent: make([]uint64, 0, 1<<16)}
	clk := tsc.New()
	l := &Link{Name: "queue pair 1", Send: f, Recv: f, Messages: iters, Moderate: mod, Local: 1 << 20, Remote: 2 << 20}
	for range list {
		l.WRs = append(l.WRs, ibv.SendWR{SGEs: []ibv.SGE{{}}})
	}
	for range 4 {
		l.RecvWRs = append(l.RecvWRs, ibv.RecvWR{SGEs: []ibv.SGE{{}}})
	}
	l.Begin(64, 64, 4096, 64, 0)
	b := &Bandwidth{Monitor: NewMonitor(clk, 200*time.Millisecond, false), Links: []*Link{l}, Depth: uint64(depth)}
	return b, f
}

func TestBWLoopSends(t *testing.T) {
	for _, tc := range []struct {
		name             string
		iters            uint64
		list, mod, depth int
		places           int
	}{
		{"one by one", 100, 1, 1, 8, 64},
		{"moderated", 1000, 1, 100, 128, 64},
		{"moderation does not divide", 1001, 1, 100, 128, 64},
		{"moderation fills the queue", 1000, 1, 128, 128, 64},
		{"lists", 1000, 4, 4, 128, 64},
		{"lists, two completions each", 1000, 4, 2, 10, 64},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, f := newFakeLoop(tc.iters, tc.list, tc.mod, tc.depth)
			f.addrs = map[uint64]bool{}
			b.Sends = fakeSendCQ{f}
			b.Stamps = measure.NewStamps(int(tc.iters), int(tc.iters), tc.list)
			if err := b.Run(); err != nil {
				t.Fatal(err)
			}
			if uint64(f.wrs) != tc.iters || b.sent != tc.iters || f.posts != int(tc.iters)/tc.list {
				t.Errorf("%d messages in %d posts, %d completed; want %d", f.wrs, f.posts, b.sent, tc.iters)
			}
			if f.maxOpen > tc.depth {
				t.Errorf("%d outstanding > depth %d", f.maxOpen, tc.depth)
			}
			if len(f.addrs) != min(tc.places, int(tc.iters)) {
				t.Errorf("messages came from %d places, want %d", len(f.addrs), tc.places)
			}
			if b.Stamps.PeakTicks() <= 0 || b.end <= b.begun {
				t.Error("no times were taken")
			}
		})
	}
}

func TestBWLoopReceives(t *testing.T) {
	b, f := newFakeLoop(1000, 1, 1, 8)
	b.Recvs = fakeRecvCQ{f}
	f.toCome = 1000
	if err := b.Links[0].PostRecv(64); err != nil {
		t.Fatal(err)
	}
	if err := b.Run(); err != nil {
		t.Fatal(err)
	}
	if b.got != 1000 || b.Links[0].recvPosted != 1000 || f.recvs != 0 {
		t.Errorf("%d messages, %d receives posted, %d left over; want 1000, 1000, 0", b.got, b.Links[0].recvPosted,
			f.recvs)
	}
}

// TestBWLoopReceiverClock: what had come before the first look is not in the rate.
func TestBWLoopReceiverClock(t *testing.T) {
	const each = 2 * time.Millisecond
	b, f := newFakeLoop(40, 1, 1, 8)
	var next time.Time
	b.Recvs = during{fakeRecvCQ{f}, func() {
		switch now := time.Now(); {
		case next.IsZero():
			f.toCome, next = PollBatch, now.Add(each)
		case now.After(next):
			f.toCome, next = 1, now.Add(each)
		}
	}}
	if err := b.Links[0].PostRecv(64); err != nil {
		t.Fatal(err)
	}
	if err := b.Run(); err != nil {
		t.Fatal(err)
	}
	_, came := b.Flows()
	s := measure.Moved(64, came, b.clk.Rate()/1e9, 0)
	rate, most := s.BW.MessagesPerSecond, 1/each.Seconds()
	if s.Messages != 40 || rate <= 0 || rate > 1.1*most {
		t.Errorf("%d messages, %v a second; want 40 and at most %v", s.Messages, rate, most)
	}
}

// TestBWLoopReceiveLists: receives are posted in lists, and all of them are.
func TestBWLoopReceiveLists(t *testing.T) {
	b, f := newFakeLoop(1000, 1, 1, 8)
	b.Recvs, b.Held = Few{fakeRecvCQ{f}, 7}, 29
	f.toCome = 1000
	if err := b.Links[0].PostRecv(64); err != nil {
		t.Fatal(err)
	}
	if err := b.Run(); err != nil {
		t.Fatal(err)
	}
	if b.got != 1000 || f.most != 7 {
		t.Errorf("%d messages, at most %d at once; want 1000, 7", b.got, f.most)
	}
	// Polls find 4 and 7: without lists each refill would be short.
	if f.short > 2*1000/30+4 {
		t.Errorf("posts were too short by %d receives, want lists of 30", f.short)
	}
}

// TestBWLoopPaced: messages keep to the rate, and each link has its turn.
func TestBWLoopPaced(t *testing.T) {
	const iters, rate = 100, 10000
	b, f := newFakeLoop(iters, 1, 1, 64)
	other, g := newFakeLoop(iters, 1, 1, 64)
	g.sent, other.Links[0].Send = nil, f
	b.Links = append(b.Links, other.Links[0])
	Number(b.Links)
	b.Sends = fakeSendCQ{f}
	b.Pace = measure.NewPacer(b.clk, rate, 10)
	begun := time.Now()
	if err := b.Run(); err != nil {
		t.Fatal(err)
	}
	if took, least := time.Since(begun), 2*iters*time.Second/rate-2*time.Millisecond; took < least {
		t.Errorf("%d messages took %v, want at least %v", 2*iters, took, least)
	}
	if b.sent != 2*iters || b.Links[0].done != iters || b.Links[1].done != iters {
		t.Errorf("%d messages, %d and %d of the links; want %d each", b.sent, b.Links[0].done, b.Links[1].done, iters)
	}
}

// TestOrdinalsStartOver: a run goes on when the bits of its ordinals are used up.
func TestOrdinalsStartOver(t *testing.T) {
	const from, iters = 1<<ordinalBits - 50, 100
	b, f := newFakeLoop(from+iters, 1, 1, 8)
	b.Links[0].posted, b.Links[0].done, b.sent = from, from, from
	b.Sends = fakeSendCQ{f}
	if err := b.Run(); err != nil {
		t.Fatal(err)
	}
	if f.wrs != iters || b.Links[0].done != from+iters || b.Links[0].id != 0 {
		t.Errorf("%d messages posted, %d done; want %d, %d", f.wrs, b.Links[0].done, iters, uint64(from+iters))
	}
}

// TestBWLoopGate: a server that also sends waits for the first message.
func TestBWLoopGate(t *testing.T) {
	b, f := newFakeLoop(100, 1, 1, 8)
	b.Sends, b.Recvs, b.Gated = fakeSendCQ{f}, fakeRecvCQ{f}, true
	if err := b.Links[0].PostRecv(8); err != nil {
		t.Fatal(err)
	}
	if err := b.Run(); !errors.Is(err, ErrStalled) || f.wrs != 0 {
		t.Fatalf("run = %v after %d messages, want it to stall without sending", err, f.wrs)
	}
	f.toCome = 100
	b.Busy()
	if err := b.Run(); err != nil {
		t.Fatal(err)
	}
	if b.sent != 100 || b.got != 100 {
		t.Errorf("sent %d, got %d; want 100 each", b.sent, b.got)
	}
}

func TestBWLoopFails(t *testing.T) {
	b, f := newFakeLoop(100, 1, 1, 8)
	b.Sends = fakeSendCQ{f}
	f.failAt = 37
	err := b.Run()
	var wce *ibv.WCError
	if !errors.As(err, &wce) || !strings.Contains(err.Error(), "queue pair 1, message 37") {
		t.Errorf("run = %v, want a WCError of message 37", err)
	}

	b, f = newFakeLoop(100, 1, 1, 8)
	b.Sends = fakeSendCQ{f}
	f.silent = true
	if err := b.Run(); !errors.Is(err, ErrStalled) {
		t.Errorf("run = %v, want ErrStalled", err)
	}

	b, f = newFakeLoop(100, 1, 1, 8)
	b.Sends = fakeSendCQ{f}
	f.silent = true
	b.limit, b.stall = time.Hour, b.clk.Ticks(time.Hour)
	why := errors.New("the peer left")
	time.AfterFunc(20*time.Millisecond, func() { b.Abort(why) })
	if err := b.Run(); !errors.Is(err, why) {
		t.Errorf("run = %v, want %v", err, why)
	}
}

// TestLoopsEndWhenBusy: a loop that always has something to do ends, too.
func TestLoopsEndWhenBusy(t *testing.T) {
	why := errors.New("enough")
	b, f := newFakeLoop(1<<39, 1, 1, 8)
	b.Sends = fakeSendCQ{f}
	time.AfterFunc(20*time.Millisecond, func() { b.Abort(why) })
	if err := b.Run(); !errors.Is(err, why) {
		t.Errorf("run = %v, want %v", err, why)
	}
	l, _ := newFakeLat(1 << 39)
	l.posts = nil
	time.AfterFunc(20*time.Millisecond, func() { l.Abort(why) })
	if err := l.Read(); !errors.Is(err, why) {
		t.Errorf("read = %v, want %v", err, why)
	}
}

func TestBWLoopByTime(t *testing.T) {
	b, f := newFakeLoop(1<<63, 1, 100, 128)
	b.Sends = fakeSendCQ{f}
	b.Sample = measure.NewSampler(b.clk, 100*time.Millisecond, 20*time.Millisecond)
	b.CountLinks()
	start := time.Now()
	if err := b.Run(); err != nil {
		t.Fatal(err)
	}
	messages, from, to := b.Sample.Sample()
	ticks := to - from
	ms := float64(ticks) * b.clk.Rate() / 1e6
	if d := time.Since(start); d < 90*time.Millisecond || ms < 40 {
		t.Errorf("ran for %v, sampled for %.1f ms; want 100 and 60", d, ms)
	}
	if n := messages.Sent; n == 0 || n > b.total || b.Counted()[0] != n {
		t.Errorf("the sample has %+v messages of %d, the link %v", messages, b.total, b.Counted())
	}
}

// endingPeer sends for a while, and then comes to its next step.
type endingPeer struct {
	b    *Bandwidth
	f    *fake
	left *int // messages after the sample began
}

func (p endingPeer) Poll(wcs []ibv.WC) (int, error) {
	if p.f.recvs > 0 && (p.f.done == 0 || *p.left > 0) {
		if !p.b.Sample.Ahead() {
			*p.left--
		}
		wcs[0] = ibv.WC{Status: ibv.WCSuccess}
		p.f.recvs--
		p.f.done++
		return 1, nil
	}
	if p.b.spoke.Load() == 0 && *p.left <= 0 {
		p.b.Spoke()
	}
	return 0, nil
}

// TestByTimeReceiverLate: an end that began late has the messages that came while the peer's time was not over.
func TestByTimeReceiverLate(t *testing.T) {
	run := func(sends int, lasts, margin time.Duration) (*Bandwidth, *fake, error) {
		b, f := newFakeLoop(1<<39, 1, 1, 8)
		b.Monitor = NewMonitor(b.clk, time.Minute, false)
		b.Recvs = endingPeer{b, f, &sends}
		b.Sample = measure.NewSampler(b.clk, lasts, margin)
		if err := b.Links[0].PostRecv(8); err != nil {
			t.Fatal(err)
		}
		return b, f, b.Run()
	}
	for _, lasts := range []time.Duration{150 * time.Millisecond, time.Hour} { // whose end is seen first
		b, f, err := run(10, lasts, time.Microsecond)
		if err != nil {
			t.Fatalf("lasts %v: %v", lasts, err)
		}
		messages, from, to := b.Sample.Sample()
		if n := messages.Got; to != b.recvMoved || from >= to || n == 0 || n > uint64(f.done) {
			t.Errorf("lasts %v: %+v messages of %d from %d to %d, the last came at %d", lasts, messages, f.done, from,
				to, b.recvMoved)
		}
	}
	if _, _, err := run(0, time.Hour, time.Minute); !errors.Is(err, ErrLate) {
		t.Errorf("without a sample: %v, want ErrLate", err)
	}
}

// TestByTimeSilence: a run by time of which nothing completes any more is no result, however long it was to last.
func TestByTimeSilence(t *testing.T) {
	sampler := func(m *Monitor) *measure.Sampler {
		return measure.NewSampler(m.clk, 60*time.Millisecond, 5*time.Millisecond)
	}
	t.Run("sends", func(t *testing.T) {
		b, f := newFakeLoop(1<<39, 1, 1, 8)
		b.Sends, b.Sample = fakeSendCQ{f}, sampler(b.Monitor)
		f.silent = true
		if err := b.Run(); !errors.Is(err, ErrStalled) || !strings.Contains(err.Error(), "queue pair 1, message 1") {
			t.Errorf("run = %v, want ErrStalled and the message", err)
		}
	})
	t.Run("one of two queue pairs", func(t *testing.T) {
		b, f := newFakeLoop(1<<39, 1, 1, 8)
		b2, lost := newFakeLoop(1<<39, 1, 1, 8)
		b2.Links[0].Name = "queue pair 2"
		b.Links = append(b.Links, b2.Links...)
		Number(b.Links)
		b.Sends, b.Sample = fakeSendCQ{f}, sampler(b.Monitor)
		if err := b.Run(); !errors.Is(err, ErrStalled) || !strings.Contains(err.Error(), "queue pair 2, message 1") {
			t.Errorf("run = %v after %d messages of the silent queue pair, want ErrStalled and its name", err, lost.wrs)
		}
	})
	t.Run("receives", func(t *testing.T) {
		b, f := newFakeLoop(1<<39, 1, 1, 8)
		b.Recvs, b.Sample = fakeRecvCQ{f}, sampler(b.Monitor)
		f.toCome = 3
		if err := b.Links[0].PostRecv(8); err != nil {
			t.Fatal(err)
		}
		if err := b.Run(); !errors.Is(err, ErrStalled) {
			t.Errorf("run = %v, want ErrStalled", err)
		}
	})
	t.Run("drain", func(t *testing.T) {
		b, f := newFakeLoop(100, 1, 1, 8)
		b.Sends = fakeSendCQ{f}
		f.silent = true
		if err := b.Links[0].post(); err != nil {
			t.Fatal(err)
		}
		if err := b.Drain(); !errors.Is(err, ErrStalled) {
			t.Errorf("drain = %v, want ErrStalled", err)
		}
	})
	t.Run("ping-pong", func(t *testing.T) {
		l, f := newFakeLat(1 << 39)
		l.posts = nil
		l.ByTime(sampler(l.Monitor), l.clk.Rate())
		f.toCome = 5
		if err := l.Link.PostRecv(16); err != nil {
			t.Fatal(err)
		}
		if err := l.PingPong(); !errors.Is(err, ErrStalled) {
			t.Errorf("ping-pong = %v, want ErrStalled", err)
		}
	})
	t.Run("ping-pong, and the peer's run is over", func(t *testing.T) {
		l, f := newFakeLat(1 << 39)
		l.Monitor = NewMonitor(l.clk, time.Minute, true)
		l.posts = nil
		l.ByTime(sampler(l.Monitor), l.clk.Rate())
		f.toCome = 5
		l.Recvs = during{l.Recvs, func() {
			if f.toCome == 0 {
				l.Spoke()
			}
		}}
		if err := l.Link.PostRecv(16); err != nil {
			t.Fatal(err)
		}
		if err := l.PingPong(); err != nil {
			t.Errorf("ping-pong = %v", err)
		}
	})
}

// TestByTimeFollows: an end that follows replies for longer than its own time, until the peer's run is over.
func TestByTimeFollows(t *testing.T) {
	l, f := newFakeLat(1 << 39)
	l.Monitor = NewMonitor(l.clk, time.Minute, true)
	l.posts, l.Begins, l.Follows = nil, false, true
	l.ByTime(measure.NewSampler(l.clk, 20*time.Millisecond, 5*time.Millisecond), l.clk.Rate())
	l.Link.Messages = 1 << 40
	end := time.Now().Add(200 * time.Millisecond)
	l.Recvs = during{l.Recvs, func() {
		if f.toCome = 1; time.Now().After(end) {
			f.toCome = 0
			l.Spoke()
		}
	}}
	if err := l.Link.PostRecv(16); err != nil {
		t.Fatal(err)
	}
	if err := l.PingPong(); err != nil {
		t.Fatal(err)
	}
	if l.spoke.Load() == 0 {
		t.Error("it ended before the peer did")
	}
}

func TestLoopsDoNotAllocate(t *testing.T) {
	b, f := newFakeLoop(1<<63, 1, 4, 16)
	b.Sends = fakeSendCQ{f}
	b.Stamps = measure.NewStamps(1<<16, 1<<16, 1)
	if n := testing.AllocsPerRun(100, func() {
		if err := b.fill(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := b.reap(); err != nil {
				t.Fatal(err)
			}
		}
	}); n != 0 {
		t.Errorf("posting and polling allocates %v times", n)
	}

	b, f = newFakeLoop(1<<63, 1, 4, 16)
	b.Recvs = fakeRecvCQ{f}
	f.toCome = 1 << 30
	if err := b.Links[0].PostRecv(16); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		if err := b.receive(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("receiving allocates %v times", n)
	}

	b, f = newFakeLoop(1<<63, 1, 4, 16)
	b.Sends = fakeSendCQ{f}
	b.Pace = measure.NewPacer(b.clk, 1e9, 16)
	if n := testing.AllocsPerRun(100, func() {
		if err := errors.Join(b.pace(), b.reap()); err != nil {
			t.Fatal(err)
		}
	}); n != 0 || f.wrs == 0 {
		t.Errorf("posting %d messages at a rate allocates %v times", f.wrs, n)
	}

	lat, f := newFakeLat(1 << 62)
	lat.sample = measure.NewSampler(lat.clk, time.Hour, 0)
	lat.sample.Start(lat.clk.Now() - 10)
	lat.sample.Tick(lat.clk.Now(), measure.Count{})
	lat.hist = measure.NewLatency()
	lat.posts = nil
	if n := testing.AllocsPerRun(100, func() {
		if err := lat.send(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a latency message allocates %v times", n)
	}
	if lat.hist.Summary().Count == 0 || f.wrs == 0 {
		t.Error("nothing was measured")
	}
}

func newFakeLat(iters uint64) (*Latency, *fake) {
	b, f := newFakeLoop(iters, 1, 1, 1)
	n := min(iters, 1<<16)
	return &Latency{Monitor: b.Monitor, Link: b.Links[0], Sends: fakeSendCQ{f}, Recvs: fakeRecvCQ{f},
		Begins: true, Half: 0.5, rate: b.clk.Rate(), posts: make([]int64, n)}, f
}

func TestLatLoopRead(t *testing.T) {
	for _, toCQE := range []bool{false, true} {
		l, f := newFakeLat(50)
		l.ToCQE = toCQE
		if toCQE {
			l.cqes = make([]int64, 50)
		}
		if err := l.Read(); err != nil {
			t.Fatal(err)
		}
		want := uint64(49) // perftest's samples lie between messages
		if toCQE {
			want = 50
		}
		if s := l.Collect(l.clk.Rate()).Summary(); s.Count != want || f.wrs != 50 {
			t.Errorf("toCQE %v: %d samples of %d messages, want %d of 50", toCQE, s.Count, f.wrs, want)
		}
	}
}

// TestLatLoopAhead: a first message whose answer takes long, because the peer is not ready, is in no figure. All are
// sent.
func TestLatLoopAhead(t *testing.T) {
	const n = 10
	for _, how := range []string{"by count", "by time", "to completion"} {
		l, f := newFakeLat(n)
		l.Ahead = 1
		switch how {
		case "by time":
			l.posts = nil
			l.ByTime(measure.NewSampler(l.clk, 20*time.Millisecond, 0), l.clk.Rate())
			l.Link.Messages = 1 << 40
		case "to completion":
			l.ToCQE, l.cqes = true, make([]int64, n)
		}
		var asleep sync.Once
		l.Sends = during{fakeSendCQ{f}, func() { asleep.Do(func() { time.Sleep(400 * time.Millisecond) }) }}
		if err := l.Read(); err != nil {
			t.Fatal(err)
		}
		want := map[string]uint64{"by count": n - 2, "to completion": n - 1, "by time": l.Messages()}[how]
		if s := l.Collect(l.clk.Rate()).Summary(); s.Count != want || s.Count == 0 || s.Max > 150e6 || f.wrs < n {
			t.Errorf("%s: %d samples of %d messages, want %d; the largest is %v ns", how, s.Count, f.wrs, want, s.Max)
		}
	}
}

// TestLatLoopCounts: what is sent in the margins of a run by time is no message of it.
func TestLatLoopCounts(t *testing.T) {
	l, _ := newFakeLat(1 << 40)
	l.posts = nil
	l.ByTime(measure.NewSampler(l.clk, 60*time.Millisecond, 10*time.Millisecond), l.clk.Rate())
	if err := l.Read(); err != nil {
		t.Fatal(err)
	}
	if n := l.Collect(l.clk.Rate()).Count(); l.Messages() != n || n == 0 || n >= l.Link.done {
		t.Errorf("%d messages with %d samples, of %d that were sent", l.Messages(), n, l.Link.done)
	}
}

// TestLatLoopGap: what an end waits before each message is in no sample.
func TestLatLoopGap(t *testing.T) {
	const gap, n = 5 * time.Millisecond, 10
	for _, how := range []string{"by count", "by time", "to completion"} {
		l, _ := newFakeLat(n)
		l.Gap = l.clk.Ticks(gap)
		switch how {
		case "by time":
			l.posts = nil
			l.ByTime(measure.NewSampler(l.clk, n*gap, 0), l.clk.Rate())
			l.Link.Messages = 1 << 40
		case "to completion":
			l.ToCQE, l.cqes = true, make([]int64, n)
		}
		start := time.Now()
		if err := l.Read(); err != nil {
			t.Fatal(err)
		}
		if s := l.Collect(l.clk.Rate()).Summary(); s.Count == 0 || s.Min < 0 || s.Min > float64(gap)/4 {
			t.Errorf("%s: %d samples, the least is %v ns: it has the gap of %v", how, s.Count, s.Min, gap)
		}
		if d := time.Since(start); d < (n-1)*gap {
			t.Errorf("%s: %d gaps took %v", how, n, d)
		}
	}
}

// echo is a peer of write lat: it answers in memory as soon as the number of
// the message is in ours.
type echo struct {
	*fake
	own, mem []byte
}

func (e *echo) PostSend(wrs []ibv.SendWR) (int, error) {
	e.mem[len(e.mem)-1] = e.own[len(e.own)-1]
	return e.fake.PostSend(wrs)
}

func TestLatLoopWrite(t *testing.T) {
	const iters = 600 // the byte wraps around
	l, f := newFakeLat(iters)
	e := &echo{fake: f, own: make([]byte, 8), mem: make([]byte, 8)}
	l.Link.Send = e
	if err := l.Write(e.own, e.mem); err != nil {
		t.Fatal(err)
	}
	if f.wrs != iters {
		t.Errorf("%d messages, want %d", f.wrs, iters)
	}
	if s := l.Collect(l.clk.Rate()).Summary(); s.Count != iters-1 || s.Min <= 0 {
		t.Errorf("%+v", s)
	}

	// The other end begins, and this one waits for its first message.
	l, f = newFakeLat(5)
	l.Begins = false
	if err := l.Write(make([]byte, 4), make([]byte, 4)); !errors.Is(err, ErrStalled) || f.wrs != 0 {
		t.Errorf("write = %v after %d messages, want it to stall at once", err, f.wrs)
	}
}

// TestLatLoopLost: an end whose own message is lost says so while it waits for the answer, and not only that nothing
// came.
func TestLatLoopLost(t *testing.T) {
	for name, run := range map[string]func(*Latency) error{
		"write": func(l *Latency) error { return l.Write(make([]byte, 4), make([]byte, 4)) },
		"send":  (*Latency).PingPong,
	} {
		l, f := newFakeLat(5)
		l.Lag, f.failAt = 1, 1
		if err := run(l); err == nil || errors.Is(err, ErrStalled) || !strings.Contains(err.Error(), "RetryExcErr") {
			t.Errorf("%s: %v, want that the message was lost", name, err)
		}
	}
}

// TestCut: a run that ends early has a figure of what moved until then, whether its sample has begun or not.
func TestCut(t *testing.T) {
	why := errors.New("over")
	for name, tc := range map[string]struct {
		duration, margin time.Duration // 0: by count
		share            bool          // the window of several loops
	}{
		"by count":            {},
		"in the sample":       {duration: time.Hour},
		"after a margin":      {duration: time.Hour, margin: time.Millisecond},
		"before the sample":   {duration: time.Hour, margin: 20 * time.Minute},
		"a window":            {duration: time.Hour, share: true},
		"before a window":     {duration: time.Hour, margin: 20 * time.Minute, share: true},
		"nothing has come":    {duration: time.Hour},
		"nothing, by count":   {},
		"nothing in a window": {duration: time.Hour, share: true},
	} {
		nothing := strings.HasPrefix(name, "nothing")
		t.Run(name+"/bw", func(t *testing.T) {
			b, f := newFakeLoop(1<<39, 1, 1, 8)
			f.silent, b.stall = nothing, b.clk.Ticks(time.Hour)
			end := b.clk.Now() + b.clk.Ticks(5*time.Millisecond)
			b.Sends = during{fakeSendCQ{f}, func() {
				from := int64(1)
				if tc.margin == time.Millisecond {
					_, from, _ = b.Sample.Sample()
				}
				if b.clk.Now() > end && (nothing || b.total > 2 && from > 0 && b.end > from) {
					b.Abort(why)
				}
			}}
			if tc.duration > 0 {
				b.Sample = measure.NewSampler(b.clk, tc.duration, tc.margin)
			}
			if tc.share {
				(&measure.Window{}).Add(b.Sample)
			}
			if err := b.Run(); !errors.Is(err, why) {
				t.Fatalf("run = %v, want %v", err, why)
			}
			if some := b.Cut(); some == nothing {
				t.Fatalf("there is a figure: %v", some)
			}
			sent, _ := b.Flows()
			n, from, to := sent.Messages, sent.From, sent.To
			all := tc.margin > time.Minute
			if !nothing && (n == 0 || n > b.total || all && n != b.total || from >= to || to != b.end) {
				t.Errorf("%d messages of %d from %d to %d, the last one came at %d", n, b.total, from, to, b.end)
			}
			if tc.margin == time.Millisecond && from < b.begun+b.clk.Ticks(tc.margin/2) {
				t.Errorf("the figure begins %d ticks after the run: it has some of the margin", from-b.begun)
			}
		})
		if tc.share {
			continue
		}
		for _, toCQE := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/lat %v", name, toCQE), func(t *testing.T) {
				l, f := newFakeLat(1 << 16)
				f.silent, l.stall = nothing, l.clk.Ticks(time.Hour)
				l.ToCQE = toCQE
				if toCQE {
					l.cqes = make([]int64, 1<<16)
				}
				if tc.duration > 0 {
					l.posts, l.cqes = nil, nil
					l.ByTime(measure.NewSampler(l.clk, tc.duration, tc.margin), l.clk.Rate())
				}
				polls := 0
				l.Sends = during{fakeSendCQ{f}, func() {
					if polls++; polls == 3000 {
						l.Abort(why)
					}
				}}
				if err := l.Read(); !errors.Is(err, why) {
					t.Fatalf("read = %v, want %v", err, why)
				}
				if some := l.Cut(); some == nothing {
					t.Fatalf("there is a figure: %v", some)
				}
				s := l.Collect(l.clk.Rate()).Summary()
				n := l.Link.done
				least := n - 3 // some polls find nothing, and the first ones are over before the sample begins
				if tc.margin == time.Millisecond {
					least = 1 // what came in the margin is left out if that was over
				}
				if !nothing && (s.Count < least || s.Count > n || s.Min <= 0) {
					t.Errorf("%+v of %d messages", s, n)
				}
			})
		}
	}
}

// during does something in each poll.
type during struct {
	Completions
	f func()
}

func (d during) Poll(wcs []ibv.WC) (int, error) {
	d.f()
	return d.Completions.Poll(wcs)
}

func TestLatLoopPingPong(t *testing.T) {
	l, f := newFakeLat(100)
	f.toCome = 100
	if err := l.Link.PostRecv(16); err != nil {
		t.Fatal(err)
	}
	if err := l.PingPong(); err != nil {
		t.Fatal(err)
	}
	if f.wrs != 100 || l.Link.recvDone != 100 || f.recvs != 0 {
		t.Errorf("sent %d, got %d, %d receives left; want 100, 100, 0", f.wrs, l.Link.recvDone, f.recvs)
	}
}

func TestArrival(t *testing.T) {
	mem := make([]byte, 16)
	for i := range mem {
		a := watchByte(mem, i)
		mem[i] = byte(0x40 + i)
		if got := a.load(); got != byte(0x40+i) {
			t.Errorf("byte %d reads %#x", i, got)
		}
	}
}

func BenchmarkBandwidth(b *testing.B) {
	for _, list := range []int{1, 16} {
		b.Run(fmt.Sprintf("list=%d", list), func(b *testing.B) {
			b.ReportAllocs()
			loop, f := newFakeLoop(uint64((b.N+list-1)/list*list), list, list, 128)
			loop.Sends = fakeSendCQ{f}
			b.ResetTimer()
			if err := loop.Run(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkReceive(b *testing.B) {
	b.ReportAllocs()
	loop, f := newFakeLoop(uint64(b.N), 1, 1, 8)
	loop.Recvs, f.toCome = fakeRecvCQ{f}, b.N
	if err := loop.Links[0].PostRecv(64); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	if err := loop.Run(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkLatency(b *testing.B) {
	b.ReportAllocs()
	loop, f := newFakeLat(uint64(b.N))
	loop.posts = make([]int64, b.N)
	f.toCome = b.N
	if err := loop.Link.PostRecv(64); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	if err := loop.PingPong(); err != nil {
		b.Fatal(err)
	}
}
