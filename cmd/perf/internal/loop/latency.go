package loop

import (
	"fmt"

	"golang.org/x/sys/cpu"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/ibv"
)

// Latency sends one message at a time and notes when.
type Latency struct {
	_ cpu.CacheLinePad // another thread's may be next to it
	*Monitor
	Link    *Link
	Sends   Completions
	Recvs   Completions      // PingPong only
	Begins  bool             // this end sends the first message of a game
	Alone   bool             // no exchange shows when the peer has begun
	Follows bool             // by time: the peer ends first, and its next step shows it
	Count   *measure.Counter // messages so far, for others to read; may be nil

	ToCQE bool    // a sample ends with the completion of its message
	Half  float64 // 0.5 where a sample is half of the time measured
	Lag   uint64  // messages that may be on their way when the next one is posted
	Ahead uint64  // messages at the beginning that do not count
	Gap   int64   // ticks to wait before each message, which do not count

	posts  []int64 // ticks of each posting, without all gaps up to it; nil: by time
	cqes   []int64 // the same of each completion, if asked for
	paused int64   // ticks of all gaps

	sample *measure.Sampler // by time
	hist   *measure.Latency
	ahead  *measure.Latency // before the sample: the figure of a run that ends there
	rate   float64          // ns per tick, for hist

	wcs  [1]ibv.WC
	last int64 // ticks of the previous posting
	_    cpu.CacheLinePad
}

// ByCount makes room for the times of n messages.
func (t *Latency) ByCount(n uint64) {
	t.posts = touched(n)
	if t.ToCQE {
		t.cqes = touched(n)
	}
}

// touched returns n times whose memory is there now, not only in the middle of the run.
func touched(n uint64) []int64 {
	s := make([]int64, n)
	for i := range s {
		s[i] = 1
	}
	return s
}

// ByTime runs until the sampler ends it. A tick has rate nanoseconds.
func (t *Latency) ByTime(s *measure.Sampler, rate float64) {
	t.sample, t.hist, t.ahead, t.rate = s, measure.NewLatency(), measure.NewLatency(), rate
}

// record takes a sample of a run by time.
func (t *Latency) record(ns float64) {
	if t.sample.Sampling() {
		t.hist.Record(ns)
	} else if t.sample.Ahead() {
		t.ahead.Record(ns)
	}
}

// send posts the next message. Between the arrival of the peer's message and this posting there is
// nothing that can wait: used receives are posted again, and completions taken, by settle, while
// the new message is on its way.
func (t *Latency) send() error {
	if t.flag.Load() != 0 {
		return t.err()
	}
	now, gap := t.clk.Now(), int64(0)
	if t.Gap > 0 {
		began := now
		if now = t.pause(now); t.flag.Load() != 0 {
			return t.err()
		}
		gap = now - began
		t.paused += gap
	}
	if t.posts != nil {
		t.posts[t.Link.posted] = now - t.paused
	} else if t.sample != nil {
		if !t.sample.Started() && t.Link.posted >= t.Ahead {
			t.sample.Start(now)
		}
		if !t.ToCQE && t.Link.posted > t.Ahead {
			t.record(float64(now-t.last-gap) * t.rate * t.Half)
		}
	}
	t.last = now
	if err := t.Link.post(); err != nil {
		return err
	}
	if t.Link.refill > 0 {
		if err := t.Link.PostRecv(t.Link.refill); err != nil {
			return err
		}
		t.Link.refill = 0
	}
	t.rest(now)
	return t.settle(t.Lag)
}

// pause waits for the gap from now on, and returns the ticks after it.
func (t *Latency) pause(now int64) int64 {
	for end := now + t.Gap; now < end && t.flag.Load() == 0; now = t.clk.Now() {
		t.rest(now)
	}
	t.Busy()
	return now
}

// settle waits until at most lag messages have not completed.
func (t *Latency) settle(lag uint64) error {
	for t.Link.posted-t.Link.done > lag {
		if taken, err := t.take(); err != nil {
			return err
		} else if taken {
			t.Busy()
		} else if err := t.idle(); err != nil {
			return fmt.Errorf("waiting for the completion of message %d: %w", t.Link.done+1, err)
		}
	}
	return nil
}

// take takes a completion of a message, if there is one.
func (t *Latency) take() (bool, error) {
	n, err := t.Sends.Poll(t.wcs[:])
	if n == 0 || err != nil {
		return false, err
	}
	wc := &t.wcs[0]
	if wc.Status != ibv.WCSuccess {
		return false, failed(t.Link, "message", t.Link.done+1, wc)
	}
	t.Link.done++
	if t.ToCQE {
		end := t.clk.Now()
		if t.cqes != nil {
			t.cqes[t.Link.done-1] = end - t.paused
		} else if t.Link.done > t.Ahead {
			t.record(float64(end-t.last) * t.rate)
		}
	}
	if t.Count != nil {
		t.Count.Store(measure.Count{Sent: t.Link.done})
	}
	return true, nil
}

