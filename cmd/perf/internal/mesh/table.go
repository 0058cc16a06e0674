package mesh

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// JSON writes the result as one object.
func (r *Result) JSON(w io.Writer) error { return printable.WriteJSON(w, r, "  ") }

// Text writes what is slow or lost, and the figures: of a small mesh, or where whole is set, a matrix with a row for
// each host that sends; else their distribution and the worst pairs.
func (r *Result) Text(w io.Writer, whole bool) {
	r.measured(w)
	for _, f := range Figures {
		if len(r.Hosts) <= mostMatrix || whole {
			r.matrix(w, f.Title+" in "+f.Unit+
				lists.When(f.Worse < 0, ", from the host of the row to that of the column")+
				lists.When(r.many, ", of the worst pair of NICs")+":", f)
		} else {
			r.distribution(w, f)
		}
		r.rails(w, f)
	}
	for h := range lists.Each(r.SlowHosts) {
		f := figureOf(h.Figure)
		what, all := cmp.Or(lists.When(h.NIC != "", "NIC"), "host"), cmp.Or(lists.When(r.many, "NICs"), "hosts")
		fmt.Fprintf(w, "slow %s %s, where it %s: median %.4g %s, that of the %s is %.4g%s\n", what,
			named(h.Host, h.NIC), h.Part, h.Value/f.Per, f.Unit, all, h.Median/f.Per, h.said(f.Per))
	}
	ofHost, shown := 0, 0
	for p := range lists.Each(r.SlowPairs) {
		if r.explains(p) {
			ofHost++
			continue
		}
		if shown++; shown > worstPairs && len(r.Hosts) > mostMatrix && !whole {
			continue
		}
		f := figureOf(p.Figure)
		fmt.Fprintf(w, "slow pair %s: %.4g %s, the median is %.4g%s\n", r.called(&p.Direction), p.Value/f.Per, f.Unit,
			p.Median/f.Per, p.said(f.Per))
	}
	if shown > worstPairs && len(r.Hosts) > mostMatrix && !whole {
		fmt.Fprintf(w, "%d slow figures of other pairs are in the JSON object\n", shown-worstPairs)
	}
	if ofHost > 0 {
		fmt.Fprintf(w, "%d slow figures of pairs belong to slow hosts\n", ofHost)
	}
	if h, p := r.HostsNotAgain, r.PairsNotAgain; h > 0 || p > 0 {
		fmt.Fprintf(w, "%d slow hosts and %d slow pairs were not measured again: only the worst %d of each were\n",
			h, p, mostAgain)
	}
	r.groups(w)
	r.dark(w)
	r.splits(w)
	r.busyHosts(w)
	r.stalled(w)
	r.lost(w)
}

// String describes it for people.
func (d DarkNIC) String() string {
	return fmt.Sprintf("%s reaches nobody: %s", named(d.Host, d.NIC), printable.Message(d.Error))
}

// dark writes the NICs that reach nobody, and those that were in no test.
func (r *Result) dark(w io.Writer) {
	listed(w, r.DarkNICs, namedHosts, "NICs reach nobody; all", DarkNIC.String)
	listed(w, r.UnmetNICs, worstPairs, "NICs were not measured; all", func(n HostNIC) string {
		return named(n.Host, n.NIC) + " was not measured: no host that it met has such a NIC"
	})
	listed(w, r.UnpairedNICs, worstPairs, "NICs have no partner on some hosts; all", UnpairedNIC.String)
}

const mostRails = 16

// rails writes the figures of each rail, if all pairs are of one.
func (r *Result) rails(w io.Writer, f Figure) {
	worst, values := map[string]*PairResult{}, map[string][]float64{}
	for p := range lists.Each(r.Pairs) {
		if x := f.Of(p); x > 0 {
			rail := p.FromNIC
			if values[rail] = append(values[rail], x); worst[rail] == nil || f.Worse*(x-f.Of(worst[rail])) > 0 {
				worst[rail] = p
			}
			if p.FromNIC != p.ToNIC {
				return
			}
		}
	}
	if len(values) < 2 {
		return
	}
	order := slices.SortedFunc(maps.Keys(values), roster.Compare)
	if n := len(order); n > mostRails {
		slices.SortStableFunc(order, func(a, b string) int {
			return cmp.Compare(-f.Worse*Median(values[a]), -f.Worse*Median(values[b]))
		})
		order = order[:mostRails]
		fmt.Fprintf(w, "The worst %d of %d rails:\n", mostRails, n)
	}
	for _, rail := range order {
		from, to := worst[rail].Ends()
		fmt.Fprintf(w, "  %s: median %.4g %s, worst %.4g, %s > %s\n", printable.Name(rail), Median(values[rail])/f.Per,
			f.Unit, f.Of(worst[rail])/f.Per, printable.Message(from), printable.Message(to))
	}
	fmt.Fprintln(w)
}

// said returns the outcome of another look.
func (a Again) said(per float64) string {
	if a.Confirmed == nil {
		return ""
	}
	return fmt.Sprintf("; alone %.4g, good ones %.4g: %sconfirmed", a.Value/per, a.Control/per,
		lists.When(!*a.Confirmed, "not "))
}

