package progress

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/internal/deadline"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// TestRandom has goroutines wait for messages that come at random, some with contexts that end. Each has its message
// at the moment at which it comes, because the clock stands still while a goroutine works. Afterwards the CQ is
// covered.
func TestRandom(t *testing.T) {
	for seed := range uint64(40) {
		opt := Options{Spin: -1, Fail: func(error) { t.Error("failed") }}
		spins, cost := seed%2 == 1, time.Duration(0)
		if spins {
			opt.Spin, cost = 20*time.Microsecond, time.Microsecond/256
		}
		inBubble(t, 3, cost, opt, func(t *testing.T, p *Progress, q *fakeCQ) {
			pauses := []time.Duration{0, time.Microsecond, 100 * time.Microsecond, Absence, 3 * Absence}
			var all sync.WaitGroup
			for i := range q.waits {
				r := rand.New(rand.NewPCG(seed, uint64(2+i)))
				posted := make(chan time.Time, 100)
				all.Go(func() {
					var patience Patience
					for range 100 {
						for {
							b, cancel := turn.Bound{}, func() {}
							if r.IntN(4) == 0 {
								b.Ctx, cancel = context.WithTimeout(t.Context(), pauses[r.IntN(len(pauses))])
							}
							began := time.Now()
							err := q.recv(p, b, i, &patience)
							cancel()
							if err != nil {
								continue
							}
							at := <-posted
							if late := time.Since(at); late > 0 && !began.After(at) && !spins {
								t.Errorf("seed %d: a message came %v late", seed, late)
							}
							break
						}
						if i > 0 {
							time.Sleep(pauses[r.IntN(len(pauses))])
						}
					}
				})
				all.Go(func() {
					r := rand.New(rand.NewPCG(seed, uint64(10+i)))
					for range 100 {
						posted <- time.Now()
						q.post(i)
						time.Sleep(pauses[r.IntN(len(pauses))])
					}
				})
			}
			all.Wait()
			time.Sleep(3 * Absence)
			synctest.Wait()
			if !p.AtRest() || p.Sleepers() > 0 {
				t.Errorf("seed %d: not at rest: %v", seed, p)
			}
		})
	}
}

// TestReads has a goroutine that waits often read the events, be woken by all that may end its wait, and others take
// over.
func TestReads(t *testing.T) {
	opt := Options{Spin: -1}
	for _, tt := range []struct {
		name string
		end  func(q *fakeCQ, cancel func(), d *deadline.Deadline)
		want error
	}{
		{"a message", func(q *fakeCQ, _ func(), _ *deadline.Deadline) { q.post(0) }, nil},
		{"a signal", func(q *fakeCQ, _ func(), _ *deadline.Deadline) {
			q.waits[0].inbox.Add(1)
			q.waits[0].sig.Wake()
		}, nil},
		{"a context", func(_ *fakeCQ, cancel func(), _ *deadline.Deadline) { cancel() }, context.Canceled},
		{"a deadline", func(_ *fakeCQ, _ func(), d *deadline.Deadline) { d.Set(time.Now()) }, os.ErrDeadlineExceeded},
		{"a deadline that comes", func(_ *fakeCQ, _ func(), d *deadline.Deadline) {
			d.Set(time.Now().Add(time.Hour))
		}, os.ErrDeadlineExceeded},
		{"a deadline that is moved when it has come", func(_ *fakeCQ, _ func(), d *deadline.Deadline) {
			d.Set(time.Now())
			d.Set(time.Now().Add(time.Hour))
		}, os.ErrDeadlineExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, 2, 0, opt, func(t *testing.T, p *Progress, q *fakeCQ) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var d deadline.Deadline
				b := turn.Bound{Ctx: ctx, Deadline: &d}
				for round := range 3 { // it is away in between, and it was evicted once
					if round == 0 {
						p.LeadNext()
					}
					got := make(chan error, 1)
					go func() { got <- q.recv(p, b, 0, nil) }()
					synctest.Wait()
					if !q.waits[0].sig.Reading() || p.Reader() != "waiter" {
						t.Fatalf("round %d: %v reads", round, p.Reader())
					}
					if round < 2 {
						q.post(0)
						if err := <-got; err != nil {
							t.Fatal(err)
						}
						if p.Reader() != "nobody" {
							t.Errorf("%v reads while it is away", p.Reader())
						}
						continue
					}
					tt.end(q, cancel, &d)
					if err := <-got; err != tt.want {
						t.Errorf("%v, want %v", err, tt.want)
					}
				}
				time.Sleep(3 * Absence)
				if !p.AtRest() {
					t.Errorf("not at rest: %v", p)
				}
			})
		})
	}
	inBubble(t, 2, 0, opt, func(t *testing.T, p *Progress, q *fakeCQ) {
		p.LeadNext()
		var got [2]chan error
		wait := func(i int) {
			got[i] = make(chan error, 1)
			go func() { got[i] <- q.recv(p, turn.Bound{}, i, nil) }()
			synctest.Wait()
		}
		wait(0)
		wait(1)
		q.post(1)
		if err := <-got[1]; err != nil || p.Reader() != "waiter" {
			t.Errorf("%v; %v reads, want the first", err, p.Reader())
		}
		wait(1)
		q.post(0)
		if err := <-got[0]; err != nil || p.Reader() != "poller" {
			t.Errorf("%v; %v reads, while another one waits", err, p.Reader())
		}
		q.post(1)
		if err := <-got[1]; err != nil {
			t.Error(err)
		}
	})
}

