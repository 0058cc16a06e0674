package report

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plot"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// mostTraits is how many differences a name has.
const mostTraits = 3

// traits describe a run, what matters most first. The words must be understood without their place.
func (n Named) traits() []string {
	t, l := &n.Test, cmp.Or(n.Local, &sideDoc{})
	host, peer := cmp.Or(n.Host, &Host{}), cmp.Or(n.Peer, &peerDoc{}).Address
	if i := strings.LastIndexByte(peer, ':'); i > 0 && strings.Count(peer, ":") == 1 {
		peer = peer[:i]
	}
	count := func(k int, of string) string {
		return lists.When(k > 0, fmt.Sprint(k, " ", of)+lists.When(k > 1, "s"))
	}
	depth := func(of string, k int) string { return lists.When(k > 0, fmt.Sprintf("%s %d", of, k)) }
	prefixed := func(prefix, s string) string { return lists.When(s != "", prefix+s) }
	return []string{strings.TrimSpace(t.Verb + " " + t.Metric), t.Connection,
		cmp.Or(lists.When(t.Bidirectional, "both directions"), "one direction"), count(t.QPs, "queue pair"),
		count(t.Threads, "thread"), depth("send depth", t.TxDepth), depth("post list", t.PostList),
		cmp.Or(lists.When(t.Events, "events"), "polling"), t.Memory, cmp.Or(lists.When(t.RDMACM, "rdma_cm"), "sockets"),
		l.Device, depth("MTU", l.MTU), prefixed("data path ", l.DataPath), prefixed("firmware ", l.Firmware),
		prefixed("on ", host.Name), prefixed("to ", peer), prefixed("Linux ", host.Kernel), n.Program}
}

// nameRuns gives runs the traits in which they differ.
func nameRuns(runs []Named) {
	var all [][]string
	for _, r := range runs {
		if r.Mesh == nil {
			all = append(all, r.traits())
		}
	}
	for i := range runs {
		if runs[i].Mesh != nil {
			continue
		}
		var differ []string
		for k, own := range runs[i].traits() {
			same := true
			for _, other := range all {
				same = same && other[k] == own
			}
			if own != "" && !same && len(differ) < mostTraits {
				differ = append(differ, cut(printable.Message(own), longestText/2))
			}
		}
		runs[i].differ = strings.Join(differ, ", ")
	}
}

// Label names a run by its file, and by what it has that other runs of the page have not.
func (n Named) Label() string {
	return cut(printable.Message(n.Name), 2*longestText) + lists.When(n.differ != "", " ("+n.differ+")")
}

// lineRate is the rate of a run's links in Gb/s, of both directions if the run's figures are; 0 if it is not known. A
// device of software has none.
func (n Named) lineRate() float64 {
	if n.Local == nil || n.Local.Software {
		return 0
	}
	rate := n.Local.Rate
	if len(n.Rails) > 0 {
		rate = 0
		for _, r := range n.Rails {
			if r.Local == nil || r.Local.Rate <= 0 {
				return 0
			}
			rate += r.Local.Rate
		}
	}
	for _, twice := range []bool{n.Test.DualPort, n.Test.Bidirectional} {
		if twice {
			rate *= 2
		}
	}
	return rate / 1e9
}

// lineRates are the rates of all runs as lines for a chart.
func lineRates(runs []Named) []plot.Line {
	type kind struct {
		rate float64
		both bool
	}
	seen := map[kind]bool{}
	var out []plot.Line
	for _, r := range runs {
		k := kind{r.lineRate(), r.Test.Bidirectional}
		if r.Mesh != nil || !plot.Log.Fits(k.rate) || seen[k] || r.Latency() {
			continue
		}
		seen[k] = true
		out = append(out, plot.Line{Value: k.rate, Name: "line rate " + plot.Number(k.rate) + " Gb/s" +
			lists.When(k.both, ", both directions")})
	}
	return out
}
