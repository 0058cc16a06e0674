package mesh

import (
	"errors"
	"slices"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
)

// doubt keeps an agent in doubt, and reports whether it does. If more are in doubt for one number than have come for
// the other one, theirs holds.
func (m *coordinator) doubt(a *agent.Remote, err error) bool {
	var why *roster.RunError
	if !errors.As(err, &why) {
		return false
	}
	if m.fits(a) != nil || m.admit(a) != nil {
		return false
	}
	m.doubts = append(m.doubts, doubted{a, why})
	same := lists.Count(m.doubts, func(d *doubted) bool { return d.why.Of == why.Of })
	if same <= m.roster.Say(why.Others) {
		return true
	}
	gone := m.roster.Overrule(why.Of)
	m.hosts = slices.DeleteFunc(m.hosts, func(h *member) bool {
		if h.agent == nil || !slices.Contains(gone, h.Name) {
			return false
		}
		m.turnAway(h.agent, &roster.RunError{Rank: h.agent.Place.Rank, Of: h.agent.Place.Of, Others: why.Of})
		return true
	})
	all := m.doubts
	m.doubts = nil
	for _, right := range []bool{true, false} { // those first whose number holds
		for _, d := range all {
			if (d.why.Of == why.Of) == right {
				m.arrive(arrival{agent: d.agent})
			}
		}
	}
	return true
}

// noDoubt refuses those that are still in doubt.
func (m *coordinator) noDoubt() {
	for _, d := range m.doubts {
		m.turnAway(d.agent, d.why)
	}
	m.doubts = nil
}
