package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// runner acts as the tests of an agent.
type runner struct {
	takes time.Duration           // of a client
	begun func(t agent.Task)      // may be nil
	fails func(host string) error // may be nil
}

func (r runner) Run(ctx context.Context, t agent.Task, listening func(int) error) (agent.Figures, error) {
	if r.begun != nil {
		r.begun(t)
	}
	if t.Server() {
		if err := listening(4711); err != nil {
			return agent.Figures{}, err
		}
	} else if r.fails != nil {
		if err := r.fails(t.Host); err != nil {
			return agent.Figures{}, err
		}
	}
	select {
	case <-time.After(r.takes):
	case <-ctx.Done():
		return agent.Figures{}, ctx.Err()
	}
	if t.Test.Metric == wire.Bandwidth {
		return agent.Figures{Bits: 8e9}, nil
	}
	return agent.Figures{P50: 2000, P99: 3000, Max: 4000}, nil
}

func worker(name string, place roster.Place, r agent.Runner) *agent.Worker {
	return &agent.Worker{Runner: r, Hello: agent.Hello{Name: name, Program: "rdmaperf 1", Most: 2, Place: place}}
}

// startAgent starts a standing agent, and returns where it listens.
func startAgent(t *testing.T, program string, r agent.Runner) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveAgent(t, ln, program, r)
	return ln.Addr().String()
}

func serveAgent(t *testing.T, ln net.Listener, program string, r agent.Runner) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	known := token(t)
	c := agent.Config{Token: new(atomic.Pointer[agent.Token]), Worker: *worker("x", roster.Nowhere, r), Log: t.Logf}
	c.Token.Store(&known)
	c.Program = program
	ended := make(chan error)
	go func() { ended <- agent.Serve(ctx, ln, c) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

func token(t *testing.T) agent.Token {
	t.Helper()
	t.Setenv(agent.TokenEnv, "0123456789abcdef")
	tok, err := agent.ReadToken("")
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func config(t *testing.T) Config {
	t.Helper()
	p := wire.Params{Verb: wire.Write, Size: 64, Iters: 5, QPs: 1}
	lat := p
	p.Metric, lat.Metric = wire.Bandwidth, wire.Latency
	return Config{Order: "rounds", Bandwidth: p, Latency: lat, Token: token(t), Timeout: testutil.Patience,
		Patience: 10 * time.Second, Program: "rdmaperf 1"}
}

func standing(t *testing.T, hosts ...string) Config {
	t.Helper()
	c := config(t)
	var err error
	if c.Hosts, err = ParseHosts(hosts, 1); err != nil {
		t.Fatal(err)
	}
	c.Patience = 0
	return c
}

// TestRunWithoutOne: a host that cannot be reached, one of another release and one with another token are named and
// left out, and the others are measured. With a single one left there is nothing to measure.
func TestRunWithoutOne(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := ln.Addr().String()
	a, b := startAgent(t, "rdmaperf 1", runner{}), startAgent(t, "rdmaperf 1", runner{})
	old := startAgent(t, "rdmaperf 2", runner{})
	ln.Close() // now that no agent gets its port
	c := standing(t, a, gone, b, old)
	var left []string
	c.Lost = func(h LostHost) { left = append(left, h.Host) }
	res, err := Run(t.Context(), c)
	if err != nil || !slices.Equal(left, []string{gone, old}) || len(res.LostHosts) != 2 {
		t.Fatalf("%v, left out %q, lost %v, want %s and %s", err, left, res.LostHosts, gone, old)
	}
	if h := res.LostHosts[0]; h.Host != gone || h.Kind != Absent ||
		!strings.Contains(h.Error, "no rdmaperf serve is listening there") {
		t.Errorf("the one that is gone: %+v", h)
	}
	if h := res.LostHosts[1]; h.Host != old || h.Kind != LeftOut || h.Program != "rdmaperf 2" ||
		!strings.Contains(h.Error, `"rdmaperf 2"`) {
		t.Errorf("the one of another release: %+v", h)
	}
	measured := 0
	for _, p := range res.Pairs {
		if p.Bits == 8e9 && p.P50 == 2000 && p.P99 == 3000 && p.Error == "" {
			measured++
		} else if !p.Skipped || p.Error != "host "+gone+" is lost" && p.Error != "host "+old+" is lost" {
			t.Errorf("%+v", p)
		}
	}
	if measured != 2 || len(res.Pairs) != 12 {
		t.Errorf("%d of %d pairs have figures, want 2 of 12", measured, len(res.Pairs))
	}
	var text strings.Builder
	res.Text(&text, false)
	for _, want := range []string{"left out host " + old + `: it runs "rdmaperf 2"`, "absent host " + gone + ": "} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
	if _, err := Run(t.Context(), standing(t, a, gone)); err == nil || !strings.Contains(err.Error(), gone) {
		t.Errorf("one host: %v", err)
	}
	c = standing(t, a, b, gone)
	c.Strict = true
	if res, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), gone) || len(res.Pairs) > 0 {
		t.Errorf("strict: %v, %d pairs", err, len(res.Pairs))
	}
	c.Hosts = c.Hosts[:2]
	if res, err := Run(t.Context(), c); err != nil || len(res.Pairs) != 2 {
		t.Errorf("strict, and all there: %v, %d pairs", err, len(res.Pairs))
	}
	t.Setenv(agent.TokenEnv, "fedcba9876543210")
	if c.Token, err = agent.ReadToken(""); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "different token") {
		t.Errorf("another token: %v", err)
	}
}

