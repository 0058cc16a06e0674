package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

const interrupted = "interrupted"

func (m *coordinator) result(from, to int) PairResult {
	return PairResult{From: m.hosts[from].Name, To: m.hosts[to].Name, from: from, to: to}
}

// skipped is a pair that does not run, as a host is lost.
func (m *coordinator) skipped(from, to int) PairResult {
	r := m.result(from, to)
	lost := m.hosts[from]
	if lost.ctx.Err() == nil {
		lost = m.hosts[to]
	}
	r.Error, r.Skipped = "host "+lost.Name+" is lost", true
	return r
}

// pair measures one pair, bandwidth and latency.
func (m *coordinator) pair(at, other int) PairResult {
	r, from, to := m.result(at, other), m.hosts[at], m.hosts[other]
	ctx, cancel := context.WithCancelCause(m.ctx)
	defer cancel(nil)
	for _, h := range []*member{from, to} {
		defer context.AfterFunc(h.ctx, func() { cancel(errGone) })()
	}
	f, err := m.test(ctx, from, to, m.Bandwidth)
	if err == nil {
		r.Bits = f.Bits
		f, err = m.test(ctx, from, to, m.Latency)
	}
	if err == nil {
		r.P50, r.P99, r.Max = f.P50, f.P99, f.Max
		return r
	}
	r.Error = err.Error()
	m.ask(from, to)
	for _, h := range []*member{from, to} {
		if h.ctx.Err() != nil {
			r.Error = "host " + h.Name + " was lost during the test"
		}
	}
	if m.ctx.Err() != nil {
		r.Error, r.Skipped = interrupted, true
	}
	return r
}

var errGone = errors.New("a host is lost")

// ask waits until hosts answer, are lost, or the mesh is told to end: a test that failed may be the first sign of a
// host that is gone.
func (m *coordinator) ask(hosts ...*member) {
	var wg sync.WaitGroup
	for _, h := range hosts {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(m.ctx)
			defer cancel()
			defer context.AfterFunc(h.ctx, cancel)()
			if err := h.agent.Ask(ctx); err != nil && m.ctx.Err() == nil {
				select {
				case <-h.ctx.Done():
				case <-m.ctx.Done():
				}
			}
		})
	}
	wg.Wait()
}

// test runs one test between two agents.
func (m *coordinator) test(ctx context.Context, from, to *member, p wire.Params) (f agent.Figures, err error) {
	limit := m.Timeout + 2*p.Duration
	late, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("agent %s: no server after %v", to.Name, limit))
	server, err := to.agent.Serve(late, p)
	cancel()
	if err != nil {
		return f, fmt.Errorf("server: %w", err)
	}
	late, cancel = context.WithTimeoutCause(ctx, 4*limit, fmt.Errorf("agent %s: no result after %v", from.Name,
		4*limit))
	f, err = from.agent.Test(late, p, reach(from, to), server.Port)
	cancel()
	patience := serverEnds
	if ctx.Err() != nil {
		patience = 0
	} else if err != nil {
		patience = serverTells
	}
	said := server.Close(patience)
	if err != nil && said != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w; the server: %w", err, said)
	}
	return f, err
}

const (
	serverEnds  = 5 * time.Second        // once its client has
	serverTells = 200 * time.Millisecond // why its client failed, if it knows
)

// reach returns where a host finds another one.
func reach(from, to *member) string {
	if to.Addr != "" {
		return to.Addr // as it was given
	}
	if addr := to.agent.Addr; addr.IsLoopback() && !from.agent.Addr.IsLoopback() || sameHost(addr, to.agent.Here) {
		if from.agent.Here != nil && !from.agent.Addr.IsLoopback() {
			return from.agent.Here.String() // it is on the coordinator's host
		}
	}
	if to.agent.Addr == nil {
		return to.Name
	}
	return to.agent.Addr.String()
}

func sameHost(a, b net.IP) bool { return a != nil && a.Equal(b) }
