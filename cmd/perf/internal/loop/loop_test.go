package engine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/stats"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/tsc"
	"github.com/pureverbs/pureverbs/ibv"
)

// fake is a queue pair that completes what is posted, some polls later, and
// delivers as many messages as receives are posted, if told so.
type fake struct {
	sent    []uint64 // IDs that asked for a completion, not polled yet
	posts   int
	wrs     int
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
	return n, nil
}

func newFakeLoop(iters uint64, list, mod, depth int) (*bwLoop, *fake) {
	f := &fake{sent: make([]uint64, 0, 1<<16)}
	clk := tsc.New()
	l := &link{name: "queue pair 1", sq: f, rq: f, iters: iters, mod: mod, local: 1 << 20, remote: 2 << 20}
	for range list {
		l.wrs = append(l.wrs, ibv.SendWR{SGEs: []ibv.SGE{{}}})
	}
	for range 4 {
		l.rwrs = append(l.rwrs, ibv.RecvWR{SGEs: []ibv.SGE{{}}})
	}
	l.begin(64, 4096, 64, 0)
	return &bwLoop{monitor: newMonitor(clk, 200*time.Millisecond), links: []*link{l}, depth: uint64(depth)}, f
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
			b.sends = fakeSendCQ{f}
			b.stamps = stats.NewStamps(int(tc.iters), int(tc.iters), tc.list)
			if err := b.run(); err != nil {
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
			if b.stamps.PeakTicks() <= 0 || b.end <= b.begun {
				t.Error("no times were taken")
			}
		})
	}
}

func TestBWLoopReceives(t *testing.T) {
	b, f := newFakeLoop(1000, 1, 1, 8)
	b.recvs = fakeRecvCQ{f}
	f.toCome = 1000
	if err := b.links[0].postRecv(64); err != nil {
		t.Fatal(err)
	}
	if err := b.run(); err != nil {
		t.Fatal(err)
	}
	if b.got != 1000 || b.links[0].rposted != 1000 || f.recvs != 0 {
		t.Errorf("%d messages, %d receives posted, %d left over; want 1000, 1000, 0", b.got, b.links[0].rposted, f.recvs)
	}
}

// TestBWLoopGate: a server that also sends waits for the first message.
func TestBWLoopGate(t *testing.T) {
	b, f := newFakeLoop(100, 1, 1, 8)
	b.sends, b.recvs, b.gated = fakeSendCQ{f}, fakeRecvCQ{f}, true
	if err := b.links[0].postRecv(8); err != nil {
		t.Fatal(err)
	}
	if err := b.run(); !errors.Is(err, ErrStalled) || f.wrs != 0 {
		t.Fatalf("run = %v after %d messages, want it to stall without sending", err, f.wrs)
	}
	f.toCome = 100
	b.busy()
	if err := b.run(); err != nil {
		t.Fatal(err)
	}
	if b.sent != 100 || b.got != 100 {
		t.Errorf("sent %d, got %d; want 100 each", b.sent, b.got)
	}
}

func TestBWLoopFails(t *testing.T) {
	b, f := newFakeLoop(100, 1, 1, 8)
	b.sends = fakeSendCQ{f}
	f.failAt = 37
	err := b.run()
	var wce *ibv.WCError
	if !errors.As(err, &wce) || !strings.Contains(err.Error(), "queue pair 1, message 37") {
		t.Errorf("run = %v, want a WCError of message 37", err)
	}

	b, f = newFakeLoop(100, 1, 1, 8)
	b.sends = fakeSendCQ{f}
	f.silent = true
	if err := b.run(); !errors.Is(err, ErrStalled) {
		t.Errorf("run = %v, want ErrStalled", err)
	}

	b, f = newFakeLoop(100, 1, 1, 8)
	b.sends = fakeSendCQ{f}
	f.silent = true
	b.limit, b.stall = time.Hour, b.clk.Ticks(time.Hour)
	why := errors.New("the peer left")
	time.AfterFunc(20*time.Millisecond, func() { b.abort(why) })
	if err := b.run(); !errors.Is(err, why) {
		t.Errorf("run = %v, want %v", err, why)
	}
}

// TestLoopsEndWhenBusy: a loop that always has something to do ends, too.
func TestLoopsEndWhenBusy(t *testing.T) {
	why := errors.New("enough")
	b, f := newFakeLoop(1<<39, 1, 1, 8)
	b.sends = fakeSendCQ{f}
	time.AfterFunc(20*time.Millisecond, func() { b.abort(why) })
	if err := b.run(); !errors.Is(err, why) {
		t.Errorf("run = %v, want %v", err, why)
	}
	l, _ := newFakeLat(1 << 39)
	l.posts = nil
	time.AfterFunc(20*time.Millisecond, func() { l.abort(why) })
	if err := l.read(); !errors.Is(err, why) {
		t.Errorf("read = %v, want %v", err, why)
	}
}

func TestBWLoopByTime(t *testing.T) {
	b, f := newFakeLoop(1<<63, 1, 100, 128)
	b.sends = fakeSendCQ{f}
	b.sample = newSampler(b.clk, 100*time.Millisecond, 20*time.Millisecond)
	start := time.Now()
	if err := b.run(); err != nil {
		t.Fatal(err)
	}
	s := b.sample
	ms := float64(s.ended-s.begun) * b.clk.Rate() / 1e6
	if d := time.Since(start); d < 90*time.Millisecond || ms < 40 {
		t.Errorf("ran for %v, sampled for %.1f ms; want 100 and 60", d, ms)
	}
	if s.countTo <= s.countFrom || s.countTo > b.total {
		t.Errorf("the sample is from %d to %d of %d", s.countFrom, s.countTo, b.total)
	}
}