// introduces is how often an agent writes until it has introduced itself.
const introduces = 3

// counted is the listener of an agent that has one connection: what it writes is counted, until it is closed.
type counted struct {
	net.Listener
	writes atomic.Int32
	closed atomic.Bool
}

type countedConn struct {
	net.Conn
	of *counted
}

func (l *counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return countedConn{c, l}, err
}

func (c countedConn) Write(b []byte) (int, error) { c.of.writes.Add(1); return c.Conn.Write(b) }
func (c countedConn) Close() error                { c.of.closed.Store(true); return c.Conn.Close() }

// TestRunLate: agents that came are part of the mesh, and send heartbeats, while another host is waited for, however
// long that takes.
func TestRunLate(t *testing.T) {
	var listeners [3]net.Listener
	for i := range listeners {
		var err error
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	a, b, late := &counted{Listener: listeners[0]}, &counted{Listener: listeners[1]}, listeners[2]
	serveAgent(t, a, "rdmaperf 1", runner{})
	serveAgent(t, b, "rdmaperf 1", runner{})
	c := standing(t, a.Addr().String(), b.Addr().String(), late.Addr().String())
	c.Beat = 4 * time.Second // the first one of an agent comes after one second
	defer late.Close()
	go func() {
		conn, err := late.Accept()
		if err != nil {
			return
		}
		defer conn.Close() // it is no agent
		for _, l := range []*counted{a, b} {
			for l.writes.Load() <= introduces && !l.closed.Load() {
				time.Sleep(10 * time.Millisecond)
			}
		}
	}()
	res, err := Run(t.Context(), c)
	if err != nil || len(res.LostHosts) != 1 || res.LostHosts[0].Kind != Absent || res.Failed() != 4 {
		t.Errorf("%v, lost %+v, %d of %d pairs failed", err, res.LostHosts, res.Failed(), len(res.Pairs))
	}
}

// TestRunTwice names an agent that is there by two names.
func TestRunTwice(t *testing.T) {
	a := startAgent(t, "rdmaperf 1", runner{})
	_, port, _ := net.SplitHostPort(a)
	_, err := Run(t.Context(), standing(t, a, "[::ffff:127.0.0.1]:"+port))
	if err == nil || !strings.Contains(err.Error(), "are the same agent") {
		t.Errorf("%v", err)
	}
}

// hall is a listener without sockets.
type hall struct {
	conns chan net.Conn
	once  sync.Once
	ended chan struct{}
}

func newHall() *hall { return &hall{conns: make(chan net.Conn), ended: make(chan struct{})} }

func (h *hall) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.ended:
		return nil, net.ErrClosed
	}
}

func (h *hall) Close() error   { h.once.Do(func() { close(h.ended) }); return nil }
func (h *hall) Addr() net.Addr { return &net.TCPAddr{} }

func (h *hall) dial() net.Conn {
	here, there := net.Pipe()
	select {
	case h.conns <- there:
	case <-h.ended:
		there.Close()
	}
	return here
}

// line is a connection that can go dark: what is sent is lost, and nothing comes.
type line struct {
	net.Conn
	dark chan struct{}
}

