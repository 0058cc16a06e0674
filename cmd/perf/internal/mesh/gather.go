package mesh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

func (m *coordinator) member(h Host, a *agent.Remote) *member {
	mb := &member{Host: h, agent: a}
	mb.ctx, mb.lose = context.WithCancelCause(context.WithoutCancel(m.ctx))
	m.hosts = append(m.hosts, mb)
	return mb
}

// gather meets the agents. Those that do not come, or that are left out, are in the result.
func (m *coordinator) gather() error {
	var err error
	if m.Listener != nil {
		err = m.await()
	} else {
		err = m.call()
	}
	if err = cmp.Or(err, context.Cause(m.ctx)); err != nil {
		return err
	}
	m.strays()
	var wrong []error
	there := 0
	for _, h := range m.hosts {
		if h.agent == nil {
			continue
		}
		there++
		if need := m.Order.Together(len(m.hosts)); h.agent.Most < need {
			wrong = append(wrong, fmt.Errorf("host %s: it runs %d tests at a time, this mesh needs %d: give it "+
				"--max-clients %d, or the mesh --order rounds", h.Name, h.agent.Most, need, need))
		}
	}
	if wrong == nil && (there < 2 || m.Strict && len(m.res.LostHosts) > 0) {
		wrong = append(wrong, fmt.Errorf("%d hosts are there; %s", there,
			cmp.Or(lists.When(m.Strict, "with --strict-hosts all have to be"), "a mesh needs at least 2")))
		for _, l := range m.res.LostHosts {
			wrong = append(wrong, errors.New(l.String()))
		}
	}
	if wrong != nil {
		return errors.Join(wrong...)
	}
	if m.Lost != nil {
		for _, l := range m.res.LostHosts {
			m.Lost(l)
		}
	}
	return nil
}

// leave enters a host that is not measured.
func (m *coordinator) leave(l LostHost) { m.res.LostHosts = append(m.res.LostHosts, l) }

// call meets standing agents.
func (m *coordinator) call() error {
	agents, errs := make([]*agent.Remote, len(m.Hosts)), make([]error, len(m.Hosts))
	var wg sync.WaitGroup
	for i, h := range m.Hosts {
		wg.Go(func() {
			agents[i], errs[i] = agent.Meet(m.ctx, h.Addr, h.Port, m.Token, m.Timeout, m.Patience)
			if a := agents[i]; a != nil && m.fits(a) == nil {
				m.admit(a) // it does not wait for long, others may come late; enter sees what fails
			}
		})
	}
	wg.Wait()
	defer func() {
		for _, a := range agents { // those that were not entered
			if a != nil {
				a.Refuse("")
			}
		}
	}()
	if err := context.Cause(m.ctx); err != nil {
		there := lists.Count(errs, func(err *error) bool { return *err == nil })
		return fmt.Errorf("%w; %d of %d agents have answered", err, there, len(agents))
	}
	seen := map[string]string{}
	var twice []error
	for i, a := range agents {
		name := m.Hosts[i].Name
		if a == nil {
			continue
		}
		if first, ok := seen[a.ID]; ok {
			twice = append(twice, fmt.Errorf("hosts %s and %s are the same agent; remove one of them", first, name))
		}
		seen[a.ID] = name
	}
	if twice != nil {
		return errors.Join(twice...)
	}
	for i, h := range m.Hosts {
		a := agents[i]
		agents[i] = nil
		m.enter(h, a, errs[i])
	}
	return nil
}

// enter admits a host that came, or enters the reason why it is left out. It takes over the agent, if there is one.
func (m *coordinator) enter(h Host, a *agent.Remote, err error) {
	kind := LeftOut
	if err == nil {
		if err = m.fits(a); err != nil {
			a.Refuse(err.Error())
		} else if err = m.admit(a); err == nil {
			mb := m.member(h, a)
			m.watch.Go(func() {
				<-a.Ended()
				mb.lose(explain(a.Why()))
			})
			return
		} else { // it has just gone
			kind, err = Lost, explain(err)
			m.res.came++
		}
	}
	known := errors.Is(err, agent.ErrToken) || errors.Is(err, agent.ErrVersion)
	l := LostHost{Host: h.Name, Error: err.Error()}
	if r := (*agent.ReleaseError)(nil); errors.As(err, &r) {
		l.Program, known = r.Program, true
	}
	if a == nil && !known {
		if kind = Absent; isOwn(err) {
			err = &ownError{err}
			kind, l.Error = Unasked, err.Error()
		}
	}
	l.Kind = kind
	m.leave(l)
	m.member(h, nil).lose(err)
}

func (m *coordinator) admit(a *agent.Remote) error {
	a.Hears = m.hears()
	return a.Admit(m.link, m.Beat)
}

// fits returns why an agent is left out.
func (m *coordinator) fits(a *agent.Remote) error {
	if a.Program != m.Program {
		return &agent.ReleaseError{Program: a.Program}
	}
	if err := a.CheckNICs(); err != nil {
		return err
	}
	if a.Problem != "" {
		return fmt.Errorf("it cannot run tests: %.500s", a.Problem)
	}
	return nil
}

// explain says for people why an agent is gone.
func explain(err error) error {
	switch {
	case errors.Is(err, agent.ErrSilent):
		return fmt.Errorf("%w: it is down, cannot be reached, or stands still", err)
	case err == agent.ErrLeft, errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return errEnded
	}
	return err
}

