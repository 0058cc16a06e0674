package mesh

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/starve"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/internal/printable"
)

func (e ends) worst() *starve.Waits { return starve.Worse(e[0], e[1]) }

// busyError is a test that failed while the CPUs of an end were busy, which says nothing of the NICs.
type busyError struct {
	host string
	cpu  *starve.Waits
	err  error
}

func (e *busyError) Error() string {
	return fmt.Sprintf(nobodys+"the CPUs of %s were busy (%v): %v", e.host, e.cpu, e.err)
}

// nobodys begins the error of a pair that is held against nobody.
const nobodys = "unknown: "

// BlamesNobody reports whether the error of a pair says nothing about the pair.
func BlamesNobody(text string) bool { return strings.HasPrefix(text, nobodys) }

func (e *busyError) Unwrap() error { return e.err }

const (
	mostRepeats = 3               // of a test
	quick       = 5 * time.Second // for ends not to meet; then they try once more: a port may be taken
)

func (r *repeats) allowed() bool {
	if r.again.Add(1) <= r.tests.Load()+10 {
		return true
	}
	r.again.Add(-1)
	return false
}

// test runs one test between the NICs of two agents. If an end had to wait for CPUs, or the two did not meet, it is
// repeated; of the former, the least disturbed one counts. within bounds each, if it is above 0.
func (m *coordinator) test(ctx context.Context, from, to *member, r *PairResult, p wire.Params, within time.Duration,
) (best agent.Figures, err error) {
	var cpu ends
	m.repeats.tests.Add(1)
	for try := range 1 + mostRepeats {
		if try > 0 && (ctx.Err() != nil || !m.repeats.allowed()) {
			break
		}
		var now ends
		one, cancel := ctx, context.CancelFunc(func() {})
		if within > 0 {
			one, cancel = context.WithTimeoutCause(ctx, within, fmt.Errorf("no message arrives within %v", within))
		}
		began := time.Now()
		f, failed := m.once(one, from, to, r, p, &now)
		cancel()
		better := now.worst().Share() < cpu.worst().Share()
		if try == 0 || failed == nil && (err != nil || better) || failed != nil && err != nil && better {
			best, err, cpu = f, failed, now
		}
		if again := unmet(failed) && try == 0 && time.Since(began) < quick; !again && !m.starved(now.worst()) {
			break
		}
	}
	r.take(cpu)
	for i, w := range cpu {
		if m.starved(w) {
			r.busy[i] = true
			if host := []*member{from, to}[i]; err != nil && ctx.Err() == nil {
				return best, &busyError{host.Name, w, err}
			}
		}
	}
	return best, err
}

// starved reports whether CPUs kept a test waiting.
func (m *coordinator) starved(w *starve.Waits) bool { return m.CPUWait > 0 && w.Share() > m.CPUWait }

// take keeps how busy CPUs were, in the one of two tests where they were busier.
func (p *PairResult) take(cpu ends) {
	if have := (ends{p.FromCPU, p.ToCPU}); have.worst() == nil || cpu.worst().Share() > have.worst().Share() {
		p.FromCPU, p.ToCPU = cpu[0], cpu[1]
	}
}

// starved reports whether CPUs kept an end waiting: the figures are not compared with others.
func (p *PairResult) starved() bool { return p.busy != [2]bool{} }

// why is the reason why nobody knows whether a host is well.
func (b *BusyHost) why() string {
	return fmt.Sprintf("its CPUs were busy in %d of %d pairs, at worst: %v", b.Tests, b.Of, &b.Worst)
}

// busy enters the hosts whose CPUs were busy.
func (r *Result) busy() {
	of := map[string]*BusyHost{}
	for p := range lists.Each(r.Pairs) {
		for k, w := range (ends{p.FromCPU, p.ToCPU}) {
			name := []string{p.From, p.To}[k]
			if w == nil {
				continue
			}
			if of[name] == nil {
				of[name] = &BusyHost{Host: name}
			}
			b := of[name]
			if b.Of++; p.busy[k] {
				b.Tests++
			}
			b.Worst = *starve.Worse(&b.Worst, w)
		}
	}
	for _, h := range r.Hosts {
		if b := of[h]; b != nil && b.Tests > 0 && 2*b.Tests >= b.Of {
			r.BusyHosts = append(r.BusyHosts, *b)
		}
	}
}

// busyHosts writes them.
func (r *Result) busyHosts(w io.Writer) {
	listed(w, r.BusyHosts, worstPairs, "hosts had busy CPUs; all", func(b BusyHost) string {
		return fmt.Sprintf("nothing is known of host %s: %s", printable.Name(b.Host), b.why())
	})
}