func (l *line) Write(b []byte) (int, error) {
	select {
	case <-l.dark:
		return len(b), nil
	default:
		return l.Conn.Write(b)
	}
}

// Close is not seen at the other end either.
func (l *line) Close() error {
	select {
	case <-l.dark:
		return l.SetDeadline(time.Unix(1, 0))
	default:
		return l.Conn.Close()
	}
}

func (l *line) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	select {
	case <-l.dark:
		if err == nil {
			return l.Read(b)
		}
	default:
	}
	return n, err
}

// party is agents that join a mesh, below synctest.
type party struct {
	t    *testing.T
	hall *hall
	c    Config
	wg   sync.WaitGroup
	mu   sync.Mutex
	ends map[string]error // of agents
}

func newParty(t *testing.T, c Config) *party {
	p := &party{t: t, hall: newHall(), c: c, ends: map[string]error{}}
	p.c.Listener = p.hall
	return p
}

func (p *party) join(ctx context.Context, w *agent.Worker, dark chan struct{}) {
	p.wg.Go(func() {
		err := agent.Attend(ctx, &line{p.hall.dial(), dark}, p.c.Token, w)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ends[w.Name] = err
	})
}

func lostHosts(r *Result) (list []string) {
	for _, l := range r.LostHosts {
		list = append(list, l.Kind+" "+l.Host)
	}
	slices.Sort(list)
	return list
}

// TestJoin: hosts that end, go dark, do not come or do not fit are named, each with its kind; all other pairs have
// figures, and a dark host costs the time of three heartbeats, not of each of its pairs.
func TestJoin(t *testing.T) {
	c := config(t)
	synctest.Test(t, func(t *testing.T) {
		c := c
		c.Launcher = roster.Place{Rank: -1, Nodes: "n[0-11]"}
		c.Timeout, c.Beat = 30*time.Second, 2*time.Second
		p := newParty(t, c)
		ctx := t.Context()
		dies, die := context.WithCancel(ctx)
		defer die()
		dark := make(chan struct{})
		var once sync.Once
		for i := range 8 {
			r := runner{takes: time.Second}
			switch i {
			case 3:
				r.begun = func(agent.Task) { once.Do(func() { time.AfterFunc(5*time.Second, func() { close(dark) }) }) }
				p.join(ctx, worker("n3", roster.Place{Rank: 3, Of: 12}, r), dark)
			case 4:
				r.begun = func(task agent.Task) {
					if !task.Server() {
						die()
					}
				}
				p.join(dies, worker("n4", roster.Place{Rank: 4, Of: 12}, r), nil)
			default:
				p.join(ctx, worker(fmt.Sprint("n", i), roster.Place{Rank: i, Of: 12}, r), nil)
			}
		}
		without := worker("n8", roster.Place{Rank: 8, Of: 12}, runner{})
		without.Problem = "no RDMA device"
		p.join(ctx, without, nil)
		old := worker("n9", roster.Place{Rank: 9, Of: 12}, runner{})
		old.Hello.Program = "rdmaperf 0"
		p.join(ctx, old, nil)
		twice := worker("x", roster.Place{Rank: 1, Of: 12}, runner{})
		go func() { time.Sleep(time.Second); p.join(ctx, twice, nil) }()
		began := time.Now()
		res, err := Run(ctx, p.c)
		spent := time.Since(began)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"absent n10", "absent n11", "left out n8", "left out n9", "left out x", "lost n3", "lost n4"}
		if got := lostHosts(res); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		for _, pair := range res.Pairs {
			lost := func(n string) bool { return !slices.Contains([]string{"n0", "n1", "n2", "n5", "n6", "n7"}, n) }
			if !lost(pair.From) && !lost(pair.To) && (pair.Error != "" || pair.Bits != 8e9 || pair.P50 != 2000) {
				t.Errorf("%+v", pair)
			}
			for _, n := range []string{pair.From, pair.To} {
				if pair.Error != "" && lost(n) && !strings.Contains(pair.Error, "host n") {
					t.Errorf("%+v does not name a host", pair)
				}
			}
		}
		// 10 s until the absent are given up, 14 rounds of 2 s, and three heartbeats of silence.
		if spent > 10*time.Second+14*2*time.Second+3*c.Beat+5*time.Second {
			t.Errorf("it took %v", spent)
		}
		for _, l := range res.LostHosts {
			if l.Host == "n3" && !strings.Contains(l.Error, "no heartbeat for 6s") ||
				l.Host == "n8" && !strings.Contains(l.Error, "no RDMA device") {
				t.Errorf("%+v", l)
			}
		}
		p.hall.Close()
		p.wg.Wait()
		for name, err := range p.ends {
			switch name {
			case "n3":
				if err == nil {
					t.Error("the dark agent ends well")
				}
			case "n8", "n9", "x":
				if err == nil {
					t.Errorf("%s does not learn why it is left out", name)
				}
			default:
				if err != nil {
					t.Errorf("agent %s: %v", name, err)
				}
			}
		}
	})
}

