package loop

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sys/cpu"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/ibv"
)

// PollBatch is how many completions a bandwidth loop takes at once.
const PollBatch = 16

// Bandwidth moves messages of one size: out, in, or both.
type Bandwidth struct {
	_ cpu.CacheLinePad // another thread's may be next to it
	*Monitor
	Links  []*Link     // numbered
	Sends  Completions // nil: this end does not send
	Recvs  Completions // nil: it posts no receives
	Depth  uint64      // messages of a link that may be on their way
	Gated  bool        // do not send before the first message came
	Lossy  bool        // what is received may have been lost
	Alone  bool        // no exchange shows when the peer has begun, or is done
	Stamps *measure.Stamps
	Sample *measure.Sampler // nil: by iterations
	Count  *measure.Counter // messages so far, for others to read; may be nil
	Pace   *measure.Pacer   // nil: as fast as the depth admits
	Held   int              // receives of a link that may be used up and not posted again yet

	Credits *Credits // nil: messages need none

	wcs        [PollBatch]ibv.WC
	turn       int    // paced: the link whose turn it is
	total      uint64 // messages completed, both directions
	sent, got  uint64
	begun, end int64       // ticks: the first posting (or arrival) and the last completion
	first      uint64      // messages that came before their time is known: those of the first poll
	recvBegun  int64       // ticks: that poll
	recvMoved  int64       // ticks: the last arrival
	counts     [2][]uint64 // of each link when the sample began, and when it ended; nil: not asked for
	_          cpu.CacheLinePad
}

// Run moves the messages.
func (b *Bandwidth) Run() error {
	if b.Credits != nil {
		return b.Credits.run(b)
	}
	return b.move()
}

// move is the loop. It does not allocate, unless it fails.
func (b *Bandwidth) move() error {
	var want uint64
	for _, l := range b.Links {
		want += l.Messages
	}
	if b.Sample != nil || b.Links[0].Messages == math.MaxUint64 {
		want = math.MaxUint64
	}
	b.quiet, b.early = nil, nil
	if b.Alone && (b.Sends == nil || b.Gated) {
		b.early = func() bool { return b.got == 0 }
	}
	if b.Lossy {
		b.quiet = func(now int64) bool { return b.isQuiet(now, want) }
	} else if b.Sample != nil && b.Sends == nil {
		b.quiet = b.isOver
	}
	if b.Sends != nil && !b.Gated {
		b.begin()
	}
	for (b.Sends != nil && b.sent < want) || (b.Recvs != nil && b.got < want) {
		if b.flag.Load() != 0 {
			return b.err()
		}
		if b.Sends != nil && !b.Gated {
			var err error
			if b.Pace == nil {
				err = b.fill()
			} else {
				err = b.pace()
			}
			if err != nil {
				return err
			}
		}
		before := b.total
		if err := b.poll(); err != nil {
			return err
		}
		if b.Sample != nil && b.Sample.Tick(b.clk.Now(), b.moved()) {
			return b.finish()
		}
		if b.total == before {
			if err := b.idle(); err == errQuiet && b.Sample != nil {
				return b.finish()
			} else if err == errQuiet {
				return nil
			} else if err != nil {
				return b.stalled(err)
			}
			continue
		}
		b.Busy()
		if b.Count != nil {
			b.Count.Store(b.moved())
		}
	}
	return nil
}

// isQuiet reports whether all is sent, and nothing more will come.
func (b *Bandwidth) isQuiet(now int64, want uint64) bool {
	if b.Sends != nil && b.sent < want {
		return false
	}
	if spoke := b.spoke.Load(); spoke != 0 {
		return now-max(spoke, b.recvMoved) > b.clk.Ticks(quietAfter)
	}
	return (b.Sends != nil || b.Alone) && b.recvMoved != 0 && now-b.recvMoved > b.clk.Ticks(quietLeast)
}

// isOver reports whether nothing more will come because the peer's time is over.
func (b *Bandwidth) isOver(now int64) bool {
	spoke := b.spoke.Load()
	return spoke != 0 && now-max(spoke, b.recvMoved) > b.clk.Ticks(quietAfter)
}

