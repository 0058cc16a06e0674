//go:build linux && (amd64 || arm64)

// Emu runs a program on an emulated ConnectX: the program's own libibverbs, libmlx5 and librdmacm find and drive it.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/control"
	"github.com/pureverbs/pureverbs/emu/internal/fault"
	"github.com/pureverbs/pureverbs/emu/internal/machine"
	"github.com/pureverbs/pureverbs/emu/internal/netdev"
	"github.com/pureverbs/pureverbs/emu/internal/notify"
	"github.com/pureverbs/pureverbs/emu/internal/strict"
	"github.com/pureverbs/pureverbs/emu/internal/trace"
)

func main() {
	notify.Shim()
	code, err := run(os.Args[1:], os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "emu:", err)
	}
	os.Exit(code)
}

// Exit codes of emu itself, as env(1) and others have them.
const (
	exitUsage  = 125
	exitCannot = 126
)

func run(args []string, stdout, stderr io.Writer) (int, error) {
	if len(args) > 0 && args[0] == "control" {
		if err := ask(args[1:], stdout); err != nil {
			return 1, err
		}
		return 0, nil
	}
	o, err := parse(args, stdout)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return 0, nil
	case err != nil:
		return exitUsage, err
	case o.version:
		_, err := fmt.Fprintln(stdout, "emu of pureverbs", version())
		return 0, err
	case o.list:
		_, err := fmt.Fprint(stdout, o.Config)
		return 0, err
	case o.rules:
		return 0, strict.List(stdout)
	}
	return serve(o, stderr)
}

// serve runs the program.
func serve(o *options, stderr io.Writer) (int, error) {
	var err error
	if o.strict {
		if o.Report, err = strict.New(stderr, o.ignore); err != nil {
			return exitUsage, err
		}
	}
	if o.trace != "" {
		if o.Trace, err = trace.Open(o.trace, stderr, trace.Options{JSON: o.json, Raw: o.raw}); err != nil {
			return exitCannot, err
		}
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // programs wait for the emulator, which has little memory
	}
	s, err := machine.Start(&o.Options, stderr)
	if err != nil {
		return exitCannot, err
	}
	return s.Wait()
}

type options struct {
	machine.Options
	list    bool
	version bool
	rules   bool
	strict  bool
	ignore  []string
	trace   string // a file; "-" for stderr
	json    bool
	raw     bool
}

const usage = `Emu runs a program, and all that it starts, on emulated ConnectX adapters. The program's own
libibverbs, libmlx5 and librdmacm find and drive them. No privileges or kernel modules are needed.

  emu -- ibv_devinfo -v
  emu -- sh -c 'ib_write_bw & sleep 1; ib_write_bw 10.88.0.1; wait'
  emu --device mlx5_0 --device mlx5_1,model=cx6dx -- show_gids
  emu --strict -- ./program                 report mistakes that an adapter would not tolerate
  emu --trace -- ibv_rc_pingpong            each command, WQE, doorbell, CQE and event, one line each
  emu --fault rnr:after=100 -- ./program    the 101st send finds no receive
  emu control port mlx5_0 1 down            below emu: take a port down

The program runs in a private network namespace that contains only lo and the devices'
interfaces. With --net=host it uses the machine's network, without these interfaces.

The emulated device says nothing about an adapter's speed or its memory ordering.

Usage: emu [flags] -- program args…
       emu control REQUEST                  send a request to the emulator above this process; "help" lists requests

Exit status: the program's; 99 if that is 0 and --strict has found something; 125 wrong usage,
126 the program cannot be run. emu control: 0 done, 1 refused.

`

