// Command show_gids lists the GIDs of the RDMA devices, with their type,
// address and network interface, or chooses the one to use.
//
// It reads sysfs only: no library, no open device, no privilege.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/hostfacts"
	"github.com/pureverbs/pureverbs/internal/buildinfo"
	"github.com/pureverbs/pureverbs/internal/netview"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// The exit codes.
const (
	exitOK      = 0
	exitNothing = 1 // nothing matches, or the output cannot be written
	exitUsage   = 2
)

// Formats of the output.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatCSV   = "csv"
	formatMlnx  = "mlnx"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

const usage = `Usage: show_gids [flags] [DEVICE...]

Lists the GIDs of all RDMA devices, or of the named ones, without empty entries.
Reads sysfs only: needs no library, no open device and no privilege.

Flags:
%s
Columns: %s.

Exit status: 0 success, 1 nothing matches, 2 wrong usage.
Environment: SYSFS_PATH replaces /sys, as for libibverbs; --sysfs takes precedence.

Examples:
  show_gids                            all GIDs
  show_gids mlx5_0 mlx5_1 --v2 --ipv4  RoCE v2 with an IPv4 address, two devices
  show_gids --up --netdev eth2         usable GIDs of eth2
  show_gids --json | jq '.gids[].gid'
  ib_write_bw -d mlx5_0 -x $(show_gids --best -d mlx5_0)
  show_gids --best --to server1        the index for a connection to server1
  show_gids --why                      the best GID of each port, and why the others are not
  show_gids --best --why               the best GID, and why the others are not
  show_gids --columns=ip,index,netdev  these columns, in this order
  show_gids --csv --columns=gid,why    columns for a spreadsheet
  show_gids --watch                    print again after each change
  show_gids --format=mlnx              the output of the Mellanox script
`

type config struct {
	format    string
	columns   []string // of the table and of CSV
	best, why bool
	interval  time.Duration // of --watch; 0: once
	host      hostfacts.Host
	devices   []string // as given; empty: all
	peer      string   // of --to
	filter    filter
}

var errHelp = errors.New("help")