// TestCatchUp handles what has come while another goroutine has the turn.
func TestCatchUp(t *testing.T) {
	inBubble(t, 1, 0, Options{Spin: -1}, func(t *testing.T, p *Progress, q *fakeCQ) {
		release := p.Hold()
		q.post(0)
		var done atomic.Bool
		go func() {
			p.CatchUp(nil)
			if q.waits[0].inbox.Load() != 1 {
				t.Error("it is over before the message was handled")
			}
			done.Store(true)
		}()
		stop := make(chan struct{})
		close(stop)
		p.CatchUp(stop)
		synctest.Wait()
		if done.Load() {
			t.Error("it did not wait")
		}
		release()
		synctest.Wait()
		if !done.Load() {
			t.Error("it waits on")
		}
		q.post(0)
		p.CatchUp(nil)
		if q.waits[0].inbox.Load() != 2 {
			t.Error("it has not polled")
		}
	})
}

// TestCatchUpReader calls CatchUp while a goroutine that reads events has the turn: when it has just polled.
func TestCatchUpReader(t *testing.T) {
	inBubble(t, 2, 0, Options{Spin: -1}, func(t *testing.T, p *Progress, q *fakeCQ) {
		p.LeadNext()
		got := make(chan error)
		go func() { got <- q.recv(p, turn.Bound{}, 0, nil) }()
		synctest.Wait()
		var done atomic.Bool
		q.polled = func() {
			go func() {
				p.CatchUp(nil)
				done.Store(true)
			}()
			time.Sleep(time.Nanosecond) // now it waits
		}
		q.post(1) // the goroutine that reads polls
		time.Sleep(Absence)
		if !done.Load() || p.Reader() != "waiter" {
			t.Errorf("CatchUp is over: %v, and the %v reads", done.Load(), p.Reader())
		}
		q.post(0)
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
}

// TestBusy has waits end while there are always completions for others.
func TestBusy(t *testing.T) {
	opt := Options{Spin: -1}
	wait := func(t *testing.T, p *Progress, q *fakeCQ, patience *Patience) {
		ctx, cancel := context.WithTimeout(t.Context(), Absence)
		defer cancel()
		if err := q.recv(p, turn.Bound{Ctx: ctx}, 0, patience); err != context.DeadlineExceeded {
			t.Error(err)
		}
	}
	for name, f := range map[string]func(t *testing.T, p *Progress, q *fakeCQ){
		"sleeps": func(t *testing.T, p *Progress, q *fakeCQ) { wait(t, p, q, nil) },
		"polls":  func(t *testing.T, p *Progress, q *fakeCQ) { wait(t, p, q, &Patience{luck: 1}) },
		"reads": func(t *testing.T, p *Progress, q *fakeCQ) {
			p.LeadNext()
			wait(t, p, q, nil)
		},
		"CatchUp": func(_ *testing.T, p *Progress, _ *fakeCQ) { p.CatchUp(nil) },
		"CatchUp next to a goroutine that polls": func(t *testing.T, p *Progress, q *fakeCQ) {
			go wait(t, p, q, &Patience{luck: 1})
			time.Sleep(Absence / 2)
			p.CatchUp(nil)
			time.Sleep(Absence)
		},
		"CatchUp next to a goroutine that reads": func(t *testing.T, p *Progress, q *fakeCQ) {
			p.LeadNext()
			go wait(t, p, q, nil)
			time.Sleep(Absence / 2)
			p.CatchUp(nil)
			time.Sleep(Absence)
		},
	} {
		for _, manual := range []bool{false, true} {
			opt.Manual, opt.Spin = manual, -1
			if strings.Contains(name, "polls") {
				opt.Spin = time.Hour
			}
			t.Run(fmt.Sprintf("%s, manual %v", name, manual), func(t *testing.T) {
				inBubble(t, 2, time.Microsecond, opt, func(t *testing.T, p *Progress, q *fakeCQ) {
					synctest.Wait()
					q.busy.Store(true)
					q.post(1)
					done := make(chan struct{})
					go func() {
						defer close(done)
						f(t, p, q)
					}()
					select {
					case <-done:
					case <-time.After(time.Second):
						t.Error("it goes on")
					}
					q.busy.Store(false)
					<-done
				})
			})
		}
	}
}

// TestFails has the source fail in each role: all that wait are told once, and end.
func TestFails(t *testing.T) {
	for _, how := range []string{"sleeps", "reads", "polls"} {
		t.Run(how, func(t *testing.T) {
			var q *fakeCQ
			fails := 0
			opt := Options{Spin: -1, Fail: func(err error) {
				if fails++; err != errBroken {
					t.Error(err)
				}
				for i := range q.waits {
					q.waits[i].inbox.Add(1)
					q.waits[i].sig.Wake()
				}
			}}
			if how == "polls" {
				opt.Spin = time.Hour
			}
			inBubble(t, 2, time.Microsecond, opt, func(t *testing.T, p *Progress, fake *fakeCQ) {
				q = fake
				var all sync.WaitGroup
				for i := range q.waits {
					all.Go(func() {
						patience := Patience{luck: 1}
						if how == "reads" {
							p.LeadNext()
						}
						if err := q.recv(p, turn.Bound{}, i, &patience); err != nil {
							t.Error(err)
						}
					})
					time.Sleep(Absence)
				}
				q.fail()
				all.Wait()
				p.CatchUp(nil)
				if fails != 1 {
					t.Errorf("told %d times", fails)
				}
			})
		})
	}
}

// TestWait waits for a channel and for a context instead of a Signal. The poller reads events meanwhile.
func TestWait(t *testing.T) {
	inBubble(t, 1, 0, Options{Spin: -1}, func(t *testing.T, p *Progress, q *fakeCQ) {
		if err := p.Wait(turn.Bound{Now: true}, nil); err != turn.ErrWouldWait {
			t.Error(err)
		}
		p.LeadNext()
		got := make(chan error)
		go func() { got <- q.recv(p, turn.Bound{}, 0, nil) }()
		synctest.Wait()
		q.post(0)
		<-got
		if p.Reader() != "nobody" {
			t.Errorf("%v reads, want nobody", p.Reader())
		}
		ch := make(chan struct{})
		go func() { got <- p.Wait(turn.Bound{}, ch) }()
		synctest.Wait()
		if p.Reader() != "poller" {
			t.Errorf("%v reads, want the poller", p.Reader())
		}
		close(ch)
		if err := <-got; err != nil {
			t.Error(err)
		}
		stop := p.Meanwhile()
		if p.Sleepers() != 1 {
			t.Error("Meanwhile does not count")
		}
		stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := p.Wait(turn.Bound{Ctx: ctx}, nil); err != context.DeadlineExceeded || p.Sleepers() != 0 {
			t.Errorf("%v, %d sleep", err, p.Sleepers())
		}
	})
}

// TestManual has goroutines wait that poll, and a program that polls.
func TestManual(t *testing.T) {
	opt := Options{Manual: true, Spin: -1}
	inBubble(t, 2, time.Microsecond, opt, func(t *testing.T, p *Progress, q *fakeCQ) {
		var all sync.WaitGroup
		for i := range q.waits {
			all.Go(func() {
				for range 100 {
					if err := q.recv(p, turn.Bound{}, i, nil); err != nil {
						t.Error(err)
					}
				}
			})
			all.Go(func() {
				for n := range 100 {
					q.post(i)
					time.Sleep(time.Duration(n) * 10 * time.Microsecond)
				}
			})
		}
		all.Wait()
		b := turn.Bound{Now: true}
		if err := p.WaitSignal(b, &q.waits[0].sig, nil); err != turn.ErrWouldWait {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		ended := make(chan error)
		go func() { // sleeps with the turn
			n, err := p.PollWait(ctx)
			ended <- errors.Join(err, want(n, 1))
		}()
		synctest.Wait()
		if n, err := p.Poll(); n != 0 || err != nil {
			t.Errorf("Poll next to PollWait: %d, %v", n, err)
		}
		short, cancelShort := context.WithTimeout(t.Context(), time.Second)
		defer cancelShort()
		if _, err := p.PollWait(short); err != context.DeadlineExceeded {
			t.Errorf("PollWait next to PollWait: %v", err)
		}
		q.post(0)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		stop := p.Meanwhile()
		q.post(1)
		time.Sleep(2 * pause)
		stop()
		time.Sleep(2 * pause)
		if q.waits[1].inbox.Load() != 1 {
			t.Error("nobody has polled meanwhile")
		}
		q.mu.Lock()
		q.most = 1
		q.mu.Unlock()
		for range 3 {
			q.post(0)
		}
		p.CatchUp(nil)
		if q.waits[0].inbox.Load() != 4 {
			t.Error("CatchUp has left something")
		}
		q.polled = func() {
			go func() {
				p.CatchUp(nil)
				if q.waits[0].inbox.Load() != 6 {
					t.Error("CatchUp has not waited")
				}
				ended <- nil
			}()
			time.Sleep(time.Second)
			q.waits[0].inbox.Add(1)
		}
		q.post(0)
		go func() { // has the next message, and takes its time to handle it
			_, err := p.Poll()
			ended <- err
		}()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * pause)
	})
}

// TestManualStop stops while a goroutine is in PollWait.
func TestManualStop(t *testing.T) {
	inBubble(t, 1, 0, Options{Manual: true, Spin: -1}, func(t *testing.T, p *Progress, q *fakeCQ) {
		ended := make(chan error)
		go func() {
			_, err := p.PollWait(t.Context())
			ended <- err
		}()
		synctest.Wait()
		p.Stop()
		if err := <-ended; err != ErrStopped {
			t.Errorf("PollWait: %v", err)
		}
		q.post(0)
		p.CatchUp(nil)
		if _, err := p.Poll(); err != ErrStopped || q.waits[0].inbox.Load() != 0 {
			t.Errorf("Poll: %v, and %d messages", err, q.waits[0].inbox.Load())
		}
	})
}

func want(n, want int) error {
	if n != want {
		return fmt.Errorf("%d, want %d", n, want)
	}
	return nil
}

// instant is a CQ that has a message for its only goroutine at each poll.
type instant struct {
	fakeCQ
	sig Signal
}

func (q *instant) Poll() (int, error) {
	q.sig.Wake()
	return 1, nil
}

func newInstant() (*Progress, *instant) {
	q := &instant{fakeCQ: fakeCQ{kick: make(chan struct{}, 1)}}
	p := New(q, Options{Spin: time.Second})
	q.sig.Init(p)
	return p, q
}

func TestAllocs(t *testing.T) {
	p, q := newInstant()
	patience := Patience{luck: 1}
	b := turn.Bound{Ctx: t.Context()}
	if n := testing.AllocsPerRun(1000, func() {
		if err := p.WaitSignal(b, &q.sig, &patience); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("a wait that polls allocates %v times", n)
	}
	p.Stop()
	p = New(q, Options{Manual: true})
	if n := testing.AllocsPerRun(1000, func() {
		if n, err := p.Poll(); n != 1 || err != nil {
			t.Error(n, err)
		}
	}); n != 0 {
		t.Errorf("Poll allocates %v times", n)
	}
	p.Stop()
}

// BenchmarkTurn has a wait that polls once: word. The turn and the signal were channels before, and channels makes the
// calls of that time. Least of 12 runs on one processor of a busy machine: word 300 ns, channels 661 ns.
func BenchmarkTurn(b *testing.B) {
	b.Run("word", func(b *testing.B) {
		p, q := newInstant()
		patience := Patience{luck: 1}
		bound := turn.Bound{Ctx: b.Context()}
		b.ReportAllocs()
		for b.Loop() {
			if err := p.WaitSignal(bound, &q.sig, &patience); err != nil {
				b.Fatal(err)
			}
		}
		p.Stop()
	})
	b.Run("channels", func(b *testing.B) {
		turn, ch := make(chan struct{}, 1), make(chan struct{}, 1)
		var asleep, events atomic.Uint32
		var away atomic.Bool
		patience := Patience{luck: 1}
		armed := uint32(1)
		for b.Loop() {
			if !patience.spins() {
				b.Fatal("it does not poll")
			}
			select {
			case turn <- struct{}{}:
			default:
			}
			start := time.Now()
			Token(ch)
			select {
			case <-ch:
			default:
			}
			if asleep.Load() == 0 && armed != events.Load() {
				away.Store(true)
			}
			_ = away.Load()
			<-turn
			if asleep.Load() > 0 || time.Since(start) > time.Hour {
				b.Fatal("it sleeps")
			}
			patience.learn(true)
		}
	})
}
