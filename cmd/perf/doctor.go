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

const doctorUsage = `perf doctor looks for what keeps RDMA on this machine from working, or from being fast:
libraries, modules, permissions, limits, ports, GIDs, MTU, PCIe, NUMA, IOMMU, CPUs, flow control.
It says what it found, where it read it, and the command that mends it. It changes nothing.

  perf doctor                     this machine
  perf doctor --serve             gives its report to the other end
  perf doctor HOST                this machine, and whether it goes with HOST

%s
Exit status: 0 nothing but notes, 1 the report cannot be made, 2 wrong usage, 3 warnings, 4 errors.
`

// runDoctor is perf doctor.
func runDoctor(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := pflag.NewFlagSet("perf doctor", pflag.ContinueOnError)
	f.SortFlags = false
	f.Usage = func() {}
	asJSON := f.Bool("json", false, "one JSON object with all findings, devices and libraries")
	all := f.BoolP("verbose", "v", false, "what is in order, too, and for each GID why it is no choice")
	serve := f.Bool("serve", false, "give the report to everyone who asks, until interrupted")
	port := f.Uint16P("port", "p", doctor.DefaultPort, "TCP `port` of --serve")
	bind := f.String("bind", "", "`address` that --serve listens on; all if not given")
	host := ""
	err := f.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprintf(stdout, doctorUsage, f.FlagUsages())
		return exitOK
	case err != nil:
	case f.NArg() > 1:
		err = fmt.Errorf("%d hosts, perf doctor takes one at most", f.NArg())
	case *serve && f.NArg() > 0:
		err = errors.New("--serve waits for the other end: do not give a host")
	case *serve && (*asJSON || *all):
		err = errors.New("--serve prints no report: do not give --json or -v")
	case *bind != "" && !*serve:
		err = errors.New("--bind is for --serve")
	case f.NArg() == 1:
		host, err = serverName(f.Arg(0))
	case *port == 0:
		err = errors.New("port (-p) 0 < 1")
	}
	if err != nil {
		say(stderr, err)
		fmt.Fprintln(stderr, "perf doctor --help shows how it is used")
		return exitUsage
	}
	examine := func() *doctor.Report { return doctor.Examine(doctor.This(), program()) }
	if *serve {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(*bind, strconv.Itoa(int(*port))))
		if err != nil {
			say(stderr, wire.ListenHint(err, "another perf doctor"))
			return exitFailure
		}
		fmt.Fprintf(stderr, "perf: doctor waits on TCP port %d\n", *port)
		if err := doctor.Serve(ctx, l, examine); err != nil {
			say(stderr, err)
			return exitFailure
		}
		return exitOK
	}
	r := examine()
	var unheard error // from the other end: what is known of this one is told all the same
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