// parse parses the command line. The error lists everything that is wrong with it.
func parse(args []string, help io.Writer) (*config, error) {
	var (
		c                   config
		f                   = pflag.NewFlagSet("show_gids", pflag.ContinueOnError)
		devices, vers       []string
		json, csv           bool
		showHelp, showBuild bool
		root                string
	)
	f.SortFlags = false
	f.SetOutput(io.Discard)
	f.StringSliceVarP(&devices, "device", "d", nil, "only these `devices`")
	f.IntSliceVarP(&c.filter.ports, "port", "p", nil, "only these `ports`")
	f.StringSliceVar(&vers, "ver", nil, "only these `types`: ib, v1, v2")
	for _, t := range types {
		f.Bool(t.name, false, "same as --ver="+t.name)
	}
	f.BoolVarP(&c.filter.v4, "ipv4", "4", false, "only GIDs that are IPv4 addresses")
	f.BoolVarP(&c.filter.v6, "ipv6", "6", false, "only GIDs that are IPv6 addresses")
	f.StringSliceVarP(&c.filter.netdevs, "netdev", "n", nil, "only GIDs of these `interfaces`")
	f.StringSliceVarP(&c.filter.states, "state", "s", nil, "only ports in these `states`: active, down, init, armed, "+
		"...")
	f.BoolVarP(&c.filter.up, "up", "u", false, "only GIDs whose port is ACTIVE and whose interface is up")
	f.StringVar(&c.peer, "to", "", "only GIDs of the source address for `PEER`, a host or host:port, by the routes "+
		"of this host")
	f.BoolVarP(&c.best, "best", "b", false, "print only the index of the best GID")
	f.BoolVarP(&c.why, "why", "w", false,
		"why each GID is or is not the best of its port; with --best: the best of all, on stderr")
	f.StringVarP(&c.format, "format", "f", formatTable, "output `format`: table, csv, json or mlnx")
	f.BoolVarP(&json, "json", "j", false, "same as --format=json")
	f.BoolVar(&csv, "csv", false, "same as --format=csv")
	f.StringSliceVarP(&c.columns, "columns", "c", usualColumns, "`columns` of the table or of CSV, in order")
	f.Lookup("columns").DefValue = "[]" // the table shows them
	f.DurationVar(&c.interval, "watch", 0,
		"print again after each change, until interrupted; `interval` between reads of sysfs")
	f.Lookup("watch").NoOptDefVal = "1s"
	f.StringVar(&root, "sysfs", "", "sysfs tree at `DIR` instead of /sys")
	f.BoolVar(&showBuild, "version", false, "print the version of show_gids")
	f.BoolVarP(&showHelp, "help", "h", false, "print this help")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if showHelp {
		fmt.Fprintf(help, usage, f.FlagUsages(), strings.Join(columns, " "))
		return nil, errHelp
	}
	if showBuild {
		fmt.Fprintln(help, "show_gids of pureverbs", buildinfo.Full())
		return nil, errHelp
	}

	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, same := range []struct {
		given  bool
		format string
	}{{json, formatJSON}, {csv, formatCSV}} {
		if !same.given {
			continue
		}
		if (f.Changed("format") || json && csv) && c.format != same.format {
			bad("--%s: not with --format=%s", same.format, c.format)
		}
		c.format = same.format
	}
	if !slices.Contains([]string{formatTable, formatCSV, formatJSON, formatMlnx}, c.format) {
		bad("--format=%q: want table, csv, json or mlnx", c.format)
	}
	lines := c.format == formatTable || c.format == formatCSV
	if c.why && !c.best && !lines {
		bad("--why: only with a table, CSV or --best, not with --format=%s", c.format)
	}
	if c.best && (c.format == formatMlnx || c.format == formatCSV) {
		bad("--best: only as an index or with --json, not with --format=%s", c.format)
	}
	if f.Changed("columns") {
		if !lines || c.best {
			bad("--columns: only with a table or CSV")
		}
		if len(c.columns) == 0 {
			bad("--columns is empty: want some of %s", strings.Join(columns, ", "))
		}
	}
	if i := slices.IndexFunc(c.columns, unknownColumn); i >= 0 {
		bad("--columns=%q: want some of %s", c.columns[i], strings.Join(columns, ", "))
	}
	if c.why && lines && !slices.Contains(c.columns, whyColumn) {
		c.columns = append(slices.Clip(c.columns), whyColumn)
	}
	if f.Changed("watch") {
		if c.interval < leastInterval || c.interval > mostInterval {
			bad("--watch=%v: want an interval from %v to %v", c.interval, leastInterval, mostInterval)
		}
		if c.format == formatCSV {
			bad("--watch: not with --format=csv; use --json")
		}
		for _, d := range f.Args() {
			if _, err := time.ParseDuration(d); err == nil {
				bad("%q would be a device: write --watch=%s", d, d)
			}
		}
	}
	for _, t := range types {
		if on, _ := f.GetBool(t.name); on {
			c.filter.types = append(c.filter.types, t.typ)
		}
	}
	for _, v := range vers {
		typ := strings.ToLower(v)
		i := slices.IndexFunc(types, func(t gidType) bool { return typ == t.name || typ == t.other })
		if i < 0 {
			bad("--ver=%q: want ib, v1 or v2", v)
			continue
		}
		c.filter.types = append(c.filter.types, types[i].typ)
	}
	for _, p := range c.filter.ports {
		if p < 1 {
			bad("--port=%d: ports are numbered from 1", p)
		}
	}
	for _, s := range c.filter.states {
		if !slices.Contains(portStates, strings.ToUpper(s)) {
			bad("--state=%q: want one of %s", s, strings.ToLower(strings.Join(portStates, ", ")))
		}
	}
	// Words within one argument: what the script of the Mellanox tools takes.
	for _, d := range slices.Concat(devices, f.Args()) {
		c.devices = append(c.devices, strings.FieldsFunc(d, func(r rune) bool {
			return r == ',' || r == ' ' || r == '\t' || r == '\n'
		})...)
	}
	if len(c.devices) == 0 && (f.NArg() > 0 || f.Changed("device")) {
		bad("the name of the device is empty: name one, or give none to list all")
	}
	c.host = hostfacts.This()
	if f.Changed("sysfs") {
		if c.host = (hostfacts.Host{Sys: root}); root == "" {
			bad("--sysfs is empty: want a directory")
		}
	}
	if f.Changed("to") && c.peer == "" {
		bad("--to is empty: want a host's name or address")
	}
	return &c, errors.Join(errs...)
}

// host returns the host of what --to may be: a name, an address, that in brackets, or one of these with a port.
func host(peer string) string {
	if h, ok := strings.CutPrefix(peer, "["); ok && strings.HasSuffix(h, "]") {
		return strings.TrimSuffix(h, "]")
	}
	if h, _, err := net.SplitHostPort(peer); err == nil {
		return h
	}
	return peer
}