// ErrLate means that a sample did not begin before the peer's was over.
var ErrLate = errors.New("the peer's time was over before this end had a sample: " +
	"the machine is too busy for so short a run")

// finish ends a run by time. An end that only receives has what the peer has sent in its time.
func (b *Bandwidth) finish() error {
	if err := b.await(b.silent); err != nil || b.Sends != nil {
		return err
	}
	if spoke := b.spoke.Load(); spoke != 0 && !b.Sample.Cut(spoke, b.recvMoved, b.moved()) {
		return fmt.Errorf("after %d messages received: %w", b.got, ErrLate)
	}
	return nil
}

// moved returns how many messages have moved so far.
func (b *Bandwidth) moved() measure.Count { return measure.Count{Sent: b.sent, Got: b.got} }

// poll takes completions of both kinds.
func (b *Bandwidth) poll() error {
	if b.Recvs != nil {
		if err := b.receive(); err != nil {
			return err
		}
	}
	if b.Sends != nil {
		return b.reap()
	}
	return nil
}

// await takes completions, and posts nothing more, for as long as cond holds.
func (b *Bandwidth) await(cond func() bool) error {
	for cond() {
		before := b.total
		if err := b.poll(); err != nil {
			return err
		}
		if b.total != before {
			b.Busy()
		} else if err := b.idle(); err == errQuiet {
			return nil
		} else if err != nil {
			return b.stalled(err)
		}
	}
	return nil
}

// stalled adds how far the loop came.
func (b *Bandwidth) stalled(err error) error {
	err = fmt.Errorf("after %d messages sent and %d received: %w", b.sent, b.got, err)
	for _, l := range b.Links {
		if b.Sends != nil && b.open(l) && (b.Sample == nil || b.Sample.Silent(l.moved)) {
			return fmt.Errorf("%s, message %d: %w", l.Name, l.done+1, err)
		}
	}
	return err
}

// open reports whether a completion of a link is to come. The last few messages may not have asked for one.
func (b *Bandwidth) open(l *Link) bool { return l.posted-l.done >= uint64(l.Moderate) }

// silent reports whether something did not move any more when the sample ended: a link that sends, or all that is
// received before the peer came to its next step. Then it is waited for until it does, or has stalled.
func (b *Bandwidth) silent() bool {
	if b.Recvs != nil && b.spoke.Load() == 0 && b.Sample.Silent(b.recvMoved) {
		return true
	}
	if b.Sends == nil {
		return false
	}
	for _, l := range b.Links {
		if b.open(l) && b.Sample.Silent(l.moved) {
			return true
		}
	}
	return false
}

func (b *Bandwidth) begin() {
	b.begun = b.clk.Now()
	if b.Count != nil {
		b.Count.Begin(b.begun)
	}
	if b.Sample != nil {
		b.Sample.Start(b.begun)
	}
}

// fill posts what the depth admits.
func (b *Bandwidth) fill() error {
	for _, l := range b.Links {
		list := uint64(len(l.WRs))
		for l.posted < l.limit && l.posted-l.done+list <= b.Depth {
			now := b.clk.Now()
			if b.Stamps != nil {
				b.Stamps.Post(now)
			}
			if err := l.post(); err != nil {
				return err
			}
			b.rest(now)
		}
	}
	return nil
}

// pace posts what the depth and the rate admit, on one link after the other.
func (b *Bandwidth) pace() error {
	for full := 0; full < len(b.Links); {
		l := b.Links[b.turn]
		if list := uint64(len(l.WRs)); l.posted < l.limit && l.posted-l.done+list <= b.Depth {
			now := b.clk.Now()
			if !b.Pace.Admit(now, list) {
				return nil
			}
			if b.Stamps != nil {
				b.Stamps.Post(now)
			}
			if err := l.post(); err != nil {
				return err
			}
			b.Busy() // completions may be far apart
			b.rest(now)
			full = 0
		} else {
			full++
		}
		if b.turn++; b.turn == len(b.Links) {
			b.turn = 0
		}
	}
	return nil
}

