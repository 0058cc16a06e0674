package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/doctor"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// exitError is perf doctor's exit code if something does not work; exitLimit is that of warnings.
const exitError = 4

const doctorUsage = `perf doctor checks what RDMA on this host needs to work, and to be fast: libraries,
kernel modules, permissions, limits, ports, GIDs, MTU, PCIe, NUMA, IOMMU, CPUs and flow control.
For each problem it prints what it found, where, and the command that fixes it. It changes nothing.

  perf doctor                     check this host
  perf doctor --serve             send this host's report to clients that ask for it
  perf doctor HOST                check this host, and compare it with HOST, where --serve runs

%s
Exit status: 0 only notes, 1 no report, 2 wrong usage, 3 warnings, 4 errors.
`

// runDoctor is perf doctor.
func runDoctor(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := pflag.NewFlagSet("perf doctor", pflag.ContinueOnError)
	f.SortFlags = false
	f.Usage = func() {}
	asJSON := f.Bool("json", false, "one JSON object with all findings, devices and libraries")
	all := f.BoolP("verbose", "v", false, "also list notes and what is in order, and why each GID is not the best one")
	serve := f.Bool("serve", false, "send the report to every client that asks, until interrupted")
	port := f.Uint16P("port", "p", doctor.DefaultPort, "TCP `port` of --serve")
	bind := f.String("bind", "", "`address` that --serve listens on (default: all)")
	host := ""
	err := f.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprintf(stdout, doctorUsage, f.FlagUsages())
		return exitOK
	case err != nil:
	case f.NArg() > 1:
		err = fmt.Errorf("%d hosts; perf doctor takes at most one", f.NArg())
	case *serve && f.NArg() > 0:
		err = errors.New("--serve waits for the other end: give no host")
	case *serve && (*asJSON || *all):
		err = errors.New("--serve prints no report: give neither --json nor -v")
	case *bind != "" && !*serve:
		err = errors.New("--bind: only with --serve")
	case f.NArg() == 1:
		host, err = serverName(f.Arg(0))
	case *port == 0:
		err = errors.New("port (-p) 0 < 1")
	}
	if err != nil {
		say(stderr, err)
		fmt.Fprintln(stderr, "perf doctor --help shows the usage")
		return exitUsage
	}
	examine := func() *doctor.Report { return doctor.Examine(doctor.This(), program()) }
	if *serve {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(*bind, strconv.Itoa(int(*port))))
		if err != nil {
			say(stderr, wire.ListenHint(err, "another perf doctor"))
			return exitFailure
		}
		fmt.Fprintf(stderr, "perf: doctor is listening on TCP port %d\n", *port)
		if err := doctor.Serve(ctx, l, examine); err != nil {
			say(stderr, err)
			return exitFailure
		}
		return exitOK
	}
	r := examine()
	var unheard error // from the other end: the findings of this host are printed nevertheless
	if host != "" {
		var peer *doctor.Peer
		peer, unheard = doctor.Ask(ctx, net.JoinHostPort(host, strconv.Itoa(int(*port))))
		if unheard == nil {
			r.Compare(peer)
		}
	}
	if *asJSON {
		err = r.JSON(stdout)
	} else {
		err = r.Text(stdout, *all)
	}
	err = errors.Join(unheard, err)
	switch {
	case err != nil:
		say(stderr, err)
		return exitFailure
	case r.Worst == doctor.Error:
		return exitError
	case r.Worst == doctor.Warning:
		return exitLimit
	}
	return exitOK
}