// reach finds the source address that this host would use for the peer, and the interface by which it is reached: one
// of the selected devices and interfaces, if the peer is reached by one. It sends nothing.
func (c *config) reach(ctx context.Context, devs []hostfacts.Device) error {
	conn, err := new(net.Dialer).DialContext(ctx, "udp", net.JoinHostPort(host(c.peer), "9"))
	if err != nil {
		return err
	}
	defer conn.Close()
	f := &c.filter
	a, _ := netip.AddrFromSlice(conn.LocalAddr().(*net.UDPAddr).IP)
	peer := conn.RemoteAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	f.source = a.Unmap()
	f.route, _ = netview.Route(peer)
	if len(c.devices) == 0 && len(f.netdevs) == 0 {
		return nil
	}
	mine := c.interfaces(devs)
	if slices.Contains(mine, f.route) {
		return nil
	}
	for _, routed := range []bool{true, false} {
		for _, netdev := range mine {
			if a, err := netview.Source(peer, netdev, routed); err == nil {
				f.source, f.route = a, netdev
				return nil
			}
		}
	}
	return nil
}

// interfaces returns the selected interfaces: those of the devices, and those that their GIDs name.
func (c *config) interfaces(devs []hostfacts.Device) (names []string) {
	add := func(list ...string) {
		for _, n := range list {
			if n != "" && !slices.Contains(names, n) && (len(c.filter.netdevs) == 0 ||
				slices.Contains(c.filter.netdevs, n)) {
				names = append(names, n)
			}
		}
	}
	n := c.host.Namespace()
	for _, d := range devs {
		add(c.host.Netdevs(d.Name)...)
		for _, p := range d.Ports {
			if !c.filter.port(p) {
				continue
			}
			entries, _ := n.GIDs(&d, p.Number)
			for _, e := range entries {
				add(e.Netdev)
			}
		}
	}
	return names
}

// run is the program: arguments in, an exit code out.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var out bytes.Buffer
	c, err := parse(args, &out)
	code := exitOK
	switch {
	case errors.Is(err, errHelp):
	case err != nil:
		say(stderr, err)
		fmt.Fprintln(stderr, "Try: show_gids --help")
		return exitUsage
	case c.interval > 0:
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		return c.watch(ctx, stdout, stderr)
	default:
		code = c.show(ctx, &out, stderr)
	}
	if _, err := stdout.Write(out.Bytes()); err != nil {
		say(stderr, err)
		return exitNothing
	}
	return code
}

// say prints a message; an error of several lines becomes several messages.
func say(w io.Writer, err error) {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(w, "show_gids: %s\n", printable.Message(strings.TrimSuffix(line, "\n")))
	}
}

// show prints the list once.
func (c *config) show(ctx context.Context, stdout, stderr io.Writer) int {
	code := exitOK
	devs, err := c.host.Devices()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		say(stderr, errors.New("no RDMA devices: "+c.host.NoDevice()))
		code = exitNothing
	default:
		unread := err
		if devs, err = selectDevices(devs, c.devices); err != nil || len(c.devices) == 0 {
			err = errors.Join(unread, err) // of a device that is not wanted it does not matter
		}
		if err != nil {
			say(stderr, err)
			code = exitNothing
		}
	}

	if c.peer != "" {
		if err := c.reach(ctx, devs); err != nil {
			say(stderr, fmt.Errorf("no source address for %s: %w", c.peer, err))
			return exitNothing
		}
	}

	if c.format == formatMlnx {
		n := writeMlnx(stdout, c, devs)
		if n == 0 {
			code = exitNothing
		}
		return code
	}
	l := list(c, devs)
	for _, err := range l.warnings {
		say(stderr, err)
	}
	if c.best {
		return max(code, writeBest(stdout, stderr, c, l, err != nil))
	}
	if len(l.rows) == 0 {
		if code == exitOK {
			say(stderr, l.nothing(c))
		}
		code = exitNothing
	}
	switch {
	case c.format == formatJSON:
		writeJSON(stdout, l)
	case c.format == formatCSV:
		writeCSV(stdout, l.rows, c.columns)
	case len(l.rows) > 0:
		writeTable(stdout, l.rows, c.columns)
	}
	return code
}

// selectDevices returns the named devices, in the order of the names; all of
// them where there are no names. An unknown name is an error, returned
// together with the devices that exist.
func selectDevices(all []hostfacts.Device, names []string) ([]hostfacts.Device, error) {
	if len(names) == 0 {
		return all, nil
	}
	var (
		out  []hostfacts.Device
		errs []error
		have []string
	)
	for _, d := range all {
		have = append(have, d.Name)
	}
	for _, name := range names {
		if i := slices.Index(have, name); i >= 0 {
			out = append(out, all[i])
		} else if len(have) == 0 {
			errs = append(errs, fmt.Errorf("no device %q: there are no RDMA devices", name))
		} else {
			errs = append(errs, fmt.Errorf("no device %q; devices: %s", name, strings.Join(have, ", ")))
		}
	}
	return out, errors.Join(errs...)
}