func parse(args []string, stdout io.Writer) (*options, error) {
	o := &options{}
	f := pflag.NewFlagSet("emu", pflag.ContinueOnError)
	f.SetInterspersed(false)
	f.SortFlags = false
	f.SetOutput(stdout)
	f.Usage = func() { fmt.Fprint(stdout, usage+f.FlagUsages()+faultUsage()) }
	devices := f.StringArray("device", nil, "an emulated device; may be repeated. `SPEC` is "+config.Syntax)
	limits := f.StringArray("limit", nil, "a limit of the devices, as `max_qp=64` or mlx5_1:max_qp=64")
	memlock := f.Uint64("memlock", 0, "`bytes` that a process may register, as RLIMIT_MEMLOCK; 0 for no limit")
	f.BoolVar(&o.list, "list", false, "show the devices and end")
	f.BoolVar(&o.version, "version", false, "print the version of emu and end")
	f.BoolVar(&o.strict, "strict", false, fmt.Sprintf(
		"report what an adapter would punish, and end with %d if the program ends with 0", strict.ExitCode))
	f.StringSliceVar(&o.ignore, "strict-ignore", nil, "`rules` that strict mode does not report; implies --strict")
	f.BoolVar(&o.rules, "list-rules", false, "show the rules of strict mode and end")
	faults := f.StringArray("fault", nil, "a fault to inject; may be repeated. `SPEC` is KIND[:key=value,…], see below")
	f.StringVar(&o.trace, "trace", "",
		"print what programs do to the adapter; to stderr or, as --trace=`FILE`, to a file")
	f.Lookup("trace").NoOptDefVal = "-"
	f.BoolVar(&o.json, "trace-json", false, "print the trace as JSON lines; implies --trace")
	f.BoolVar(&o.raw, "trace-raw", false, "print the bytes of WQEs, CQEs and doorbells in the trace; implies --trace")
	f.StringVar(&o.Control, "control", "",
		"`address` of the control socket: a path or @name; programs find it in "+control.Env)
	f.StringVar(&o.Network, "net", "auto", "`own`: a network of the program's own, with the devices' interfaces and "+
		"no way out; host: the machine's, without them; auto: own where that can be had")
	links := f.String("links", "", "`kind` of the interfaces in the program's own network: "+
		strings.Join(netdev.Kinds, ", ")+"; without it the first of these that the kernel has")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	o.Argv = f.Args()
	var err error
	if o.Config, err = machine.Configure(*devices, *limits, *memlock); err != nil {
		return nil, err
	}
	if !slices.Contains(machine.Networks, o.Network) {
		return nil, fmt.Errorf("--net %q: want own, host or auto", o.Network)
	}
	o.Links = netdev.Kinds
	if *links != "" {
		if !slices.Contains(netdev.Kinds, *links) {
			return nil, fmt.Errorf("--links %q: want one of %s", *links, strings.Join(netdev.Kinds, ", "))
		}
		o.Links = []string{*links}
	}
	if o.Faults, err = fault.Parse(*faults); err != nil {
		return nil, err
	}
	o.strict = o.strict || len(o.ignore) > 0
	if o.trace == "" && (o.json || o.raw) {
		o.trace = "-"
	}
	if len(o.Argv) == 0 && !o.list && !o.rules && !o.version {
		return nil, errors.New("no program to run: emu [flags] -- program args…; emu --help tells the flags")
	}
	return o, nil
}

// faultUsage lists the faults.
func faultUsage() string {
	var b strings.Builder
	b.WriteString("\nFaults, and what their keys after=, every= and count= count:\n")
	for k := fault.RNR; int(k) < len(fault.Kinds); k++ {
		i := &fault.Kinds[k]
		fmt.Fprintf(&b, "  %-15s %-13s %s%s\n", i.Name, i.At.String()+"s", i.Text,
			map[bool]string{true: "; " + i.Keys}[i.Keys != ""])
	}
	b.WriteString("Keys of all: device=, pid=, after=N, every=N, count=N (0 = no end), prob=P, seed=N; where it " +
		"applies: qp=, cq=, opcode=, cmd=.\n")
	return b.String()
}

// ask is `emu control`: it sends a request to the emulator that it runs below, and prints the reply.
func ask(args []string, stdout io.Writer) error {
	if len(args) == 0 || slices.Contains([]string{"help", "-h", "--help"}, args[0]) {
		for _, r := range machine.Requests() {
			if _, err := fmt.Fprintf(stdout, "emu control %-40s %s\n", r[0], r[1]); err != nil {
				return err
			}
		}
		return nil
	}
	v, err := control.Do(os.Getenv(control.Env), args...)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s\n", v)
	return err
}

// version returns the version of the main module, "(devel)" where it has none, and the commit, which versions between
// releases have in them.
func version() string {
	b, ok := debug.ReadBuildInfo()
	if !ok || b.Main.Version == "" {
		return "(devel)"
	}
	v := b.Main.Version
	for _, s := range b.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 && !strings.Contains(v, s.Value[:12]) {
			v += ", commit " + s.Value[:12]
		}
	}
	return v
}