// reap takes completions of what was sent.
func (b *Bandwidth) reap() error {
	n, err := b.Sends.Poll(b.wcs[:])
	if n == 0 || err != nil {
		return err
	}
	b.end = b.clk.Now()
	for i := range b.wcs[:n] {
		wc := &b.wcs[i]
		l := b.Links[wc.ID>>ordinalBits]
		ord := wc.ID & ordinalMask
		if wc.Status != ibv.WCSuccess {
			return failed(l, "message", ord, wc)
		}
		n := (ord - l.done) & ordinalMask
		b.total += n
		b.sent += n
		l.done += n
		l.moved = b.end
	}
	if b.Stamps != nil {
		b.Stamps.Done(int64(b.sent), b.end)
	}
	return nil
}

// receive takes messages that came, and posts their receives again.
func (b *Bandwidth) receive() error {
	n, err := b.Recvs.Poll(b.wcs[:])
	if n == 0 || err != nil {
		return err
	}
	if b.got == 0 {
		if b.begun == 0 {
			b.begin()
		}
		b.Gated = false
	}
	for i := range b.wcs[:n] {
		wc := &b.wcs[i]
		l := b.Links[wc.ID>>ordinalBits]
		if wc.Status != ibv.WCSuccess {
			return failed(l, "receive", l.recvDone+1, wc)
		}
		l.recvDone++
		l.refill++
	}
	b.recvMoved = b.clk.Now()
	if b.got == 0 {
		b.first, b.recvBegun = uint64(n), b.recvMoved
	}
	b.got += uint64(n)
	b.total += uint64(n)
	if b.Sends == nil {
		b.end = b.recvMoved
		b.rest(b.end)
	}
	for _, l := range b.Links {
		if l.refill > b.Held {
			if err := l.PostRecv(l.refill); err != nil {
				return err
			}
			l.refill = 0
		}
	}
	return nil
}

// Cut makes what has moved the outcome of a run that failed. It reports whether there is any.
func (b *Bandwidth) Cut() bool {
	moved := max(b.end, b.recvMoved)
	if b.Sample == nil {
		return b.begun != 0 && b.end > b.begun
	}
	if b.Sample.Cut(b.clk.Now(), moved, b.moved()) {
		return true
	}
	b.Sample.Whole(b.begun, moved, b.moved())
	return b.begun != 0 && moved > b.begun
}

// Drain waits for what is posted, after a run by time: the peer may free its memory as soon as it
// hears that the run is over.
func (b *Bandwidth) Drain() error {
	return b.await(func() bool { return slices.ContainsFunc(b.Links, b.open) })
}

// CountLinks has the loop note, when the sample begins and when it ends, how many messages each link has moved.
func (b *Bandwidth) CountLinks() {
	for i := range b.counts {
		b.counts[i] = make([]uint64, len(b.Links))
	}
	b.Sample.Mark = func(at int) {
		for i, l := range b.Links {
			b.counts[at][i] = l.done + l.recvDone
		}
	}
}

// Counted returns how many messages of each link are in the sample, after CountLinks.
func (b *Bandwidth) Counted() []uint64 {
	each := make([]uint64, len(b.Links))
	for i := range each {
		each[i] = b.counts[1][i] - b.counts[0][i]
	}
	return each
}

// Flows returns what counts of what was sent, and of what arrived. In a run by count the time of what arrives begins
// with the first poll that finds any, whose messages may have come at any time before.
func (b *Bandwidth) Flows() (sent, came measure.Flow) {
	if b.Sample != nil {
		n, from, to := b.Sample.Sample()
		return measure.FlowOf(n.Sent, from, to), measure.FlowOf(n.Got, from, to)
	}
	return measure.FlowOf(b.sent, b.begun, b.end),
		measure.Flow{Messages: b.got, Timed: b.got - b.first, From: b.recvBegun, To: b.recvMoved}
}

// Begun returns the tick at which messages began to move.
func (b *Bandwidth) Begun() int64 { return b.begun }

// Ends returns when what counts began and ended, and what had moved until then.
func (b *Bandwidth) Ends() (from, to measure.Look) {
	if b.Sample != nil {
		return b.Sample.Ends()
	}
	return measure.Look{At: b.begun}, measure.Look{At: max(b.end, b.recvMoved), Count: b.moved()}
}
