package attempts

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/internal/foreign"
)

const ms = time.Millisecond

// TestDial has addresses that hang, fail or connect after some time, on a clock of its own.
func TestDial(t *testing.T) {
	const never = time.Hour
	type address struct {
		ap    string
		takes time.Duration
		fails bool
	}
	a6, b6, a4, b4, c4 := "[fd00::1]:1", "[fd00::2]:1", "10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"
	for _, c := range []struct {
		name    string
		time    time.Duration // of the context; 0: none
		local   string
		addrs   []address
		tried   string // addresses with the time at which they begin
		winner  string
		after   time.Duration
		err     string
		dropped int
	}{
		{name: "one", time: 30 * time.Second, addrs: []address{{a4, 5 * ms, false}}, tried: a4 + "@0s", winner: a4,
			after: 5 * ms},
		{name: "one hangs", time: 30 * time.Second, addrs: []address{{a4, never, false}}, tried: a4 + "@0s",
			after: 30 * time.Second, err: "deadline exceeded"},
		{name: "the first hangs", time: 30 * time.Second, addrs: []address{{a4, never, false}, {b4, 5 * ms, false}},
			tried: a4 + "@0s " + b4 + "@15s", winner: b4, after: 15*time.Second + 5*ms},
		{name: "the first two hang", time: 30 * time.Second,
			addrs: []address{{a4, never, false}, {b4, never, false}, {c4, 0, false}},
			tried: a4 + "@0s " + b4 + "@10s " + c4 + "@20s", winner: c4, after: 20 * time.Second},
		{name: "the second has what the first leaves", time: 30 * time.Second,
			addrs: []address{{a4, 2 * time.Second, true}, {b4, never, false}, {c4, 0, false}},
			tried: a4 + "@0s " + b4 + "@2s " + c4 + "@16s", winner: c4, after: 16 * time.Second},
		{name: "not less than 2 s", time: 3 * time.Second,
			addrs: []address{{a4, never, false}, {b4, 5 * ms, false}, {c4, 0, false}},
			tried: a4 + "@0s " + b4 + "@2s", winner: b4, after: 2*time.Second + 5*ms},
		{name: "no time for the second", time: time.Second, addrs: []address{{a4, never, false}, {b4, 0, false}},
			tried: a4 + "@0s", after: time.Second, err: "deadline exceeded"},
		{name: "no limit", addrs: []address{{a4, time.Minute, true}, {b4, 5 * ms, false}},
			tried: a4 + "@0s " + b4 + "@1m0s", winner: b4, after: time.Minute + 5*ms},
		{name: "all fail", time: 30 * time.Second, addrs: []address{{a4, 5 * ms, true}, {b4, 5 * ms, true}},
			tried: a4 + "@0s " + b4 + "@5ms", after: 10 * ms, err: a4 + " fails\n" + b4 + " fails"},
		{name: "IPv6 hangs", time: 30 * time.Second, addrs: []address{{a6, never, false}, {a4, 5 * ms, false}},
			tried: a6 + "@0s " + a4 + "@300ms", winner: a4, after: 305 * ms},
		{name: "IPv4 hangs", time: 30 * time.Second, addrs: []address{{a4, never, false}, {a6, 5 * ms, false}},
			tried: a4 + "@0s " + a6 + "@300ms", winner: a6, after: 305 * ms},
		{name: "IPv6 fails", time: 30 * time.Second, addrs: []address{{a6, 10 * ms, true}, {a4, 5 * ms, false}},
			tried: a6 + "@0s " + a4 + "@10ms", winner: a4, after: 15 * ms},
		{name: "IPv6 is fast", time: 30 * time.Second, addrs: []address{{a6, 299 * ms, false}, {a4, 0, false}},
			tried: a6 + "@0s", winner: a6, after: 299 * ms},
		{name: "IPv6 is slow", time: 30 * time.Second, addrs: []address{{a6, 400 * ms, false}, {a4, 200 * ms, false}},
			tried: a6 + "@0s " + a4 + "@300ms", winner: a6, after: 400 * ms},
		{name: "both have two", time: 30 * time.Second,
			addrs: []address{{a6, never, false}, {a4, 5 * ms, true}, {b6, 5 * ms, false}, {b4, 5 * ms, false}},
			tried: a6 + "@0s " + a4 + "@300ms " + b4 + "@305ms", winner: b4, after: 310 * ms},
		{name: "the first family at last", time: 30 * time.Second,
			addrs: []address{{a6, never, false}, {b6, 5 * ms, false}, {a4, 5 * ms, true}},
			tried: a6 + "@0s " + a4 + "@300ms " + b6 + "@15s", winner: b6, after: 15*time.Second + 5*ms},
		{name: "both fail", time: 30 * time.Second, addrs: []address{{a6, 500 * ms, true}, {a4, 5 * ms, true}},
			tried: a6 + "@0s " + a4 + "@300ms", after: 500 * ms, err: a6 + " fails\n" + a4 + " fails"},
		{name: "from an IPv4 address", local: "10.0.0.9", time: 30 * time.Second,
			addrs: []address{{a6, 0, false}, {a4, 5 * ms, false}}, tried: a4 + "@0s", winner: a4, after: 5 * ms},
		{name: "from a mapped one", local: "::ffff:10.0.0.9", time: 30 * time.Second,
			addrs: []address{{a4, 5 * ms, true}, {a6, 0, false}}, tried: a4 + "@0s", after: 5 * ms, err: "fails"},
		{name: "from an address of no use", local: "fd00::9", time: 30 * time.Second,
			addrs: []address{{a4, 5 * ms, true}}, tried: a4 + "@0s", after: 5 * ms, err: "fails"},
		{name: "the loser connects as well", time: 30 * time.Second,
			addrs: []address{{a6, 350 * ms, false}, {a4, 50 * ms, false}}, tried: a6 + "@0s " + a4 + "@300ms",
			winner: "?", after: 350 * ms, dropped: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				ctx := context.Background()
				if c.time > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.time)
					defer cancel()
				}
				var addrs []netip.AddrPort
				for _, a := range c.addrs {
					addrs = append(addrs, netip.MustParseAddrPort(a.ap))
				}
				local, _ := netip.ParseAddr(c.local)
				tried := make(chan string, 10)
				dropped := 0
				got, err := Dial(ctx, addrs, local, func(ctx context.Context, a netip.AddrPort) (string, error) {
					tried <- fmt.Sprint(a, "@", time.Since(begin))
					i := slices.Index(addrs, a)
					timer := time.NewTimer(c.addrs[i].takes)
					done := ctx.Done()
					if c.winner == "?" {
						done = nil
					}
					select {
					case <-timer.C:
						if c.addrs[i].fails {
							return "", fmt.Errorf("%v fails", a)
						}
						return a.String(), nil
					case <-done:
						return "", ctx.Err()
					}
				}, func(string) { dropped++ })
				after := time.Since(begin)
				if c.winner == "?" {
					got = "?"
				}
				synctest.Wait()
				close(tried)
				var list []string
				for s := range tried {
					list = append(list, s)
				}
				is := fmt.Sprintf("%q after %v, tried %s, dropped %d", got, after, strings.Join(list, " "), dropped)
				want := fmt.Sprintf("%q after %v, tried %s, dropped %d", c.winner, c.after, c.tried, c.dropped)
				if is != want {
					t.Errorf("%s; want %s", is, want)
				}
				if err == nil && c.err != "" || err != nil && (c.err == "" || !strings.Contains(err.Error(), c.err)) {
					t.Errorf("%v, want %q", err, c.err)
				}
			})
		})
	}
}

