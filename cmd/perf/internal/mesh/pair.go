package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

const interrupted = "interrupted"

func (m *coordinator) result(from, to int, r rail) PairResult {
	a, b := m.hosts[from], m.hosts[to]
	return PairResult{From: a.Name, To: b.Name, FromNIC: a.nics.name(r.from), ToNIC: b.nics.name(r.to),
		from: from, to: to, fromNIC: max(r.from, 0), toNIC: max(r.to, 0), many: m.res.many}
}

// skipped is a pair of hosts that does not run, as one is lost.
func (m *coordinator) skipped(from, to int) (list []PairResult) {
	lost := m.hosts[from]
	if lost.ctx.Err() == nil {
		lost = m.hosts[to]
	}
	for _, rail := range m.rails(from, to) {
		if m.wanted(from, to, rail) {
			r := m.result(from, to, rail)
			r.Error, r.Skipped = "host "+lost.Name+" is lost", true
			list = append(list, r)
		}
	}
	return list
}

// wanted reports whether two NICs are measured in this pass.
func (m *coordinator) wanted(from, to int, r rail) bool {
	return m.only == nil || m.only[[2]end{{from, max(r.from, 0)}, {to, max(r.to, 0)}}]
}

// pair measures bandwidth and latency between the NICs of two hosts.
func (m *coordinator) pair(from, to int) []PairResult {
	return m.each(from, to, func(ctx context.Context, from, to *member, r *PairResult) error {
		f, err := m.test(ctx, from, to, r, m.Bandwidth, 0)
		if err == nil {
			r.Bits = f.Bits
			f, err = m.test(ctx, from, to, r, m.Latency, 0)
		}
		if err == nil {
			r.P50, r.P99, r.Max = f.P50, f.P99, f.Max
		}
		return err
	})
}

// each measures the NICs of two hosts, one rail after the other.
func (m *coordinator) each(at, other int, measure func(context.Context, *member, *member, *PairResult) error,
) (list []PairResult) {
	from, to := m.hosts[at], m.hosts[other]
	for _, rail := range m.rails(at, other) {
		if !m.wanted(at, other, rail) {
			continue
		}
		r := m.result(at, other, rail)
		switch dark := m.unreached(at, other, rail); {
		case m.ctx.Err() != nil:
			r.Error, r.Skipped = interrupted, true
		case from.ctx.Err() != nil || to.ctx.Err() != nil:
			list = append(list, m.skipped(at, other)[len(list):]...)
			return list
		case dark != "":
			r.Error, r.Skipped = dark, true
		default:
			if r.Error = m.apart(at, other, rail); r.Error != "" {
				r.aside = true
			} else {
				m.one(from, to, &r, measure)
			}
		}
		list = append(list, r)
	}
	return list
}

// one measures one rail.
func (m *coordinator) one(from, to *member, r *PairResult,
	measure func(context.Context, *member, *member, *PairResult) error) {
	ctx, cancel := context.WithCancelCause(m.ctx)
	defer cancel(nil)
	for _, h := range []*member{from, to} {
		defer context.AfterFunc(h.ctx, func() { cancel(errGone) })()
	}
	err := measure(ctx, from, to, r)
	if err == nil {
		return
	}
	r.Error = err.Error()
	busy := (*busyError)(nil)
	r.unmet, r.aside = unmet(err), errors.As(err, &busy)
	m.ask(from, to)
	for _, h := range []*member{from, to} {
		if h.ctx.Err() != nil {
			r.Error, r.aside = "host "+h.Name+" was lost during the test", true
		}
	}
	if m.ctx.Err() != nil {
		r.Error, r.Skipped = interrupted, true
	}
}

// unmet reports whether the ends of a test did not meet.
func unmet(err error) bool {
	meet := (*wire.MeetError)(nil)
	return errors.As(err, &meet)
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
			err := h.agent.Ask(ctx, m.answers())
			if errors.Is(err, agent.ErrMute) {
				h.lose(err)
				h.agent.Refuse(err.Error())
			}
			if err != nil && m.ctx.Err() == nil {
				select {
				case <-h.ctx.Done():
				case <-m.ctx.Done():
				}
			}
		})
	}
	wg.Wait()
}

// answers is within which time an agent that is there answers, though its host may be busy.
func (m *coordinator) answers() time.Duration { return max(3*m.Beat, mute) }

const mute = 10 * time.Second

// once runs one test between the NICs of two agents, once. cpu gets how busy the CPUs of both were.
func (m *coordinator) once(ctx context.Context, from, to *member, r *PairResult, p wire.Params, cpu *ends,
) (f agent.Figures, err error) {
	limit := m.Timeout + 2*p.Duration
	p.Secret = wire.NewSecret() // of this test alone
	late, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("agent %s: no server after %v", to.Name, limit))
	server, err := to.agent.Serve(late, r.ToNIC, p)
	cancel()
	defer func() { cpu[0], cpu[1] = f.CPU, server.CPU }()
	if err != nil {
		return f, fmt.Errorf("server: %w", err)
	}
	late, cancel = context.WithTimeoutCause(ctx, 4*limit, fmt.Errorf("agent %s: no result after %v", from.Name,
		4*limit))
	f, err = from.agent.Test(late, r.FromNIC, p, m.addresses(from, to), server.Port)
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

// address returns where a host finds another one, as the coordinator sees it.
func address(from, to *member) string {
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

// mostWays bounds the addresses that a host tries of another one.
const mostWays = 8

// addresses returns where a host may find another one: as the coordinator does, and at the addresses that it has, those
// of a common network first. An address that several hosts have, such as that of a bridge for containers, is left out.
func (m *coordinator) addresses(from, to *member) string {
	seen := address(from, to)
	list := []string{seen}
	if a, err := netip.ParseAddr(seen); err == nil && a.IsLoopback() {
		return seen
	}
	for _, p := range prefixes(to.agent.Addrs) {
		if a := p.Addr().String(); m.homes[a] == 1 && a != seen {
			list = append(list, a)
		}
	}
	networks := prefixes(from.agent.Addrs)
	far := func(text string) int {
		a, err := netip.ParseAddr(text)
		if err != nil || slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b string) int { return far(a) - far(b) })
	return strings.Join(list[:min(len(list), mostWays)], wire.Or)
}

// prefixes returns the addresses that an agent says it has.
func prefixes(addrs []string) (list []netip.Prefix) {
	for _, a := range addrs[:min(len(addrs), agent.MostAddresses)] {
		if p, err := netip.ParsePrefix(a); err == nil && p.Addr().Zone() == "" && !p.Addr().IsLoopback() {
			list = append(list, p)
		}
	}
	return list
}

// settleHomes counts how many hosts have each address.
func (m *coordinator) settleHomes() {
	m.homes = map[string]int{}
	for _, at := range m.present {
		for _, p := range prefixes(m.hosts[at].agent.Addrs) {
			m.homes[p.Addr().String()]++
		}
	}
}

func sameHost(a, b net.IP) bool { return a != nil && a.Equal(b) }
