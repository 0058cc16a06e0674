package mesh

import (
	"fmt"
	"io"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/internal/printable"
)

const (
	mostMatrix = 32 // hosts; larger matrices are for files
	worstPairs = 10
	namedHosts = 20 // lost for one reason, one line each
)

// named is how people read a NIC of a host, or a host.
func named(host, nic string) string {
	return printable.Name(host) + lists.When(nic != "", " "+printable.Name(nic))
}

// called is how people read a pair: with its NICs, if hosts have several.
func (r *Result) called(d *Direction) string {
	return named(d.From, lists.When(r.many, d.FromNIC)) + " > " + named(d.To, lists.When(r.many, d.ToNIC))
}

// listed writes a line for each of the first ones of a list, and one for the rest, if those are several.
func listed[T any](w io.Writer, list []T, most int, rest string, line func(T) string) {
	for i, e := range list {
		if i == most && len(list) > most+1 {
			fmt.Fprintf(w, "%d more %s are in the JSON object\n", len(list)-i, rest)
			return
		}
		fmt.Fprintln(w, line(e))
	}
}
