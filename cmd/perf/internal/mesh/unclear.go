package mesh

import (
	"cmp"
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
	return said + several("%d hosts had busy CPUs, ", len(r.BusyHosts)) +
		several("%d NICs cannot be tested, ", len(r.Untested)) +
		several("%d hosts were not asked because rdmaperf mesh itself failed, ", r.missing(Unasked))
}

// several describes how many there are of something, if there are any.
func several(format string, n int) string { return lists.When(n > 0, fmt.Sprintf(format, n)) }

// missing returns how many hosts are lost in a way.
func (r *Result) missing(kind string) (n int) {
	for _, l := range r.LostHosts {
		n += lists.When(l.Kind == kind, 1+l.more)
	}
	return n
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
		others := len(slices.Concat(s.Sides...)) - 1
		for _, side := range s.Sides {
			for _, n := range side {
				why[n.Host] = fmt.Sprintf("the fabric is split, and it reaches %d of %d NICs", len(side)-1, others)
			}
		}
	}
	return why
}

// Absences describes how many hosts are not in the figures, or not in all of them.
func (r *Result) Absences() string {
	dark := len(r.DarkNICs)
	return r.unclear() + several("%d hosts were left out, ", r.missing(LeftOut)) +
		several(cmp.Or(lists.When(dark == 1, "%d NIC reaches nobody, "), "%d NICs reach nobody, "), dark) +
		several("%d hosts did not come, ", r.missing(Absent)) + fmt.Sprintf("%d hosts were lost", r.missing(Lost))
}
