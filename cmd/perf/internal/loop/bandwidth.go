package engine

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/stats"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/tsc"
	"github.com/pureverbs/pureverbs/ibv"
)

// The loops see queues through these, so that tests can put their own in place.
type (
	sendQueue interface {
		PostSend([]ibv.SendWR) (int, error)
	}
	recvQueue interface {
		PostRecv([]ibv.RecvWR) (int, error)
	}
	completions interface {
		Poll([]ibv.WC) (int, error)
	}
)

// pollBatch is how many completions a bandwidth loop takes at once.
const pollBatch = 16

// A work request's ID is the number of its link and, below, the ordinal of the
// message on that link.
const ordinalBits = 40

// monitor lets others end a loop, and ends it when nothing comes any more.
type monitor struct {
	clk   *tsc.Clock
	stall int64 // ticks without a completion
	limit time.Duration
	turns bool // the ends take turns

	flag atomic.Uint32
	why  atomic.Pointer[error]

	spins uint32
	since int64 // when idling began; 0: not yet known

	slice, rested int64 // ticks
}

func newMonitor(clk *tsc.Clock, limit time.Duration) *monitor {
	return &monitor{clk: clk, stall: clk.Ticks(limit), limit: limit, slice: clk.Ticks(slice)}
}

// slice is how long a loop runs before it passes through Go's scheduler. After
// 10 ms the scheduler would interrupt the loop by a signal, and take its
// processor away whenever it finds it in a post that enters the kernel, which
// costs context switches on every such post.
const slice = 8 * time.Millisecond

// rest passes through Go's scheduler if it is time to.
func (m *monitor) rest(now int64) {
	if now-m.rested > m.slice {
		m.rested = now
		runtime.Gosched()
	}
}

// abort ends the loop with an error; the first one counts.
func (m *monitor) abort(err error) {
	if m.why.CompareAndSwap(nil, &err) {
		m.flag.Store(1)
	}
}

// err returns what abort was told.
func (m *monitor) err() error {
	if p := m.why.Load(); p != nil {
		return *p
	}
	return nil
}

// busy tells that something was done.
func (m *monitor) busy() { m.spins, m.since = 0, 0 }

// idle is called when there was nothing to do. It looks around now and then.
//
// Where two ends take turns it also lets others have the processor: the peer may
// have been put on the same one. A bandwidth loop does not: measured over
// SoftRoCE it lost a fifth by that.
func (m *monitor) idle() error {
	m.spins++
	if m.spins%yieldEvery != 0 {
		return nil
	}
	if m.turns {
		yield()
	}
	if m.spins%lookEvery != 0 {
		return nil
	}
	return m.look()
}

// A wait of yieldEvery polls is longer than the latency of any NIC, so that
// there the loop never yields.
const (
	yieldEvery = 256
	lookEvery  = 1024
)

// ErrStalled means that completions stopped coming.
var ErrStalled = errors.New("nothing completes any more")

func (m *monitor) look() error {
	if m.flag.Load() != 0 {
		return m.err()
	}
	now := m.clk.Now()
	m.rest(now)
	if m.since == 0 {
		m.since = now
	} else if now-m.since > m.stall {
		return m.stalled()
	}
	return nil
}

func (m *monitor) stalled() error {
	return fmt.Errorf("%w, for %v; the peer is there but does not do its part: was it started with the same options?", ErrStalled, m.limit)
}

// walker steps through a buffer in the way that perftest does: small messages
// are spread over one page, message by message; large ones share one place.
type walker struct{ off, step, end uint64 }

func newWalker(size, cycle, line uint64) walker {
	if size > cycle/2 {
		return walker{end: 1}
	}
	step := roundUp(max(size, 1), line)
	return walker{step: step, end: cycle / step * step}
}

func (w *walker) next() uint64 {
	off := w.off
	w.off += w.step
	if w.off >= w.end {
		w.off = 0
	}
	return off
}

func roundUp(n, to uint64) uint64 { return (n + to - 1) / to * to }

