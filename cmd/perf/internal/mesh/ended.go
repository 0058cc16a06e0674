package mesh

import (
	"errors"
	"slices"
)

// errEnded is of a host whose agent closed its connection.
var errEnded = errors.New("its agent was stopped, or failed")

// without reports whether a host has a pair without its figures.
func (r *Result) without(host string) bool {
	return slices.ContainsFunc(r.Pairs, func(p PairResult) bool {
		return (p.From == host || p.To == host) && p.Error != ""
	})
}

// AllEnded reports whether the agents of all hosts that came ended, as they do if their launcher ends them. The result
// then blames none of these hosts. Call it only if the launcher failed.
func (r *Result) AllEnded() bool {
	ended := 0
	for _, l := range r.LostHosts {
		if l.Kind == Lost && l.Error == errEnded.Error() {
			ended++
		}
	}
	if ended == 0 || ended < r.came {
		return false
	}
	r.LostHosts = slices.DeleteFunc(r.LostHosts, func(l LostHost) bool { return l.Kind == Lost })
	return true
}
