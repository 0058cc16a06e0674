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

const (
	serverEnds  = 5 * time.Second        // once its client has
	serverTells = 200 * time.Millisecond // why its client failed, if it knows
)

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

// mostWays bounds the addresses that a host tries of another one.
const mostWays = 8

// prefixes returns the addresses that an agent says it has.
func prefixes(addrs []string) (list []netip.Prefix) {
	for _, a := range addrs[:min(len(addrs), agent.MostAddresses)] {
		if p, err := netip.ParsePrefix(a); err == nil && p.Addr().Zone() == "" && !p.Addr().IsLoopback() {
			list = append(list, p)
		}
	}
	return list
}

func sameHost(a, b net.IP) bool { return a != nil && a.Equal(b) }

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