// TestRace_Late lets the loser connect when the race is over.
func TestRace_Late(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dropped []string
		way := func(name string, takes time.Duration) func(context.Context, error) (string, error) {
			return func(context.Context, error) (string, error) { time.Sleep(takes); return name, nil }
		}
		got, err := Race(t.Context(), Delay, way("first", time.Second), way("second", ms),
			func(s string) { dropped = append(dropped, s) })
		time.Sleep(time.Minute)
		synctest.Wait()
		if got != "second" || err != nil || !slices.Equal(dropped, []string{"first"}) {
			t.Errorf("%s, %v, dropped %v", got, err, dropped)
		}
	})
}

// TestRace_Exits has a way end its goroutine, as testing.T.FailNow in a function of the program does.
func TestRace_Exits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exits := func(context.Context, error) (int, error) { runtime.Goexit(); return 0, nil }
		works := func(_ context.Context, before error) (int, error) {
			if before != foreign.ErrExited {
				t.Errorf("before: %v", before)
			}
			return 2, nil
		}
		if got, err := Race(t.Context(), Delay, exits, works, nil); got != 2 || err != nil {
			t.Errorf("%d, %v", got, err)
		}
		if _, err := Race(t.Context(), Delay, exits, exits, nil); !errors.Is(err, foreign.ErrExited) {
			t.Error(err)
		}
	})
}