// TestSlow: an agent that works slowly is not lost.
func TestSlow(t *testing.T) {
	c := config(t)
	synctest.Test(t, func(t *testing.T) {
		c := c
		c.Timeout, c.Expect = 10*time.Minute, 3
		p := newParty(t, c)
		for i := range 3 {
			r := runner{takes: time.Duration(i) * time.Minute}
			p.join(t.Context(), worker(fmt.Sprint("n", i), roster.Nowhere, r), nil)
		}
		res, err := Run(t.Context(), p.c)
		if err != nil || len(res.LostHosts) > 0 || res.Failed() > 0 || len(res.Pairs) != 6 {
			t.Errorf("%v, lost %v, %d of %d pairs failed", err, res.LostHosts, res.Failed(), len(res.Pairs))
		}
		p.wg.Wait()
	})
}

// TestAsk: a pair that fails is that of two hosts which are there, or of one that is gone.
func TestAsk(t *testing.T) {
	c := config(t)
	synctest.Test(t, func(t *testing.T) {
		c := c
		c.Expect = 3
		p := newParty(t, c)
		dark := make(chan struct{})
		for i := range 3 {
			r := runner{takes: time.Second, fails: func(host string) error {
				if host == "n2" {
					once := sync.OnceFunc(func() { close(dark) })
					select {
					case <-dark:
					default:
						once()
					}
					return errors.New("connection timed out")
				}
				if host == "n1" && i == 0 {
					return errors.New("it is broken")
				}
				return nil
			}}
			if i == 2 {
				p.join(t.Context(), worker("n2", roster.Nowhere, runner{takes: time.Second}), dark)
				continue
			}
			p.join(t.Context(), worker(fmt.Sprint("n", i), roster.Nowhere, r), nil)
		}
		res, err := Run(t.Context(), p.c)
		if err != nil || !slices.Equal(lostHosts(res), []string{"lost n2"}) {
			t.Errorf("%v, lost %v", err, res.LostHosts)
		}
		for _, pair := range res.Pairs {
			want := "host n2 "
			switch pair.From + pair.To {
			case "n0n1":
				want = "it is broken"
			case "n1n0":
				want = ""
			case "n2n0", "n2n1":
				if pair.Error == "" {
					continue // it was done before
				}
			}
			if !strings.Contains(pair.Error, want) || (want == "") != (pair.Error == "") {
				t.Errorf("%+v, want %q", pair, want)
			}
		}
		p.wg.Wait()
	})
}

// TestToldToEnd: when the mesh is told to end, its agents may have been told a moment before or after. Nobody is
// blamed.
func TestToldToEnd(t *testing.T) {
	c := config(t)
	for _, before := range []time.Duration{-500 * time.Millisecond, 0, 500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			c := c
			c.Expect = 4
			p := newParty(t, c)
			ctx, cancel := context.WithCancelCause(t.Context())
			agents, kill := context.WithCancel(t.Context())
			for i := range 4 {
				p.join(agents, worker(fmt.Sprint("n", i), roster.Nowhere, runner{takes: time.Minute}), nil)
			}
			go func() {
				time.Sleep(150 * time.Second)
				time.AfterFunc(time.Second, func() { cancel(errors.New("signal")) })
				time.AfterFunc(time.Second+before, kill)
			}()
			res, err := Run(ctx, p.c)
			if err == nil || err.Error() != "signal" || len(res.LostHosts) > 0 {
				t.Errorf("agents end %v after the mesh: %v, lost %v", before, err, res.LostHosts)
			}
			good := 0
			for _, pair := range res.Pairs {
				if pair.Error == "" {
					good++
				} else if pair.Error != "interrupted" || !pair.Skipped {
					t.Errorf("%+v", pair)
				}
			}
			if good != 2 {
				t.Errorf("%d pairs have figures, want 2", good)
			}
			kill()
			p.wg.Wait()
		})
	}
}