// await is idle of an end that waits for the peer. The peer's message does not come if the own one before it was lost,
// which only a completion says: now and then it looks for one.
func (t *Latency) await() error {
	if err := t.idle(); err != nil || t.spins%lookEvery != 0 || t.Link.posted == t.Link.done {
		return err
	}
	_, err := t.take()
	return err
}

// over reports whether a run by time is over. One that waits in silence since before the sample's
// end is not, while the peer's run is not over: it goes on until something comes, or it has stalled.
// An end that follows replies until the other one's run is over, which may have begun late on a busy machine.
func (t *Latency) over() bool {
	if t.sample == nil {
		return false
	}
	now := t.clk.Now()
	if !t.sample.Tick(now, measure.Count{Sent: t.Link.done}) {
		return false
	}
	if t.spoke.Load() != 0 {
		return true
	}
	return !t.sample.Silent(t.last) && (!t.Follows || now-t.last > t.clk.Ticks(quietLeast))
}

// Read is a run of reads, without the peer's software.
func (t *Latency) Read() error {
	for t.Link.posted < t.Link.Messages {
		if err := t.send(); err != nil {
			return err
		}
		if t.over() {
			return nil
		}
	}
	return nil
}

// Write is a game of ping-pong through memory: each end puts the number of its message in the last
// byte of own, and waits for that number in the last byte of mem.
func (t *Latency) Write(own, mem []byte) error {
	l := t.Link
	var seen uint64
	last := len(own) - 1
	arrival := watchByte(mem, len(mem)-1)
	for l.posted < l.Messages || seen < l.Messages {
		if seen < l.Messages && (!t.Begins || l.posted > 0) {
			seen++
			for !arrival.spin(byte(seen)) {
				if t.over() {
					return nil
				}
				if err := t.await(); err != nil {
					return fmt.Errorf("waiting for message %d of the peer, after %d sent: %w", seen, l.done, err)
				}
			}
			t.Busy()
		}
		if l.posted < l.Messages {
			own[last] = byte(l.posted + 1)
			if err := t.send(); err != nil {
				return err
			}
			if t.over() {
				return nil
			}
		}
	}
	return t.settle(0)
}

// PingPong is the same with messages.
func (t *Latency) PingPong() error {
	l := t.Link
	if t.early = nil; t.Alone && !t.Begins {
		t.early = func() bool { return l.recvDone == 0 }
	}
	for l.posted < l.Messages || l.recvDone < l.Messages {
		if l.recvDone < l.Messages && (!t.Begins || l.posted > 0) {
			for {
				n, err := t.Recvs.Poll(t.wcs[:])
				if err != nil {
					return err
				}
				if n > 0 {
					break
				}
				if t.over() {
					return nil
				}
				if err := t.await(); err != nil {
					return fmt.Errorf("waiting for message %d of the peer, after %d sent: %w", l.recvDone+1, l.done,
						err)
				}
			}
			wc := &t.wcs[0]
			if wc.Status != ibv.WCSuccess {
				return failed(l, "receive", l.recvDone+1, wc)
			}
			t.Busy()
			l.recvDone++
			l.refill++
			if l.recvPosted == l.recvDone { // the peer's next message needs it at once
				if err := l.PostRecv(l.refill); err != nil {
					return err
				}
				l.refill = 0
			}
		}
		if l.posted < l.Messages {
			if err := t.send(); err != nil {
				return err
			}
			if t.over() {
				return nil
			}
		}
	}
	return t.settle(0)
}

// Cut makes what was measured the outcome of a run that failed. It reports whether there is any.
func (t *Latency) Cut() bool {
	if t.posts == nil {
		if t.sample.Ahead() {
			t.hist = t.ahead
		}
		return t.hist.Summary().Count > 0
	}
	t.posts = t.posts[:min(t.Link.posted, uint64(len(t.posts)))]
	if t.ToCQE {
		t.cqes = t.cqes[:min(t.Link.done, uint64(len(t.cqes)))]
		return uint64(len(t.cqes)) > t.Ahead
	}
	return uint64(len(t.posts)) > t.Ahead+1
}

// Messages returns how many messages count: in a run by time those of the sample, and of all others none.
func (t *Latency) Messages() uint64 {
	if t.posts == nil {
		return t.hist.Count()
	}
	return t.Link.done
}

// Collect returns the distribution. In a run by count a tick has rate nanoseconds: the clock knows
// it better after the run.
func (t *Latency) Collect(rate float64) *measure.Latency {
	if t.posts == nil {
		return t.hist
	}
	h := measure.NewExact(len(t.posts))
	if t.ToCQE {
		for i := int(t.Ahead); i < len(t.cqes); i++ {
			h.Record(float64(t.cqes[i]-t.posts[i]) * rate)
		}
		return h
	}
	for i := int(t.Ahead) + 1; i < len(t.posts); i++ {
		h.Record(float64(t.posts[i]-t.posts[i-1]) * rate * t.Half)
	}
	return h
}