func TestLoopsDoNotAllocate(t *testing.T) {
	b, f := newFakeLoop(1<<63, 1, 4, 16)
	b.sends = fakeSendCQ{f}
	b.stamps = stats.NewStamps(1<<16, 1<<16, 1)
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
	b.recvs = fakeRecvCQ{f}
	f.toCome = 1 << 30
	if err := b.links[0].postRecv(16); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		if err := b.take(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("receiving allocates %v times", n)
	}

	lat, f := newFakeLat(1 << 62)
	lat.sample = newSampler(lat.clk, time.Hour, 0)
	lat.sample.start(lat.clk.Now() - 10)
	lat.sample.begun = 1
	lat.hist = stats.NewLatency()
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

func newFakeLat(iters uint64) (*latLoop, *fake) {
	b, f := newFakeLoop(iters, 1, 1, 1)
	n := min(iters, 1<<16)
	return &latLoop{monitor: b.monitor, link: b.links[0], sends: fakeSendCQ{f}, recvs: fakeRecvCQ{f},
		half: 0.5, rate: b.clk.Rate(), posts: make([]int64, n)}, f
}

func TestLatLoopRead(t *testing.T) {
	for _, toCQE := range []bool{false, true} {
		l, f := newFakeLat(50)
		l.toCQE = toCQE
		if toCQE {
			l.cqes = make([]int64, 50)
		}
		if err := l.read(); err != nil {
			t.Fatal(err)
		}
		want := uint64(49) // perftest's samples lie between messages
		if toCQE {
			want = 50
		}
		if s := l.collect().Summary(); s.Count != want || f.wrs != 50 {
			t.Errorf("toCQE %v: %d samples of %d messages, want %d of 50", toCQE, s.Count, f.wrs, want)
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
	l.link.sq, l.own, l.mem, l.server = e, e.own, e.mem, true
	l.arrival = watchByte(e.mem, 7)
	if err := l.write(); err != nil {
		t.Fatal(err)
	}
	if f.wrs != iters {
		t.Errorf("%d messages, want %d", f.wrs, iters)
	}
	if s := l.collect().Summary(); s.Count != iters-1 || s.Min <= 0 {
		t.Errorf("%+v", s)
	}

	// Here the server begins, and the client waits for its first message.
	l, f = newFakeLat(5)
	l.own, l.mem = make([]byte, 4), make([]byte, 4)
	l.arrival = watchByte(l.mem, 3)
	if err := l.write(); !errors.Is(err, ErrStalled) || f.wrs != 0 {
		t.Errorf("write = %v after %d messages, want it to stall at once", err, f.wrs)
	}
}

func TestLatLoopPingPong(t *testing.T) {
	l, f := newFakeLat(100)
	f.toCome = 100
	if err := l.link.postRecv(16); err != nil {
		t.Fatal(err)
	}
	if err := l.pingpong(); err != nil {
		t.Fatal(err)
	}
	if f.wrs != 100 || l.link.rdone != 100 || f.recvs != 0 {
		t.Errorf("sent %d, got %d, %d receives left; want 100, 100, 0", f.wrs, l.link.rdone, f.recvs)
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

func TestWalker(t *testing.T) {
	for _, tc := range []struct {
		size, cycle, line uint64
		want              []uint64
	}{
		{2, 256, 64, []uint64{0, 64, 128, 192, 0}},
		{65, 256, 64, []uint64{0, 128, 0}},
		{96, 320, 64, []uint64{0, 128, 0}}, // two places fit, a third does not
		{129, 256, 64, []uint64{0, 0, 0}},
		{2, 0, 64, []uint64{0, 0}},
	} {
		w := newWalker(tc.size, tc.cycle, tc.line)
		for i, want := range tc.want {
			if got := w.next(); got != want {
				t.Errorf("size %d, cycle %d: step %d is %d, want %d", tc.size, tc.cycle, i, got, want)
			}
		}
	}
}

func TestPattern(t *testing.T) {
	for _, n := range []int{1, 250, 251, 252, 1000, 70000} {
		mem := make([]byte, n)
		fillPattern(mem, 3)
		p := pattern(3)
		for i := range mem {
			if mem[i] != p[i%patternLen] || mem[i] == 0 {
				t.Fatalf("length %d: byte %d is %#x, want %#x", n, i, mem[i], p[i%patternLen])
			}
		}
	}
}

func TestCheckPattern(t *testing.T) {
	mem := make([]byte, 4096)
	fillPattern(mem, 0)
	if err := checkPattern(mem, 0, 100, 4096, 64, 1000, -1); err != nil {
		t.Errorf("the right payload: %v", err)
	}
	if err := checkPattern(mem, 1, 100, 4096, 64, 1000, -1); err == nil {
		t.Error("the payload of another queue pair passed")
	}
	mem[3*128+99]++
	err := checkPattern(mem, 0, 100, 4096, 64, 1000, -1)
	if err == nil || !strings.Contains(err.Error(), "byte 483") {
		t.Errorf("one wrong byte: %v, want byte 483", err)
	}
	if err := checkPattern(mem, 0, 100, 4096, 64, 3, -1); err != nil {
		t.Errorf("a wrong byte beyond the three messages: %v", err)
	}
	if err := checkPattern(mem, 0, 4096, 0, 64, 9, 483); err != nil {
		t.Errorf("a byte to skip: %v", err)
	}
	if err := checkPattern(make([]byte, 64), 0, 64, 0, 64, 1, -1); err == nil {
		t.Error("an empty buffer passed")
	}
}
