package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/pureverbs/pureverbs/internal/printable"
)

// A column has the name and the value of a field of the JSON output; "" if it does not exist or is not known.
type column struct {
	name string
	cell func(g *jsonGID) string
}

const whyColumn = "why"

// columns lists all columns, in the order of the JSON output.
var columns = []column{
	{"device", func(g *jsonGID) string { return g.Device }},
	{"port", func(g *jsonGID) string { return strconv.Itoa(g.Port) }},
	{"index", func(g *jsonGID) string { return strconv.Itoa(g.Index) }},
	{"gid", func(g *jsonGID) string { return g.GID.String() }},
	{"ip", func(g *jsonGID) string { return known(g.IP) }},
	{"ip_version", func(g *jsonGID) string { return known(g.IPVersion) }},
	{"scope", func(g *jsonGID) string { return g.Scope.String() }},
	{"version", func(g *jsonGID) string { return g.Version.String() }},
	{"link_layer", func(g *jsonGID) string { return g.LinkLayer }},
	{"state", func(g *jsonGID) string { return g.State }},
	{"phys_state", func(g *jsonGID) string { return g.PhysState }},
	{"rate_bits_per_second", func(g *jsonGID) string { return strconv.FormatInt(g.Rate, 10) }},
	{"netdev", func(g *jsonGID) string { return known(g.Netdev) }},
	{"netdev_up", func(g *jsonGID) string { return known(g.NetdevUp) }},
	{"netdev_mtu_bytes", func(g *jsonGID) string { return known(g.NetdevMTU) }},
	{"netdev_vlan", func(g *jsonGID) string { return known(g.NetdevVLAN) }},
	{whyColumn, func(g *jsonGID) string { return g.why }},
}

// usualColumns are those of the table and of CSV, unless others are chosen.
var usualColumns = []string{"device", "port", "index", "gid", "ip", "version", "netdev", "state"}

func known[T any](v *T) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(*v)
}

func columnNames() []string {
	var names []string
	for _, c := range columns {
		names = append(names, c.name)
	}
	return names
}

func unknownColumn(name string) bool { return !slices.Contains(columnNames(), name) }

// cells returns the values of the chosen columns, a slice for each row.
func cells(rows []*row, chosen []string) [][]string {
	var why []string
	if slices.Contains(chosen, whyColumn) {
		why = reasons(rows)
	}
	var out [][]string
	for i, r := range rows {
		g := r.json()
		if why != nil {
			g.why = why[i]
		}
		var line []string
		for _, name := range chosen {
			c := columns[slices.IndexFunc(columns, func(c column) bool { return c.name == name })]
			line = append(line, c.cell(&g))
		}
		out = append(out, line)
	}
	return out
}

// writeTable prints a line for each GID.
func writeTable(w io.Writer, rows []*row, chosen []string) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, strings.ToUpper(strings.Join(chosen, "\t")))
	for _, line := range cells(rows, chosen) {
		for i, s := range line {
			switch {
			case s == "" && chosen[i] != whyColumn:
				line[i] = "-"
			case chosen[i] != whyColumn:
				line[i] = printable.Name(s)
			}
		}
		fmt.Fprintln(t, strings.Join(line, "\t"))
	}
	t.Flush()
}

// writeCSV prints comma-separated values, with the names of the columns in the first line, as RFC 4180 has them but for
// the ends of lines. Control characters for terminals are escaped.
func writeCSV(w io.Writer, rows []*row, chosen []string) {
	c := csv.NewWriter(w)
	c.Write(chosen) // into memory, as all of it: cannot fail
	for _, line := range cells(rows, chosen) {
		for i, s := range line {
			line[i] = printable.Message(s)
		}
		c.Write(line)
	}
	c.Flush()
}