// await has agents come to the listener, until all are there or no more come.
func (m *coordinator) await() error {
	came := make(chan arrival)
	// A busy host needs more than one second for all of them.
	strange := wire.Strangers{Most: m.mostStrange(), Time: 4 * settles}
	m.watch.Go(func() { m.accept(&strange, came) })
	launched := m.Launched
	var quiet <-chan time.Time // until the first one comes, a launcher that is at work decides
	if launched == nil {
		quiet = time.After(m.Patience)
	}
	defer func() { slices.SortStableFunc(m.hosts, before) }()
	defer m.noDoubt()
	tick := time.NewTicker(awaits)
	defer tick.Stop()
	for !m.roster.Complete() {
		select {
		case <-tick.C:
			if m.Awaited != nil {
				m.Awaited(m.roster.Awaited())
			}
		case a := <-came:
			if m.arrive(a) {
				quiet = time.After(m.Patience)
			}
		case err := <-launched:
			if quiet = time.After(m.Patience); err != nil {
				launched, quiet = nil, time.After(settles)
			}
		case <-quiet:
			if m.meeting.Load() > 0 && !m.patient { // some are connected: their meetings end, or say at which step
				m.patient, quiet = true, time.After(agent.StepLimit+settles)
				continue
			}
			m.missing()
			return nil
		case <-m.ctx.Done():
			return fmt.Errorf("%w; %s", context.Cause(m.ctx), m.roster.Awaited())
		}
	}
	return nil
}

// before orders hosts by rank, or else by name; 2 is before 10.
func before(a, b *member) int {
	if a.agent != nil && b.agent != nil && a.agent.Place.Rank != b.agent.Place.Rank {
		return cmp.Compare(a.agent.Place.Rank, b.agent.Place.Rank)
	}
	return roster.Compare(a.Name, b.Name)
}

// accept meets those that dial, also while the mesh is at work: they learn that they are late.
func (m *coordinator) accept(strange *wire.Strangers, came chan<- arrival) {
	for {
		c, err := m.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			m.fault.CompareAndSwap(nil, &ownError{err})
			time.Sleep(10 * time.Millisecond) // for example because no descriptor is free
			continue
		}
		strange.Admit(c)
		m.meeting.Add(1)
		m.watch.Go(func() {
			defer m.meeting.Add(-1)
			a, err := agent.Accept(m.link, c, m.Token)
			if !strange.Known(c) { // an agent comes again
				c.Close()
				return
			}
			select {
			case came <- arrival{a, c.RemoteAddr(), err}:
			case <-m.begun:
				if a != nil {
					a.Refuse("it came late: the mesh has begun without it")
				}
			}
		})
	}
}

// arrive enters an agent, and reports whether one came.
func (m *coordinator) arrive(a arrival) bool {
	if step := (*agent.StepError)(nil); errors.As(a.err, &step) {
		m.stopped(a.from, step)
	}
	if a.err != nil {
		if m.Stranger != nil && (errors.Is(a.err, agent.ErrToken) || errors.Is(a.err, agent.ErrFrame)) {
			m.Stranger(a.from, a.err)
		}
		return false
	}
	name, err := m.roster.Come(a.agent.Name, a.agent.Place)
	if m.doubt(a.agent, err) {
		return true
	}
	if err != nil {
		m.turnAway(a.agent, err)
		return false
	}
	m.enter(Host{Name: name}, a.agent, nil)
	return true
}

// turnAway refuses an agent that is no host of this mesh.
func (m *coordinator) turnAway(a *agent.Remote, why error) {
	a.Refuse(why.Error())
	m.leave(LostHost{Host: fmt.Sprintf("%.253s", a.Name), Kind: LeftOut, Error: why.Error(),
		Program: fmt.Sprintf("%.100s", a.Program), stray: true})
}

// strays names agents that the roster refused so that none is called as a host that came.
func (m *coordinator) strays() {
	taken := map[string]bool{}
	for i := range m.res.LostHosts {
		if l := &m.res.LostHosts[i]; l.stray {
			l.Host = m.roster.Apart(l.Host, func(name string) bool { return taken[name] })
			taken[l.Host] = true
		}
	}
}

// mostHalfway bounds the addresses whose agents did not get to the end of the meeting.
const mostHalfway = 100

// stopped notes how far an agent came, or a stranger.
func (m *coordinator) stopped(from net.Addr, err error) {
	host, _, bad := net.SplitHostPort(from.String())
	if bad != nil {
		host = from.String()
	}
	if len(m.reached) < mostHalfway || m.reached[host] != nil {
		m.reached[host] = err
	}
}

// steps describes how far those came who did not get to the end of the meeting. Nobody knows their names.
func (m *coordinator) steps() (text string) {
	froms := slices.Sorted(maps.Keys(m.reached))
	const most = 3
	for _, from := range froms[:min(len(froms), most)] {
		text += fmt.Sprintf("; from %s: %v", from, m.reached[from])
	}
	return text + lists.When(len(froms) > most, fmt.Sprintf("; likewise from %d other addresses", len(froms)-most))
}

// missing names those that did not come.
func (m *coordinator) missing() {
	steps := m.steps()
	own := m.fault.Load()
	for _, h := range m.roster.Missing() {
		l := LostHost{Host: h, Kind: Absent, Error: "it did not come" + steps}
		if own != nil {
			l.Kind, l.Error = Unasked, own.Error()
		}
		m.leave(l)
		m.member(Host{Name: l.Host}, nil).lose(errors.New(l.Error))
	}
	if own != nil && len(m.roster.Missing()) == 0 { // nobody knows of how many
		m.leave(LostHost{Host: unnamed, Kind: Unasked, Error: own.Error()})
	} else if err := m.roster.Unknown(); err != nil {
		m.leave(LostHost{Host: unnamed, Kind: Absent, Error: err.Error() + steps,
			more: m.roster.Short() - len(m.roster.Missing()) - 1})
	}
}
