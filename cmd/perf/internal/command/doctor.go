package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/doctor"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
)

// exitError is rdmaperf doctor's exit code if something does not work; exitLimit is that of warnings.
const exitError = 4

const doctorUsage = `rdmaperf doctor checks what RDMA on this host needs to work, and to be fast: libraries,
kernel modules, permissions, limits, ports, GIDs, MTU, PCIe, NUMA, IOMMU, CPUs and flow control.
For each problem it prints what it found, where, and the command that fixes it. It changes nothing.

  rdmaperf doctor                     check this host
  rdmaperf doctor --serve             send this host's report to clients that ask for it
  rdmaperf doctor HOST                check this host, and compare it with HOST, where --serve runs
  rdmaperf doctor --native            check it without libraries, and compare with them

{flags}
Exit status: 0 only notes, 1 no report, 2 wrong usage, 3 warnings, 4 errors. With --fail-on=error
warnings give 0.
`

type doctorOptions struct {
	json, all, serve, reason bool
	native, attributes       bool
	port                     uint16
	bind, host, failOn       string
}

func (v *invocation) doctor() *cobra.Command {
	o := doctorOptions{port: doctor.DefaultPort}
	c := &cobra.Command{Use: "doctor [options] [HOST]", Long: doctorUsage,
		Short: "problems of this host, and whether it matches another host"}
	f := c.Flags()
	f.BoolVar(&o.json, "json", false, "one JSON object with all findings, devices and libraries")
	f.BoolVarP(&o.all, "verbose", "v", false,
		"also list notes and what is in order, and why each GID is not the best one")
	f.BoolVar(&o.reason, "reason", false,
		"only the worst warning or error, in one line of at most 100 characters; nothing if there is none")
	f.StringVar(&o.failOn, "fail-on", "warning", "least `severity` with an exit status of its own: warning or error")
	f.BoolVar(&o.serve, "serve", false, "send the report to every client that asks, until interrupted")
	f.BoolVar(&o.native, "native", false,
		"use no library; send a message of each port to itself, and compare attributes with the library's")
	f.BoolVar(&o.attributes, "attributes", false, "print the library's attributes")
	f.Lookup("attributes").Hidden = true
	f.VarP(whole(&o.port), "port", "p", "TCP `port` of --serve")
	f.StringVar(&o.bind, "bind", "", "`address` that --serve listens on (default: all)")
	c.Args = func(_ *cobra.Command, hosts []string) (err error) {
		switch {
		case len(hosts) > 1:
			return fmt.Errorf("%d hosts; rdmaperf doctor takes at most one", len(hosts))
		case o.serve && len(hosts) > 0:
			return errors.New("--serve waits for the other end: give no host")
		case o.serve && (o.json || o.all || o.reason || f.Changed("fail-on")):
			return errors.New("--serve prints no report: give none of --json, -v, --reason and --fail-on")
		case o.reason && (o.json || o.all):
			return errors.New("--reason is one line: give neither --json nor -v")
		case o.failOn != "warning" && o.failOn != "error":
			return fmt.Errorf("--fail-on=%q: want warning or error", o.failOn)
		case o.bind != "" && !o.serve:
			return errors.New("--bind: only with --serve")
		case len(hosts) == 1:
			o.host, err = serverName(hosts[0])
		case o.port == 0:
			return errors.New("port (-p) 0 < 1")
		}
		return err
	}
	c.Run = func(c *cobra.Command, _ []string) {
		if o.attributes {
			v.end(exitOK, printAttributes(v.stdout))
		} else {
			v.end(runDoctor(c.Context(), o, v.stdout, v.stderr))
		}
	}
	return c
}

// runDoctor is rdmaperf doctor.
func runDoctor(ctx context.Context, o doctorOptions, stdout, stderr io.Writer) (int, error) {
	host := doctor.This()
	if o.native {
		if err := ibv.UseControl(ibv.ControlNative); err != nil {
			return exitFailure, err
		}
		host.Native = doctor.ThisNative(func() ([]byte, error) { return libraryAttributes(ctx) })
	}
	examine := func() *doctor.Report { return doctor.Examine(host, program()) }
	if o.serve {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(o.bind, strconv.Itoa(int(o.port))))
		if err != nil {
			return exitFailure, wire.ListenHint(err, "another rdmaperf doctor")
		}
		fmt.Fprintf(stderr, "rdmaperf: doctor is listening on TCP port %d\n", o.port)
		return exitOK, doctor.Serve(ctx, l, examine)
	}
	r := examine()
	var unheard error // from the other end: the findings of this host are printed nevertheless
	if o.host != "" {
		var peer *doctor.Peer
		peer, unheard = doctor.Ask(ctx, net.JoinHostPort(o.host, strconv.Itoa(int(o.port))))
		if unheard == nil {
			r.Compare(peer)
		}
	}
	var err error
	switch line := r.Reason(); {
	case o.json:
		err = r.JSON(stdout)
	case o.reason && line != "":
		_, err = fmt.Fprintln(stdout, line)
	case !o.reason:
		err = r.Text(stdout, o.all)
	}
	switch err = errors.Join(unheard, err); {
	case err != nil:
		return exitFailure, err
	case r.Worst == doctor.Error:
		return exitError, nil
	case r.Worst == doctor.Warning && o.failOn == "warning":
		return exitLimit, nil
	}
	return exitOK, nil
}

// printAttributes is the process that libraryAttributes starts.
func printAttributes(stdout io.Writer) error {
	if err := ibv.UseControl(ibv.ControlLibrary); err != nil {
		return err
	}
	return doctor.PrintAttributes(stdout)
}

// libraryAttributes returns the attributes that the library reports, by a process of its own: a process has one control
// path by choice.
func libraryAttributes(ctx context.Context) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, self, "doctor", "--attributes").Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return nil, errors.New(strings.TrimSpace(string(exit.Stderr)))
	}
	return out, err
}
