package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/pureverbs/pureverbs/hostfacts"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// writeMlnx prints the output of the Mellanox script, and returns
// the number of GIDs. Devices are in the order of the command line, everything
// else in the order of ls. An entry that cannot be read still has a row.
func writeMlnx(w io.Writer, c *config, devs []hostfacts.Device) int {
	fmt.Fprint(w, "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n")
	fmt.Fprint(w, "---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---\n")
	if len(c.devices) == 0 {
		slices.SortFunc(devs, func(a, b hostfacts.Device) int { return strings.Compare(a.Name, b.Name) })
	}
	n := c.namespace()
	found := 0
	for _, d := range devs {
		ports := slices.Clone(d.Ports)
		slices.SortFunc(ports, func(a, b hostfacts.Port) int { return compareDecimal(a.Number, b.Number) })
		for _, p := range ports {
			if !c.filter.port(p) {
				continue
			}
			entries, _ := n.GIDs(&d, p.Number)
			slices.SortFunc(entries, func(a, b hostfacts.GIDEntry) int { return compareDecimal(a.Index, b.Index) })
			for _, e := range entries {
				r := newRow(n, p, e)
				if e.Text == "fe80:0000:0000:0000:0000:0000:0000:0000" || !c.filter.row(r, n) || e.Err != nil &&
					(c.filter.v4 || c.filter.v6) {
					continue
				}
				// Every GID whose first group is zero counts as IPv4 there.
				ip := ""
				if e.Err == nil && strings.HasPrefix(e.Text, "0000:") {
					ip = fmt.Sprintf("%d.%d.%d.%d  ", e.GID[12], e.GID[13], e.GID[14], e.GID[15])
				} else {
					ip = "\t"
				}
				// InfiniBand has the type "IB/RoCE v1", so it is v1 there.
				ver := ""
				if i := strings.IndexAny(e.TypeText, "vV"); i >= 0 {
					ver = e.TypeText[i:]
				}
				fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\t%s\n",
					printable.Name(d.Name), p.Number, e.Index, printable.Name(e.Text), ip, printable.Name(ver),
					printable.Name(e.Netdev))
				found++
			}
		}
	}
	fmt.Fprintf(w, "n_gids_found=%d\n", found)
	return found
}

// compareDecimal orders numbers as ls does their names: 0, 1, 10, 11, 2.
func compareDecimal(a, b int) int { return strings.Compare(strconv.Itoa(a), strconv.Itoa(b)) }

// The JSON output. Fields may be added within a schema version, never changed
// or taken away. null means that a value does not exist or is not known.
type (
	output struct {
		Tool          string             `json:"tool"`
		SchemaVersion int                `json:"schema_version"`
		GIDsFound     int                `json:"n_gids_found"`
		GIDs          []jsonGID          `json:"gids"`
		Devices       []hostfacts.Device `json:"devices"`
	}
	jsonGID struct {
		Device     string            `json:"device"`
		Port       int               `json:"port"`
		Index      int               `json:"index"`
		GID        hostfacts.GID     `json:"gid"`
		IP         *string           `json:"ip"`
		IPVersion  *int              `json:"ip_version"`
		Scope      hostfacts.Scope   `json:"scope"`
		Version    hostfacts.GIDType `json:"version"`
		LinkLayer  string            `json:"link_layer"`
		State      string            `json:"state"`
		PhysState  string            `json:"phys_state"`
		Rate       int64             `json:"rate_bits_per_second"`
		Netdev     *string           `json:"netdev"`
		NetdevUp   *bool             `json:"netdev_up"`
		NetdevMTU  *int              `json:"netdev_mtu_bytes"`
		NetdevVLAN *bool             `json:"netdev_vlan"`
	}
)

