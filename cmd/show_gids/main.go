// Command show_gids lists the GIDs of the RDMA devices, with their type,
// address and network interface, or chooses the one to use.
//
// It reads sysfs only: no library, no open device, no privilege.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/internal/buildinfo"
	"github.com/pureverbs/pureverbs/internal/printable"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// The exit codes.
const (
	exitOK      = 0
	exitNothing = 1 // nothing matches, or the output cannot be written
	exitUsage   = 2
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

const usage = `Usage: show_gids [flags] [DEVICE...]

Lists the GIDs of all RDMA devices, or of those named. Empty entries are left
out. Reads sysfs only: needs no library, no open device and no privilege.

Flags:
%s
Exit status: 0, 1 when nothing matches, 2 for wrong usage.
SYSFS_PATH names another place than /sys, as for libibverbs; --sysfs wins.

Examples:
  show_gids                            all GIDs
  show_gids mlx5_0 mlx5_1 --v2 --ipv4  RoCE v2 with an IPv4 address, two devices
  show_gids --up --netdev eth2         what can be used on eth2 now
  show_gids --json | jq '.gids[].gid'
  ib_write_bw -d mlx5_0 -x $(show_gids --best -d mlx5_0)
  show_gids --best --to server1        the index for a connection to server1
  show_gids --why                      which is the best of each port, and why not the others
  show_gids --best --why               the choice, and why not the others
  show_gids --format=mlnx              same text as the script of the Mellanox tools
`

type config struct {
	format    string
	best, why bool
	root      sysfs.Root
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
		json, v1, v2, ib    bool
		ipv4, ipv6          bool
		showHelp, showBuild bool
		root                string
	)
	f.SortFlags = false
	f.SetOutput(io.Discard)
	f.StringSliceVarP(&devices, "device", "d", nil, "only these `devices`")
	f.IntSliceVarP(&c.filter.ports, "port", "p", nil, "only these `ports`")
	f.StringSliceVar(&vers, "ver", nil, "only these `types`: ib, v1, v2")
	f.BoolVar(&ib, "ib", false, "same as --ver=ib")
	f.BoolVar(&v1, "v1", false, "same as --ver=v1")
	f.BoolVar(&v2, "v2", false, "same as --ver=v2")
	f.BoolVarP(&ipv4, "ipv4", "4", false, "only GIDs of an IPv4 address")
	f.BoolVarP(&ipv6, "ipv6", "6", false, "only GIDs of an IPv6 address")
	f.StringSliceVarP(&c.filter.netdevs, "netdev", "n", nil, "only GIDs of these `interfaces`")
	f.StringSliceVarP(&c.filter.states, "state", "s", nil, "only ports in these `states`: active, down, init, armed, "+
		"...")
	f.BoolVarP(&c.filter.up, "up", "u", false, "only where the port is ACTIVE and the interface is up")
	f.StringVar(&c.peer, "to", "", "only GIDs of the address from which this host sends to `PEER`, by its routes")
	f.BoolVarP(&c.best, "best", "b", false, "print nothing but the index of the GID to use")
	f.BoolVarP(&c.why, "why", "w", false,
		"why each GID is or is not the best of its port; with --best: of all, on stderr")
	f.StringVarP(&c.format, "format", "f", "table", "`one` of table, json, mlnx")
	f.BoolVarP(&json, "json", "j", false, "same as --format=json")
	f.StringVar(&root, "sysfs", "", "read the tree at `DIR` instead of /sys")
	f.BoolVar(&showBuild, "version", false, "print the version of show_gids")
	f.BoolVarP(&showHelp, "help", "h", false, "print this help")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if showHelp {
		fmt.Fprintf(help, usage, f.FlagUsages())
		return nil, errHelp
	}
	if showBuild {
		fmt.Fprintln(help, "show_gids", buildinfo.Version())
		return nil, errHelp
	}

	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if json {
		if f.Changed("format") && c.format != "json" {
			bad("--json and --format=%s exclude each other", c.format)
		}
		c.format = "json"
	}
	if !slices.Contains([]string{"table", "json", "mlnx"}, c.format) {
		bad("--format=%q: want table, json or mlnx", c.format)
	}
	if c.why && !c.best && c.format != "table" {
		bad("--why adds a column to the table, or explains --best: --format=%s has no place for it", c.format)
	}
	if c.best && c.format == "mlnx" {
		bad("--best prints an index, or a GID as --json: --format=mlnx has no place for it")
	}
	for _, v := range vers {
		switch strings.ToLower(v) {
		case "ib":
			ib = true
		case "v1", "rocev1":
			v1 = true
		case "v2", "rocev2":
			v2 = true
		default:
			bad("--ver=%q: want ib, v1 or v2", v)
		}
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
	c.root = sysfs.DefaultRoot()
	if f.Changed("sysfs") {
		if c.root = sysfs.Root(root); root == "" {
			bad("--sysfs is empty: want a directory")
		}
	}
	c.filter.setTypes(ib, v1, v2)
	c.filter.v4, c.filter.v6 = ipv4, ipv6
	if f.Changed("to") && c.peer == "" {
		bad("--to is empty: want a host's name or address")
	}
	return &c, errors.Join(errs...)
}

// source returns the address from which this host would send to a peer. Nothing is sent.
func source(peer string) (netip.Addr, error) {
	c, err := net.Dial("udp", net.JoinHostPort(peer, "9"))
	if err != nil {
		return netip.Addr{}, err
	}
	defer c.Close()
	a, _ := netip.AddrFromSlice(c.LocalAddr().(*net.UDPAddr).IP)
	return a.Unmap(), nil
}

func run(args []string, stdout, stderr io.Writer) int {
	var out bytes.Buffer
	code := show(args, &out, stderr)
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

func show(args []string, stdout, stderr io.Writer) int {
	c, err := parse(args, stdout)
	if errors.Is(err, errHelp) {
		return exitOK
	}
	if err != nil {
		say(stderr, err)
		fmt.Fprintln(stderr, "Try: show_gids --help")
		return exitUsage
	}

	if c.peer != "" {
		if c.filter.source, err = source(c.peer); err != nil {
			say(stderr, fmt.Errorf("cannot find from where to send to %s: %w", c.peer, err))
			return exitNothing
		}
	}
	code := exitOK
	devs, err := c.root.Devices()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		say(stderr, fmt.Errorf("no RDMA devices: %s is not there (is a driver loaded, such as mlx5_ib or rdma_rxe?)",
			c.root.ClassDir()))
		code = exitNothing
	case err != nil:
		say(stderr, fmt.Errorf("cannot list the RDMA devices: %w", err))
		code = exitNothing
	default:
		if devs, err = selectDevices(devs, c.devices); err != nil {
			say(stderr, err)
			code = exitNothing
		}
	}

	if c.format == "mlnx" {
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
		return max(code, writeBest(stdout, stderr, c, l))
	}
	if len(l.rows) == 0 {
		if code == exitOK {
			say(stderr, l.nothing(c))
		}
		code = exitNothing
	}
	if c.format == "json" {
		writeJSON(stdout, l)
	} else if len(l.rows) > 0 {
		var why []string
		if c.why {
			why = reasons(l.rows)
		}
		writeTable(stdout, l.rows, why)
	}
	return code
}

// selectDevices returns the named devices, in the order of the names; all of
// them where there are no names. A name that is not there is an error beside
// those that are.
func selectDevices(all []sysfs.Device, names []string) ([]sysfs.Device, error) {
	if len(names) == 0 {
		return all, nil
	}
	var (
		out  []sysfs.Device
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
			errs = append(errs, fmt.Errorf("no device %q: there are %s", name, strings.Join(have, ", ")))
		}
	}
	return out, errors.Join(errs...)
}