// TestConfirm: of two slow hosts and one slow pair, those that are still slow alone are confirmed.
func TestConfirm(t *testing.T) {
	c := config(t)
	synctest.Test(t, func(t *testing.T) {
		c := c
		c.Expect, c.Confirm, c.Outliers = 12, true, Outliers{Deviations: 5, Share: 0.1}
		p := newParty(t, c)
		var alone atomic.Bool
		p.c.Begun = func(pass string, _, _ int) { alone.Store(pass == "confirm") }
		for i := range 12 {
			name := fmt.Sprint("n", i)
			p.join(t.Context(), worker(name, roster.Nowhere, speed(func(task agent.Task) (float64, func()) {
				switch {
				case i == 3: // always
					return 40e9, func() {}
				case i == 5 && !alone.Load(): // while other tests run
					return 30e9, func() {}
				case i == 7 && task.Host == "n8":
					return 20e9, func() {}
				}
				return 100e9, func() {}
			})), nil)
		}
		res, err := Run(t.Context(), p.c)
		if err != nil {
			t.Fatal(err)
		}
		confirmed := map[string]bool{}
		for _, s := range res.SlowHosts {
			if s.Confirmed == nil {
				t.Errorf("nobody looked at %+v again", s)
				continue
			}
			confirmed[s.Host] = *s.Confirmed
		}
		for _, s := range res.SlowPairs {
			if s.Confirmed != nil {
				confirmed[s.From+s.To] = *s.Confirmed
			}
		}
		for name, want := range map[string]bool{"n3": true, "n5": false, "n7n8": true} {
			if got, there := confirmed[name]; !there || got != want {
				t.Errorf("%s: suspected %v, confirmed %v, want %v", name, there, got, want)
			}
		}
		good, bad := res.Sort()
		if unknown := Names(res.Unknown); len(good) != 10 || !slices.Equal(bad, []string{"n3"}) ||
			!slices.Equal(unknown, []string{"n5"}) {
			t.Errorf("good %q, bad %q, unknown %q", good, bad, unknown)
		}
		if hosts, _ := res.Slow(); hosts != 1 {
			t.Errorf("%d slow hosts, want 1", hosts)
		}
		p.wg.Wait()
	})
}

// speed acts as tests with a bandwidth that depends on what runs.
type speed func(agent.Task) (bits float64, end func())

func (s speed) Run(ctx context.Context, t agent.Task, listening func(int) error) (f agent.Figures, err error) {
	if t.Server() {
		err = listening(4711)
	} else if t.Test.Metric == wire.Bandwidth {
		var end func()
		f.Bits, end = s(t)
		defer end()
	} else {
		f.P50 = 1000
	}
	time.Sleep(time.Second)
	return f, err
}

// TestLauncherFails: when the launcher has failed, nobody waits for agents any more; when it did well, they may still
// come, unless it fails later. While it works and nobody has come, there is no limit.
func TestLauncherFails(t *testing.T) {
	c := config(t)
	synctest.Test(t, func(t *testing.T) {
		fails := errors.New("exit status 1")
		for _, outcome := range [][]error{{nil}, {fails}, {nil, fails}} {
			c := c
			c.Expect = 2
			p := newParty(t, c)
			launched := make(chan error, 1)
			p.c.Launched = launched
			go func() {
				for i, err := range outcome {
					time.Sleep(time.Hour / time.Duration(1+3599*i)) // the second one after 1 s
					launched <- err
				}
			}()
			began := time.Now()
			res, err := Run(t.Context(), p.c)
			want := time.Hour + time.Duration(len(outcome)-1)*time.Second + settles
			if outcome[len(outcome)-1] == nil {
				want = time.Hour + c.Patience
			}
			if spent := time.Since(began); err == nil || spent != want || len(res.LostHosts) != 1 ||
				!strings.Contains(res.LostHosts[0].Error, "2 of 2 hosts did not come") ||
				!strings.Contains(res.Absences(), "2 hosts did not come") {
				t.Errorf("the launcher ends with %v: after %v, want %v; %v, lost %v", outcome, spent, want, err,
					res.LostHosts)
			}
		}
	})
}
