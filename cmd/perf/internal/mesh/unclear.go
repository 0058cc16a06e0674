package mesh

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// String describes it for people.
func (s Split) String() string {
	var sides []string
	for _, list := range s.Sides {
		nics := lists.Groups(list, func(n HostNIC) string { return n.NIC })
		slices.SortFunc(nics, func(a, b []HostNIC) int { return roster.Compare(a[0].NIC, b[0].NIC) })
		words := lists.Map(nics, func(l []HostNIC) string {
			hosts := printable.Message(roster.Fold(lists.Map(l, func(n HostNIC) string { return n.Host })))
			if l[0].NIC == "" {
				return hosts
			}
			return hosts + " " + printable.Name(l[0].NIC)
		})
		sides = append(sides, fmt.Sprintf("%d NICs (%s)", len(list), strings.Join(words, ", ")))
	}
	return fmt.Sprintf("the fabric is split: no message passes between %s: %s", strings.Join(sides, " and "),
		printable.Message(s.Error))
}

// untested is the reason why nothing is known of a NIC.
func (d *DarkNIC) untested() string {
	return "its tests cannot begin: " + printable.Message(d.Error)
}

// splits writes the parts of a fabric, and what could not be tested.
func (r *Result) splits(w io.Writer) {
	listed(w, r.Untested, namedHosts, "NICs cannot be tested; all", func(d DarkNIC) string {
		return fmt.Sprintf("nothing is known of %s: %s", named(d.Host, d.NIC), d.untested())
	})
	for _, s := range r.Splits {
		fmt.Fprintln(w, s)
	}
}

// unclear describes for how many hosts nobody knows what is wrong.
func (r *Result) unclear() string {
	said := ""
	if len(r.Splits) > 0 {
		said = fmt.Sprintf("the fabric is split in %d sides, ", len(r.Splits[0].Sides))
	}
	if n := len(r.BusyHosts); n > 0 {
		said += fmt.Sprintf("%d hosts had busy CPUs, ", n)
	}
	if n := len(r.Untested); n > 0 {
		said += fmt.Sprintf("%d NICs cannot be tested, ", n)
	}
	n := 0
	for _, l := range r.LostHosts {
		if l.Kind == Unasked {
			n += 1 + l.more
		}
	}
	if n > 0 {
		said += fmt.Sprintf("%d hosts were not asked because rdmaperf mesh itself failed, ", n)
	}
	return said
}

// unclearHosts returns the hosts that may be well or not, with the reason why nobody knows.
func (r *Result) unclearHosts() map[string]string {
	why := map[string]string{}
	for _, l := range r.LostHosts {
		if l.Kind == Unasked {
			why[l.Host] = l.Error
		}
	}
	for _, n := range r.Untested {
		why[n.Host] = n.untested()
	}
	for i := range r.BusyHosts {
		why[r.BusyHosts[i].Host] = r.BusyHosts[i].why()
	}
	for _, s := range r.Splits {
		for _, side := range s.Sides {
			for _, n := range side {
				why[n.Host] = fmt.Sprintf("the fabric is split, and it reaches %d of %d NICs", len(side)-1, s.size()-1)
			}
		}
	}
	return why
}

func (s *Split) size() (n int) {
	for _, side := range s.Sides {
		n += len(side)
	}
	return n
}

// Absences describes how many hosts are not in the figures, or not in all of them.
func (r *Result) Absences() string {
	var n [3]int
	for _, l := range r.LostHosts {
		if l.Kind == Unasked {
			continue
		}
		n[max(0, slices.Index([]string{Absent, LeftOut, Lost}, l.Kind))] += 1 + l.more
	}
	said := fmt.Sprintf("%d hosts were lost", n[2])
	if n[0] > 0 {
		said = fmt.Sprintf("%d hosts did not come, %s", n[0], said)
	}
	if n := len(r.DarkNICs); n > 0 {
		what := "NICs reach"
		if n == 1 {
			what = "NIC reaches"
		}
		said = fmt.Sprintf("%d %s nobody, %s", n, what, said)
	}
	if n[1] > 0 {
		said = fmt.Sprintf("%d hosts were left out, %s", n[1], said)
	}
	return r.unclear() + said
}