// TestRace_Cancelled: no second way begins when the context has ended, and both have ended when Race returns.
func TestRace_Cancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var ended atomic.Int32
		way := func(ctx context.Context, _ error) (int, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			ended.Add(1)
			return 0, ctx.Err()
		}
		time.AfterFunc(Delay-1, cancel)
		if _, err := Race(ctx, Delay, way, way, nil); err != context.Canceled || ended.Load() != 1 {
			t.Errorf("%v, and %d ways have ended, want 1", err, ended.Load())
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(Delay+1, cancel)
		if _, err := Race(ctx, Delay, way, way, nil); !errors.Is(err, context.Canceled) || ended.Load() != 3 {
			t.Errorf("%v, and %d ways have ended, want 2 more", err, ended.Load())
		}
	})
}

// TestFinish has attempts with random times and failures, at one listener. Its program gets one connection, unless all
// attempts have failed, and the attempt that has it knows.
func TestFinish(t *testing.T) {
	for seed := range uint64(3000) {
		synctest.Test(t, func(t *testing.T) { finish(t, rand.New(rand.NewPCG(seed, 1))) })
		if t.Failed() {
			t.Fatal("seed", seed)
		}
	}
}

func finish(t *testing.T, rnd *rand.Rand) {
	var f Finish
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rnd.IntN(80))*ms)
	defer cancel()
	accepted, last := 0, 0
	some := func() time.Duration { return time.Duration(rnd.IntN(20)) * ms }
	results := make(chan error, 4)
	one := func(before, step time.Duration, fails bool) error { // by RDMA
		time.Sleep(before)
		if err := f.Begin(ctx); err != nil {
			return err
		}
		if last++; last > 1 {
			t.Error("two attempts are in their last steps")
		}
		time.Sleep(step)
		last--
		if fails {
			f.End(false)
			return errors.New("the peer has gone")
		}
		accepted++
		f.End(true)
		return nil
	}
	tries := 0
	its := rand.New(rand.NewPCG(rnd.Uint64(), 2)) // of that goroutine
	tcp := func(ctx context.Context) (int, error) {
		tries++
		there := time.NewTimer(time.Duration(its.IntN(20)) * ms)
		late := time.Duration(its.IntN(20)) * ms // the peer has the connection, and this side does not know yet
		select {
		case <-there.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		if its.IntN(3) == 0 {
			return 0, errors.New("refused")
		}
		accepted++
		time.Sleep(late)
		return 1, nil
	}
	n := 1 + rnd.IntN(3)
	for range n {
		before, step, fails := some(), some(), rnd.IntN(2) == 0
		go func() { results <- one(before, step, fails) }()
	}
	begin := some()
	go func() {
		time.Sleep(begin)
		_, err := Whole(ctx, &f, tcp)
		results <- err
	}()
	connected := 0
	for range n + 1 {
		if err := <-results; err == nil {
			connected++
		} else if errors.Is(err, ErrLost) && accepted == 0 {
			t.Error("an attempt has lost, and none has won")
		}
	}
	if accepted > 1 || connected != accepted {
		t.Errorf("the listener has %d connections, the dialer %d", accepted, connected)
	}
	if tries > n+1 {
		t.Errorf("TCP was tried %d times next to %d attempts", tries, n)
	}
	if accepted == 1 { // nobody comes after it
		if err := f.Begin(t.Context()); err != ErrLost {
			t.Errorf("after the end: %v", err)
		}
	}
}

