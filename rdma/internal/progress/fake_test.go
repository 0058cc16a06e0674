package progress

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// fakeCQ is a CQ whose completions are messages for goroutines, by number.
type fakeCQ struct {
	mu                 sync.Mutex
	queue              []int
	armed, there, stop bool
	err                error
	kick               chan struct{} // has a token when ReadEvents or Wait is to look

	events  atomic.Uint32
	polling atomic.Int32
	reads   atomic.Int32
	wrong   atomic.Bool   // two polled, or two read events
	cost    time.Duration // of a poll that finds nothing; synctest's clock stands still otherwise
	most    int           // completions that a poll takes; 0 is all; under mu
	busy    atomic.Bool   // there are always completions for others
	polled  func()        // called once, at the end of the next poll

	waits []fakeWait
}

// fakeWait is where a goroutine finds its messages.
type fakeWait struct {
	sig   Signal
	inbox atomic.Int32
}

var errBroken = errors.New("the device is gone")

// newFake makes a progress on a fake CQ for n goroutines.
func newFake(n int, opt Options) (*Progress, *fakeCQ) {
	cq := &fakeCQ{kick: make(chan struct{}, 1), waits: make([]fakeWait, n)}
	p := New(cq, opt)
	for i := range cq.waits {
		cq.waits[i].sig.Init(p)
	}
	return p, cq
}

func (q *fakeCQ) one(n *atomic.Int32) func() {
	if n.Add(1) > 1 {
		q.wrong.Store(true)
	}
	return func() { n.Add(-1) }
}

func (q *fakeCQ) take() (list []int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.queue)
	if q.most > 0 {
		n = min(n, q.most)
	}
	list, q.queue = q.queue[:n], q.queue[n:]
	return list, q.err
}

func (q *fakeCQ) Poll() (int, error) {
	defer q.one(&q.polling)()
	list, err := q.take()
	if len(list) == 0 && q.cost > 0 {
		time.Sleep(q.cost)
	}
	for _, i := range list {
		q.waits[i].inbox.Add(1)
		q.waits[i].sig.Wake()
	}
	if f := q.polled; f != nil {
		q.polled = nil
		f()
	}
	if q.busy.Load() {
		return len(list) + 1, err
	}
	return len(list), err
}

func (q *fakeCQ) Depth() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue) + 3
}

func (q *fakeCQ) Arm() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.armed = q.armed || !q.there
	return nil
}

func (q *fakeCQ) Events() uint32 { return q.events.Load() }

func (q *fakeCQ) ReadEvents() error {
	defer q.one(&q.reads)()
	for {
		q.mu.Lock()
		there, stop, err := q.there, q.stop, q.err
		switch {
		case err != nil:
		case stop:
			q.stop = false
		case there:
			q.there = false
			q.events.Add(1)
		}
		q.mu.Unlock()
		if err != nil || stop || there {
			return err
		}
		<-q.kick
	}
}

func (q *fakeCQ) Interrupt() {
	q.mu.Lock()
	q.stop = true
	q.mu.Unlock()
	Token(q.kick)
}

func (q *fakeCQ) WaitEvent(ctx, stop context.Context, seen uint32) error {
	for q.Events() == seen && ctx.Err() == nil && stop.Err() == nil {
		q.mu.Lock()
		if q.there {
			q.there = false
			q.events.Add(1)
		}
		q.mu.Unlock()
		if q.Events() != seen {
			break
		}
		select {
		case <-q.kick:
		case <-ctx.Done():
		case <-stop.Done():
		}
	}
	return cmp.Or(ctx.Err(), stop.Err())
}

// post puts a message for goroutine i into the queue.
func (q *fakeCQ) post(i int) {
	q.mu.Lock()
	q.queue = append(q.queue, i)
	if q.armed {
		q.armed, q.there = false, true
	}
	q.mu.Unlock()
	Token(q.kick)
}

// fail has the source fail.
func (q *fakeCQ) fail() {
	q.mu.Lock()
	q.err = errBroken
	q.mu.Unlock()
	Token(q.kick)
}

// recv takes a message of goroutine i, and waits for it.
func (q *fakeCQ) recv(p *Progress, b turn.Bound, i int, patience *Patience) error {
	w := &q.waits[i]
	for w.inbox.Load() == 0 {
		if err := p.WaitSignal(b, &w.sig, patience); err != nil {
			return err
		}
	}
	w.inbox.Add(-1)
	return nil
}

// inBubble runs f with a poller. cost is that of a poll which finds nothing.
func inBubble(t *testing.T, n int, cost time.Duration, opt Options, f func(t *testing.T, p *Progress, q *fakeCQ)) {
	synctest.Test(t, func(t *testing.T) {
		p, q := newFake(n, opt)
		q.cost = cost
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		if !opt.Manual {
			done.Go(func() { p.Run(ctx) })
		}
		f(t, p, q)
		cancel()
		done.Wait()
		p.Stop()
		if q.wrong.Load() {
			t.Error("two polled, or two read events")
		}
	})
}
