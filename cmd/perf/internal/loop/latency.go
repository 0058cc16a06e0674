package engine

import (
	"fmt"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/stats"
	"github.com/pureverbs/pureverbs/ibv"
)

// latLoop sends one message at a time and notes when.
type latLoop struct {
	*monitor
	link   *link
	sends  completions
	recvs  completions // send only
	server bool
	count  *atomic.Uint64

	posts []int64 // ticks of each posting; nil: by time
	cqes  []int64 // ticks of each completion, if asked for

	sample *sampler // by time
	hist   *stats.Latency
	toCQE  bool
	lag    uint64  // messages that may be on their way when the next one is posted
	half   float64 // 0.5 where a sample is half of the time measured
	rate   float64 // ns per tick, for hist

	mem     []byte // write: the memory that the peer writes to
	own     []byte // write: the memory that is sent
	arrival arrival

	wcs  [1]ibv.WC
	last int64 // ticks of the previous posting
}

// send posts the next message. Between the arrival of the peer's message and
// this posting there is nothing that can wait: used receives are posted again,
// and completions taken, by settle, while the new message is on its way.
func (t *latLoop) send() error {
	if t.flag.Load() != 0 {
		return t.err()
	}
	now := t.clk.Now()
	if t.posts != nil {
		t.posts[t.link.posted] = now
	} else if t.sample != nil {
		if t.sample.from == 0 {
			t.sample.start(now)
		}
		if !t.toCQE && t.last != 0 && t.sample.sampling() {
			t.hist.Record(float64(now-t.last) * t.rate * t.half)
		}
	}
	t.last = now
	if err := t.link.post(); err != nil {
		return err
	}
	if t.link.refill > 0 {
		if err := t.link.postRecv(t.link.refill); err != nil {
			return err
		}
		t.link.refill = 0
	}
	t.rest(now)
	return t.settle(t.lag)
}

// settle waits until at most lag messages have not completed.
func (t *latLoop) settle(lag uint64) error {
	for t.link.posted-t.link.done > lag {
		n, err := t.sends.Poll(t.wcs[:])
		if err != nil {
			return err
		}
		if n == 0 {
			if err := t.idle(); err != nil {
				return fmt.Errorf("waiting for the completion of message %d: %w", t.link.done+1, err)
			}
			continue
		}
		wc := &t.wcs[0]
		if wc.Status != ibv.WCSuccess {
			return failed(t.link, "message", t.link.done+1, wc)
		}
		t.link.done++
		if t.toCQE {
			end := t.clk.Now()
			if t.cqes != nil {
				t.cqes[t.link.done-1] = end
			} else if t.sample.sampling() {
				t.hist.Record(float64(end-t.last) * t.rate)
			}
		}
		t.busy()
		if t.count != nil {
			t.count.Store(t.link.done)
		}
	}
	return nil
}

// over tells whether a run by time is over.
func (t *latLoop) over() bool {
	return t.sample != nil && t.sample.tick(t.clk.Now(), t.link.done)
}

// read is a run of reads, of which the peer's software knows nothing.
func (t *latLoop) read() error {
	for t.link.posted < t.link.iters {
		if err := t.send(); err != nil {
			return err
		}
		if t.over() {
			return nil
		}
	}
	return nil
}

// write is a game of ping-pong through memory: each end puts the number of its
// message in the last byte, and waits for that number in its own. The server
// begins, unlike in pingpong.
func (t *latLoop) write() error {
	l := t.link
	var seen uint64
	last := len(t.own) - 1
	for l.posted < l.iters || seen < l.iters {
		if seen < l.iters && (!t.server || l.posted > 0) {
			seen++
			for !t.arrival.spin(byte(seen)) {
				if t.over() {
					return nil
				}
				if err := t.idle(); err != nil {
					return fmt.Errorf("waiting for message %d of the peer, after %d sent: %w", seen, l.done, err)
				}
			}
			t.busy()
		}
		if l.posted < l.iters {
			t.own[last] = byte(l.posted + 1)
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

// pingpong is the same with messages.
func (t *latLoop) pingpong() error {
	l := t.link
	for l.posted < l.iters || l.rdone < l.iters {
		if l.rdone < l.iters && (t.server || l.posted > 0) {
			for {
				n, err := t.recvs.Poll(t.wcs[:])
				if err != nil {
					return err
				}
				if n > 0 {
					break
				}
				if t.over() {
					return nil
				}
				if err := t.idle(); err != nil {
					return fmt.Errorf("waiting for message %d of the peer, after %d sent: %w", l.rdone+1, l.done, err)
				}
			}
			wc := &t.wcs[0]
			if wc.Status != ibv.WCSuccess {
				return failed(l, "receive", l.rdone+1, wc)
			}
			t.busy()
			l.rdone++
			l.refill++
			if l.rposted == l.rdone { // the peer's next message needs it at once
				if err := l.postRecv(l.refill); err != nil {
					return err
				}
				l.refill = 0
			}
		}
		if l.posted < l.iters {
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

// collect turns the times of a run by iterations into a distribution.
func (t *latLoop) collect() *stats.Latency {
	if t.posts == nil {
		return t.hist
	}
	h := stats.NewLatency()
	if t.toCQE {
		for i, end := range t.cqes {
			h.Record(float64(end-t.posts[i]) * t.rate)
		}
		return h
	}
	for i := 1; i < len(t.posts); i++ {
		h.Record(float64(t.posts[i]-t.posts[i-1]) * t.rate * t.half)
	}
	return h
}