func (r *row) json() jsonGID {
	j := jsonGID{
		Device: r.entry.Device, Port: r.port.Number, Index: r.entry.Index, GID: r.entry.GID,
		Scope: r.entry.Scope, Version: r.entry.Type, LinkLayer: string(r.port.LinkLayer),
		State: r.port.StateName, PhysState: r.port.PhysStateName, Rate: r.port.RateBits,
	}
	if r.entry.IsIP() {
		ip, v := r.entry.GID.Addr().String(), 6
		if r.isIPv4() {
			v = 4
		}
		j.IP, j.IPVersion = &ip, &v
	}
	if r.entry.Netdev != "" {
		j.Netdev = &r.entry.Netdev
	}
	if n := r.netdev; n != nil {
		up := n.Up()
		j.NetdevUp, j.NetdevMTU, j.NetdevVLAN = &up, &n.MTU, &n.VLAN
	}
	return j
}

func writeJSON(w io.Writer, l *listing) {
	o := output{Tool: "show_gids", SchemaVersion: 1, GIDsFound: len(l.rows), GIDs: []jsonGID{}, Devices: l.devices}
	for _, r := range l.rows {
		o.GIDs = append(o.GIDs, r.json())
	}
	if o.Devices == nil {
		o.Devices = []hostfacts.Device{}
	}
	printable.WriteJSON(w, o, "  ")
}

// writeBest prints the index of the GID to use, or that GID as JSON.
// failed means that devices could not be read.
func writeBest(stdout, stderr io.Writer, c *config, l *listing, failed bool) int {
	list := entries(l.rows)
	best := hostfacts.BestGID(list)
	code, problem := exitOK, ""
	if len(l.rows) == 0 {
		if !failed { // the reason has been told
			say(stderr, l.nothing(c))
		}
		code = exitNothing
	} else if best < 0 {
		problem = "no usable GID: " + hostfacts.NoGID(list)
	} else if problem = list[best].Down(); problem != "" {
		problem = "no usable GID: " + problem + " at the best one, " + l.rows[best].name()
	}
	if problem != "" {
		say(stderr, fmt.Errorf("%s", problem))
		code, best = exitNothing, -1
	}
	if c.why {
		explain(stderr, l.rows, best)
	}
	chosen := &listing{devices: l.devices}
	if best >= 0 {
		chosen.rows = l.rows[best : best+1]
	}
	if c.format == formatJSON {
		writeJSON(stdout, chosen)
	} else if best >= 0 {
		fmt.Fprintln(stdout, l.rows[best].entry.Index)
		if r := l.rows[best]; !c.why && slices.ContainsFunc(l.rows, func(o *row) bool {
			return o.entry.Device != r.entry.Device || o.port.Number != r.port.Number
		}) {
			say(stderr, fmt.Errorf("index %d is of %s, port %d; -d and -p choose others", r.entry.Index, r.entry.Device,
				r.port.Number))
		}
	}
	return code
}

// reasons returns for each GID why it is or is not the best one of its port.
func reasons(rows []*row) []string {
	out := make([]string, 0, len(rows))
	for len(rows) > 0 {
		n := 1
		first := &rows[0].entry
		for n < len(rows) && rows[n].entry.Device == first.Device && rows[n].entry.Port == first.Port {
			n++
		}
		list := entries(rows[:n])
		best := hostfacts.BestGID(list)
		if best >= 0 && list[best].Down() != "" {
			best = -1
		}
		out = append(out, because(list, best)...)
		rows = rows[n:]
	}
	return out
}

// because returns for each GID whether it was chosen, and why not.
func because(list []hostfacts.GIDEntry, best int) []string {
	out := hostfacts.WhyNot(list, best)
	for i, why := range out {
		switch {
		case i == best:
			out[i] = "chosen"
		case why != "":
			out[i] = "no: " + why
		}
	}
	return out
}

// explain prints for each GID why it was or was not chosen; best is -1 for none.
func explain(w io.Writer, rows []*row, best int) {
	why := because(entries(rows), best)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for i, r := range rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", printable.Name(r.name()), r.entry.GID.Addr(), r.entry.Type,
			printable.Name(cmp.Or(r.entry.Netdev, "-")), why[i])
	}
	t.Flush()
}
