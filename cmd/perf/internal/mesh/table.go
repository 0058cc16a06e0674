package mesh

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/pureverbs/pureverbs/internal/printable"
)

// JSON writes the result as one object.
func (r *Result) JSON(w io.Writer) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", printable.JSON(b))
	return err
}

// Text writes two matrices, a row for each host that sends, and what is slow or lost.
func (r *Result) Text(w io.Writer) {
	r.matrix(w, "Bandwidth in Gb/s, from the host of the row to that of the column:", func(p *PairResult) float64 {
		return p.Bits / 1e9
	})
	r.matrix(w, "Median latency in us:", func(p *PairResult) float64 { return p.P50 / 1e3 })
	units := map[string]string{figuresOfPair[0].name: "Gb/s", figuresOfPair[1].name: "us"}
	per := map[string]float64{figuresOfPair[0].name: 1e9, figuresOfPair[1].name: 1e3}
	for _, s := range r.SlowHosts {
		fmt.Fprintf(w, "slow host %s, where it %s: median %.4g %s, that of the hosts is %.4g\n",
			printable.Name(s.Host), s.Part, s.Value/per[s.Figure], units[s.Figure], s.Median/per[s.Figure])
	}
	ofHost := 0
	for _, s := range r.SlowPairs {
		if slices.ContainsFunc(r.SlowHosts, func(h SlowHost) bool { return h.Host == s.From || h.Host == s.To }) {
			ofHost++
			continue
		}
		fmt.Fprintf(w, "slow pair %s > %s: %.4g %s, the median is %.4g\n", printable.Name(s.From), printable.Name(s.To),
			s.Value/per[s.Figure], units[s.Figure], s.Median/per[s.Figure])
	}
	if ofHost > 0 {
		fmt.Fprintf(w, "%d slow figures of pairs belong to slow hosts\n", ofHost)
	}
	for _, l := range r.LostHosts {
		fmt.Fprintln(w, l)
	}
}

func (r *Result) matrix(w io.Writer, title string, value func(*PairResult) float64) {
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
		at[[2]int{r.Pairs[i].from, r.Pairs[i].to}] = &r.Pairs[i]
	}
	for i, h := range r.Hosts {
		fmt.Fprintf(w, "%4s %-*s", fmt.Sprintf("[%d]", i), width, printable.Name(h))
		for j := range r.Hosts {
			cell := "-"
			if p := at[[2]int{i, j}]; p != nil {
				if cell = "failed"; value(p) > 0 {
					cell = fmt.Sprintf("%.4g", value(p))
				}
			}
			fmt.Fprintf(w, " %8s", cell)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}