// groups writes which groups nothing but their figures shows, and what the mesh could have found.
func (r *Result) groups(w io.Writer) {
	for _, f := range Figures {
		least, blind := 0.0, 0
		for g := range lists.Each(r.Groups) {
			if g.Figure != f.Key {
				continue
			}
			if least = max(least, g.Shows); g.Shows == 0 {
				blind += g.NICs
			}
			if g.Hosts != nil {
				fmt.Fprintf(w, "%s: %d NICs are a group, compared among themselves: median %.4g %s, %s\n", f.Title,
					g.NICs, g.Median/f.Per, f.Unit, printable.Message(roster.Fold(g.Hosts)))
			}
		}
		change := cmp.Or(lists.When(f.Worse > 0, "a rise by"), "a loss of")
		if least > 0 {
			fmt.Fprintf(w, "%s: %s %.0f%% would have shown in 95%% of runs\n", f.Title, change, math.Ceil(100*least))
		}
		if blind > 0 {
			fmt.Fprintf(w, "%s: of %d NICs no loss would have shown: they have too few pairs or too few equals, or "+
				"their figures scatter too much\n", f.Title, blind)
		}
	}
}

// lost writes the hosts that are not there, many of one reason in one line.
func (r *Result) lost(w io.Writer) {
	same := map[[2]string][]string{}
	for _, l := range r.LostHosts {
		why := [2]string{l.Kind, l.Error}
		same[why] = append(same[why], l.Host)
	}
	for _, l := range r.LostHosts {
		why := [2]string{l.Kind, l.Error}
		if list := same[why]; len(list) <= namedHosts {
			fmt.Fprintln(w, l)
		} else if list[0] == l.Host {
			fmt.Fprintf(w, "%d %s hosts %s: %s\n", len(list), l.Kind, printable.Message(roster.Fold(list)),
				printable.Message(l.Error))
		}
	}
}

// distribution writes how the figures of many pairs are spread, and the worst of them.
func (r *Result) distribution(w io.Writer, f Figure) {
	list := slices.DeleteFunc(slices.Collect(lists.Each(r.Pairs)), func(p *PairResult) bool { return !(f.Of(p) > 0) })
	if len(list) == 0 {
		fmt.Fprintf(w, "%s: no pair has a figure\n\n", f.Title)
		return
	}
	slices.SortStableFunc(list, func(a, b *PairResult) int {
		return cmp.Compare(-f.Worse*f.Of(a), -f.Worse*f.Of(b)) // the worst first
	})
	at := func(share float64) float64 { return f.Of(list[int(share*float64(len(list)-1))]) / f.Per }
	fmt.Fprintf(w, "%s in %s of %d pairs of %d hosts: worst %.4g, 1%% worse than %.4g, 10%% worse than %.4g, "+
		"median %.4g, best %.4g\n", f.Title, f.Unit, len(list), len(r.Hosts), at(0), at(0.01), at(0.1), at(0.5), at(1))
	for _, p := range list[:min(worstPairs, len(list))] {
		fmt.Fprintf(w, "  %10.4g  %s\n", f.Of(p)/f.Per, r.called(&p.Direction))
	}
	fmt.Fprintln(w)
}

// before reports whether a result says more of two hosts than another one: a failure, then the worse figure.
func (p *PairResult) before(o *PairResult, f Figure) bool {
	rank := func(p *PairResult) int {
		switch {
		case f.Of(p) > 0:
			return 1
		case p.Skipped:
			return 0
		}
		return 2
	}
	a, b := rank(p), rank(o)
	return a > b || a == 1 && b == 1 && f.Worse*(f.Of(p)-f.Of(o)) > 0
}

// matrix has the worst pair of NICs of each two hosts.
func (r *Result) matrix(w io.Writer, title string, f Figure) {
	width := 4
	for _, h := range r.Hosts {
		width = max(width, len(printable.Name(h)))
	}
	fmt.Fprintf(w, "%s\n\n%4s %*s", title, "", width, "")
	for i := range r.Hosts {
		fmt.Fprintf(w, " %8s", fmt.Sprintf("[%d]", i))
	}
	fmt.Fprintln(w)
	at := map[[2]int]*PairResult{}
	for i := range r.Pairs {
		p, hosts := &r.Pairs[i], [2]int{r.Pairs[i].from, r.Pairs[i].to}
		if at[hosts] == nil || p.before(at[hosts], f) {
			at[hosts] = p
		}
	}
	for i, h := range r.Hosts {
		fmt.Fprintf(w, "%4s %-*s", fmt.Sprintf("[%d]", i), width, printable.Name(h))
		for j := range r.Hosts {
			cell := "-"
			if p := at[[2]int{i, j}]; p != nil {
				if cell = "failed"; f.Of(p) > 0 {
					cell = fmt.Sprintf("%.4g", f.Of(p)/f.Per)
				}
			}
			fmt.Fprintf(w, " %8s", cell)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}
