package mesh

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// muteConn is the connection of an agent that hears nothing some time after it belongs to the mesh, and goes on with
// its heartbeats.
type muteConn struct {
	net.Conn
	since time.Time // when it hears no more
	deaf  bool      // what comes is not even read
}

func (m *muteConn) muted() bool { return !time.Now().Before(m.since) }

func (m *muteConn) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	if !m.muted() {
		return n, err
	}
	m.Conn.SetReadDeadline(time.Time{})
	if m.deaf {
		<-time.After(time.Hour)
		return 0, io.EOF
	}
	_, err = io.Copy(io.Discard, m.Conn)
	return 0, fmt.Errorf("the other end: %w", err)
}

func (m *muteConn) SetReadDeadline(t time.Time) error {
	if m.muted() {
		return nil
	}
	return m.Conn.SetReadDeadline(t)
}

// figures acts as tests with the figures of a liar.
type figures agent.Figures

func (f figures) Run(_ context.Context, t agent.Task, listening func(int) error) (agent.Figures, error) {
	if t.Server() {
		return agent.Figures{}, listening(4711)
	}
	return agent.Figures(f), nil
}

// TestHostileAgents: of six hosts, one has the token and does what no agent does. It costs little time, the pairs of
// the others have figures, and none of them is called slow, stalled or lost.
func TestHostileAgents(t *testing.T) {
	c := config(t)
	const limit = 30 * time.Second
	port := func(n int) agent.Runner { return ports(n) }
	soon := func() time.Time { return time.Now().Add(time.Second / 2) } // all meet in no time
	for _, tt := range []struct {
		name   string
		runner agent.Runner
		conn   func(net.Conn) net.Conn
		lost   string // why; empty: it stays
		pair   string // in the error of its pairs, where it is the client, until it is given up
		at     string // where it is the server
	}{
		{name: "never answers", conn: func(c net.Conn) net.Conn { return &muteConn{Conn: c, since: soon()} },
			lost: "it does not answer, but sends heartbeats"},
		{name: "reads nothing",
			conn: func(c net.Conn) net.Conn { return &muteConn{Conn: c, since: soon(), deaf: true} },
			lost: "its agent was stopped, or failed"},
		{name: "negative", runner: figures{Bits: -1, P50: -1}, pair: "a figure of -1"},
		{name: "huge", runner: figures{Bits: 1e300, P50: 1e300}, pair: "a figure of 1e+300"},
		{name: "huge, of another test", runner: figures{Bits: 1e9, P50: 5, Max: 1e300}, pair: "a figure of 1e+300"},
		{name: "no number", runner: figures{Bits: math.NaN(), P50: math.Inf(1)}, pair: "a figure of NaN"},
		{name: "none", runner: figures{}, pair: "no figure in its result"},
		{name: "of the wrong test", runner: figures{P50: 3}, pair: "no figure in its result"},
		{name: "port 0", runner: port(0), at: "a server without a port"},
		{name: "port 70000", runner: port(70000), at: "a server without a port"},
		{name: "many ports", runner: port(-1)},
		{name: "a long error", runner: port(-2), pair: "xxxx", at: "xxxx"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := c
			c.Expect, c.Timeout, c.Stall, c.Outliers = 6, limit, time.Second, Outliers{Deviations: 5, Share: 0.1}
			p := newParty(t, c)
			for i := range 6 {
				w := worker(fmt.Sprint("n", i), roster.Place{Rank: i, Of: 6}, runner{takes: time.Second})
				change := func(c net.Conn) net.Conn { return c }
				if i == 5 && tt.conn != nil {
					change = tt.conn
				}
				if i == 5 && tt.runner != nil {
					w.Runner = tt.runner
				}
				p.wg.Go(func() { agent.Attend(t.Context(), change(p.hall.dial()), p.c.Token, w) })
			}
			began := time.Now()
			res, err := Run(t.Context(), p.c)
			if spent := time.Since(began); err != nil || spent > 20*time.Second+2*limit {
				t.Errorf("%s: %v, after %v", tt.name, err, spent)
			}
			for _, pair := range res.Pairs {
				switch {
				case pair.From != "n5" && pair.To != "n5":
					if pair.Error != "" || pair.Bits != 8e9 {
						t.Errorf("%s: %+v", tt.name, pair)
					}
				case tt.lost != "", pair.Error == "n5 reaches nobody":
				case pair.From == "n5" && !strings.Contains(pair.Error, tt.pair),
					pair.To == "n5" && !strings.Contains(pair.Error, tt.at):
					t.Errorf("%s: %+v", tt.name, pair)
				}
				if len(pair.Error) > 5000 {
					t.Errorf("%s: an error of %d bytes", tt.name, len(pair.Error))
				}
			}
			for _, l := range res.LostHosts {
				if l.Host != "n5" || l.Kind != Lost || tt.lost == "" || !strings.Contains(l.Error, tt.lost) {
					t.Errorf("%s: %+v", tt.name, l)
				}
			}
			if (tt.lost != "") != (len(res.LostHosts) == 1) || len(res.SlowHosts) > 0 || len(res.StalledPairs) > 0 ||
				slices.ContainsFunc(res.StalledHosts, func(h StalledHost) bool { return h.Host != "n5" }) {
				t.Errorf("%s: lost %v, slow %v, stalled %v", tt.name, res.LostHosts, res.SlowHosts, res.Stalls)
			}
			time.Sleep(2 * time.Hour) // those that are deaf end
			p.wg.Wait()
		})
	}
}

// ports acts as servers with ports that cannot be, or as tests that say much.
type ports int

func (n ports) Run(ctx context.Context, t agent.Task, listening func(int) error) (f agent.Figures, err error) {
	switch {
	case n == -2:
		return f, fmt.Errorf("%s", strings.Repeat("x", 1<<20))
	case t.Server() && n == -1:
		for i := range 5000 {
			listening(i%65535 + 1)
		}
	case t.Server():
		listening(int(n))
	case t.Test.Metric == wire.Bandwidth:
		f.Bits = 8e9
	default:
		f.P50 = 2000
	}
	return f, nil
}

// TestLoris: honest agents get in although more connections than the listener keeps send a byte a second, and come
// again whenever they are closed.
func TestLoris(t *testing.T) {
	c := config(t)
	synctest.Test(t, func(t *testing.T) {
		c := c
		c.Expect = 4
		p := newParty(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		for range mostStrange + 500 {
			p.wg.Go(func() {
				for ctx.Err() == nil {
					conn := p.hall.dial()
					stop := context.AfterFunc(ctx, func() { conn.Close() })
					go io.Copy(io.Discard, conn) // the greeting
					for {
						if _, err := conn.Write([]byte{0}); err != nil {
							break
						}
						time.Sleep(time.Second)
					}
					stop()
					conn.Close()
					time.Sleep(time.Millisecond) // so that time goes on
				}
			})
		}
		time.AfterFunc(time.Second, func() {
			for i := range 4 {
				w := worker(fmt.Sprint("n", i), roster.Place{Rank: i, Of: 4}, runner{takes: time.Second})
				p.join(t.Context(), w, nil)
			}
		})
		began := time.Now()
		res, err := Run(t.Context(), p.c)
		if spent := time.Since(began); err != nil || len(res.LostHosts) > 0 || res.Failed() > 0 ||
			len(res.Pairs) != 12 || spent > time.Minute {
			t.Errorf("%v, lost %v, %d of %d pairs failed, after %v", err, res.LostHosts, res.Failed(), len(res.Pairs),
				spent)
		}
		cancel()
		p.wg.Wait()
	})
}