// link is one queue pair at work. All its memory is there before the loop.
type link struct {
	id    uint64
	name  string
	sq    sendQueue
	rq    recvQueue
	iters uint64 // messages in each direction

	wrs    []ibv.SendWR // one post list
	local  uint64
	remote uint64
	walk   walker
	flags  ibv.SendFlags
	mod    int
	unsig  int    // messages until the next that asks for a completion
	posted uint64 // ordinal of the last message posted
	done   uint64 // ordinal of the last message completed

	rwrs    []ibv.RecvWR
	rlocal  uint64
	rwalk   walker
	rposted uint64
	rdone   uint64
	refill  int // receives used up and not posted again yet
}

// begin starts over, for messages of another size.
func (l *link) begin(size, cycle, line uint64, flags ibv.SendFlags) {
	l.walk = newWalker(size, cycle, line)
	l.rwalk = l.walk
	l.flags, l.unsig = flags, l.mod
	l.posted, l.done, l.rposted, l.rdone, l.refill = 0, 0, 0, 0, 0
	for i := range l.wrs {
		l.wrs[i].SGEs[0].Length = uint32(size)
	}
	for i := range l.rwrs {
		l.rwrs[i].SGEs[0].Length = uint32(size)
	}
}

// post posts one list.
func (l *link) post() error {
	for i := range l.wrs {
		wr := &l.wrs[i]
		l.posted++
		wr.ID = l.id<<ordinalBits | l.posted
		wr.Flags = l.flags
		if l.unsig--; l.unsig == 0 || l.posted == l.iters {
			wr.Flags |= ibv.Signaled
			l.unsig = l.mod
		}
		off := l.walk.next()
		wr.SGEs[0].Addr = l.local + off
		wr.Remote.Addr = l.remote + off
	}
	if n, err := l.sq.PostSend(l.wrs); err != nil {
		return fmt.Errorf("%s, message %d: %w", l.name, l.posted-uint64(len(l.wrs)-n)+1, err)
	}
	return nil
}

// postRecv posts n receives, at most as many as there are messages to come.
func (l *link) postRecv(n int) error {
	for n > 0 && l.rposted < l.iters {
		k := min(uint64(n), uint64(len(l.rwrs)), l.iters-l.rposted)
		for i := range l.rwrs[:k] {
			l.rwrs[i].SGEs[0].Addr = l.rlocal + l.rwalk.next()
		}
		if got, err := l.rq.PostRecv(l.rwrs[:k]); err != nil {
			return fmt.Errorf("%s, receive %d: %w", l.name, l.rposted+uint64(got)+1, err)
		}
		l.rposted += k
		n -= int(k)
	}
	return nil
}

// bwLoop moves messages of one size: out, in, or both.
type bwLoop struct {
	*monitor
	links  []*link
	sends  completions // nil: this end does not send
	recvs  completions // nil: it posts no receives
	depth  uint64
	gated  bool // do not send before the first message came
	stamps *stats.Stamps
	sample *sampler // nil: by iterations
	count  *atomic.Uint64

	wcs        [pollBatch]ibv.WC
	total      uint64 // messages completed, both directions
	sent, got  uint64
	begun, end int64 // ticks: the first posting (or arrival) and the last completion
}

// run is the loop. It does not allocate, unless it fails.
func (b *bwLoop) run() error {
	var want uint64
	for _, l := range b.links {
		want += l.iters
	}
	if b.sample != nil {
		want = math.MaxUint64
	}
	if b.sends != nil && !b.gated {
		b.begin()
	}
	for (b.sends != nil && b.sent < want) || (b.recvs != nil && b.got < want) {
		if b.flag.Load() != 0 {
			return b.err()
		}
		if b.sends != nil && !b.gated {
			if err := b.fill(); err != nil {
				return err
			}
		}
		before := b.total
		if b.recvs != nil {
			if err := b.take(); err != nil {
				return err
			}
		}
		if b.sends != nil {
			if err := b.reap(); err != nil {
				return err
			}
		}
		if b.sample != nil && b.sample.tick(b.clk.Now(), b.total) {
			return nil
		}
		if b.total == before {
			if err := b.idle(); err != nil {
				return fmt.Errorf("after %d messages sent and %d received: %w", b.sent, b.got, err)
			}
			continue
		}
		b.busy()
		if b.count != nil {
			b.count.Store(b.total)
		}
	}
	return nil
}