// TestFinish_Repeats: TCP waits for the last step of another attempt, and begins again when that has failed.
func TestFinish_Repeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Finish
		tries := 0
		done := make(chan error)
		go func() {
			_, err := Whole(t.Context(), &f, func(ctx context.Context) (int, error) {
				if tries++; tries == 2 {
					return 2, nil
				}
				<-ctx.Done()
				return 0, ctx.Err()
			})
			done <- err
		}()
		synctest.Wait()
		if err := f.Begin(t.Context()); err != nil || tries != 1 {
			t.Fatalf("%v, after %d tries", err, tries)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if tries != 1 {
			t.Error("TCP does not wait")
		}
		f.End(false)
		if err := <-done; err != nil || tries != 2 {
			t.Errorf("%v after %d tries", err, tries)
		}
		if err := f.Begin(t.Context()); err != ErrLost {
			t.Error("it has won:", err)
		}
	})
}

// TestStaggered has addresses that hang, fail or connect: each begins when the one before failed, or after the delay.
func TestStaggered(t *testing.T) {
	const delay, hangs = 100 * ms, time.Hour
	type outcome struct {
		takes time.Duration
		fails bool
	}
	for _, c := range []struct {
		name   string
		of     []outcome
		winner int // -1: none
		after  time.Duration
		tried  int
	}{
		{"one", []outcome{{5 * ms, false}}, 0, 5 * ms, 1},
		{"the first is fast", []outcome{{99 * ms, false}, {0, false}}, 0, 99 * ms, 1},
		{"two hang", []outcome{{hangs, false}, {hangs, false}, {5 * ms, false}}, 2, 205 * ms, 3},
		{"two fail", []outcome{{1 * ms, true}, {2 * ms, true}, {3 * ms, false}}, 2, 6 * ms, 3},
		{"one fails, one hangs", []outcome{{1 * ms, true}, {hangs, false}, {3 * ms, false}}, 2, 104 * ms, 3},
		{"a slow one wins", []outcome{{150 * ms, false}, {hangs, false}, {hangs, false}}, 0, 150 * ms, 2},
		{"all fail", []outcome{{1 * ms, true}, {2 * ms, true}}, -1, 3 * ms, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			var tried atomic.Int32
			connect := func(ctx context.Context, i int) (int, error) {
				tried.Add(1)
				select {
				case <-time.After(c.of[i].takes):
				case <-ctx.Done():
					return 0, ctx.Err()
				}
				if c.of[i].fails {
					return 0, fmt.Errorf("%d fails", i)
				}
				return i, nil
			}
			got, err := Staggered(t.Context(), delay, []int{0, 1, 2}[:len(c.of)], connect, func(int) {})
			if err != nil {
				got = -1
			}
			if after := time.Since(begin); after != c.after || int(tried.Load()) != c.tried || got != c.winner {
				t.Errorf("%s: %d, %v after %v with %d tried, want %d after %v with %d", c.name, got, err, after,
					tried.Load(), c.winner, c.after, c.tried)
			}
			synctest.Wait()
		})
	}
}