func (b *bwLoop) begin() {
	b.begun = b.clk.Now()
	if b.sample != nil {
		b.sample.start(b.begun)
	}
}

// fill posts what the depth admits.
func (b *bwLoop) fill() error {
	for _, l := range b.links {
		list := uint64(len(l.wrs))
		for l.posted < l.iters && l.posted-l.done+list <= b.depth {
			now := b.clk.Now()
			if b.stamps != nil {
				b.stamps.Post(now)
			}
			if err := l.post(); err != nil {
				return err
			}
			b.rest(now)
		}
	}
	return nil
}

// reap takes completions of what was sent.
func (b *bwLoop) reap() error {
	n, err := b.sends.Poll(b.wcs[:])
	if err != nil {
		return err
	}
	for i := range b.wcs[:n] {
		wc := &b.wcs[i]
		l := b.links[wc.ID>>ordinalBits]
		ord := wc.ID & (1<<ordinalBits - 1)
		if wc.Status != ibv.WCSuccess {
			return failed(l, "message", ord, wc)
		}
		b.total += ord - l.done
		b.sent += ord - l.done
		l.done = ord
	}
	if n > 0 {
		b.end = b.clk.Now()
		if b.stamps != nil {
			b.stamps.Done(int64(b.sent), b.end)
		}
	}
	return nil
}

// take takes messages that came, and posts their receives again.
func (b *bwLoop) take() error {
	n, err := b.recvs.Poll(b.wcs[:])
	if n == 0 || err != nil {
		return err
	}
	if b.got == 0 {
		if b.begun == 0 {
			b.begin()
		}
		b.gated = false
	}
	for i := range b.wcs[:n] {
		wc := &b.wcs[i]
		l := b.links[wc.ID>>ordinalBits]
		if wc.Status != ibv.WCSuccess {
			return failed(l, "receive", l.rdone+1, wc)
		}
		l.rdone++
		l.refill++
	}
	b.got += uint64(n)
	b.total += uint64(n)
	if b.sends == nil {
		b.end = b.clk.Now()
		b.rest(b.end)
	}
	for _, l := range b.links {
		if l.refill > 0 {
			if err := l.postRecv(l.refill); err != nil {
				return err
			}
			l.refill = 0
		}
	}
	return nil
}

// drain waits for what is posted, after a run by time: the peer may free its
// memory as soon as it hears that the run is over.
func (b *bwLoop) drain(limit time.Duration) error {
	deadline := b.clk.Now() + b.clk.Ticks(limit)
	for {
		open := false
		for _, l := range b.links {
			// The last few may not have asked for a completion.
			open = open || l.posted-l.done >= uint64(l.mod)
		}
		if !open || b.clk.Now() > deadline {
			return nil
		}
		if err := b.reap(); err != nil {
			return err
		}
	}
}

// failed explains a completion that is none.
func failed(l *link, what string, ord uint64, wc *ibv.WC) error {
	return fmt.Errorf("%s, %s %d: %w", l.name, what, ord, wc.Err())
}

// sampler is a run by time: a margin, the sample, a margin.
type sampler struct {
	margin, length     int64 // ticks
	from, to, last     int64
	begun, ended       int64
	countFrom, countTo uint64
}

func newSampler(clk *tsc.Clock, duration, margin time.Duration) *sampler {
	return &sampler{margin: clk.Ticks(margin), length: clk.Ticks(duration)}
}

func (s *sampler) start(now int64) {
	s.from = now + s.margin
	s.to = now + s.length - s.margin
	s.last = now + s.length
	s.begun, s.ended = 0, 0
}

// sampling tells whether now is inside the sample.
func (s *sampler) sampling() bool { return s.begun != 0 && s.ended == 0 }

// tick tells the time and the count so far, and returns true at the end.
func (s *sampler) tick(now int64, count uint64) bool {
	switch {
	case s.from == 0 || now < s.from:
		return false
	case s.begun == 0:
		s.begun, s.countFrom = now, count
	case now >= s.to && s.ended == 0:
		s.ended, s.countTo = now, count
	}
	return now >= s.last && s.ended != 0
}
