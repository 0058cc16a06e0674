//go:build linux && (amd64 || arm64)

// Emu runs a program on an emulated ConnectX: the program's own libibverbs, libmlx5 and librdmacm find and drive it.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/buildinfo"
	"github.com/pureverbs/pureverbs/internal/emu/cm"
	"github.com/pureverbs/pureverbs/internal/emu/config"
	"github.com/pureverbs/pureverbs/internal/emu/control"
	"github.com/pureverbs/pureverbs/internal/emu/engine"
	"github.com/pureverbs/pureverbs/internal/emu/fault"
	"github.com/pureverbs/pureverbs/internal/emu/hca"
	"github.com/pureverbs/pureverbs/internal/emu/netdev"
	"github.com/pureverbs/pureverbs/internal/emu/nldev"
	"github.com/pureverbs/pureverbs/internal/emu/notify"
	"github.com/pureverbs/pureverbs/internal/emu/strict"
	"github.com/pureverbs/pureverbs/internal/emu/sysfs"
	"github.com/pureverbs/pureverbs/internal/emu/trace"
	"github.com/pureverbs/pureverbs/internal/emu/umad"
	"github.com/pureverbs/pureverbs/internal/emu/verbs"
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
		_, err := fmt.Fprintln(stdout, "emu of pureverbs", buildinfo.Version())
		return 0, err
	case o.list:
		_, err := fmt.Fprint(stdout, o.config)
		return 0, err
	case o.rules:
		return 0, strict.List(stdout)
	}
	return serve(o, stderr)
}

func serve(o *options, stderr io.Writer) (int, error) {
	nw, err := newNetwork(o)
	if err != nil {
		return exitCannot, err
	}
	defer nw.close()
	tree, err := sysfs.New(o.config)
	if err != nil {
		// Under another emulator, the machine has its devices.
		if missing := notify.Probe(); missing != nil {
			err = missing
		}
		return exitCannot, err
	}
	defer tree.Close()
	fabric := hca.New(o.config)
	eng := engine.New(fabric, engine.Config{Strict: o.strict})
	m := &machine{tree: tree, links: nw.links, fabric: fabric, eng: eng, faults: o.faults}
	if o.strict {
		if m.report, err = strict.New(stderr, o.ignore); err != nil {
			return exitUsage, err
		}
	}
	if o.trace != "" {
		w, err := o.traceFile(stderr)
		if err != nil {
			return exitCannot, err
		}
		defer w.Close()
		m.trace = trace.New(w, trace.Options{JSON: o.json, Raw: o.raw})
	}
	ctl := control.New(m.control)
	defer ctl.Close()
	if err := nw.listen(ctl, o.control); err != nil {
		return exitCannot, err
	}
	fabric.Engine = m.eng
	f := &files{tree: tree, verbs: verbs.New(fabric), cm: cm.New(fabric), umad: umad.New(fabric), opens: m.opens}
	f.netlink = &rdmaNetlink{server: nldev.Server{Fabric: fabric, CM: f.cm}}
	nw.routes(f.cm)
	m.watch(f.verbs, f.cm)
	tree.OnCounters = m.counters
	go m.eng.Run()
	defer m.eng.Stop()
	s, err := notify.Start(notify.Config{
		Argv:    o.argv,
		Net:     nw.net,
		Scratch: tree.Root(),
		Env:     append(os.Environ(), control.Env+"="+ctl.Address()),
		IoctlCmds: []uint32{verbsIoctl, umad.RegisterAgent, umad.UnregisterAgent, umad.EnablePKey,
			umad.RegisterAgent2},
		TrapNetlink: []int{unix.NETLINK_RDMA},
		Forward:     []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM},
		OnPanic: func(_ *notify.Call, v any, stack []byte) {
			fmt.Fprintf(stderr, "emu: internal error: %v\n%s", v, stack)
		},
	}, f.handle)
	if err != nil {
		return exitCannot, err
	}
	code, err := s.Wait()
	if err != nil {
		return code, err
	}
	// Files whose last user has just ended are still to be released.
	f.verbs.Settle()
	return m.finish(code)
}

// verbsIoctl is RDMA_VERBS_IOCTL.
const verbsIoctl = 0xc0181b01

// niceness is that of the programs. The emulator gets three times as much of a processor that it shares with one. More
// would starve programs on a busy machine: at 19, a ping-pong of 100 messages took 110 s beside a load of 45, at 5 it
// took 40 s, and on a quiet machine both took the same time.
const niceness = 5

// calm makes a program give way to the emulator where both want a processor: programs poll without end, and what they
// wait for happens here.
func calm(tid int) {
	tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(tid) + "/task/*")
	for _, t := range tasks {
		if id, err := strconv.Atoi(filepath.Base(t)); err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, id, niceness)
		}
	}
}

type options struct {
	config  *config.Config
	argv    []string
	list    bool
	version bool
	rules   bool
	strict  bool
	ignore  []string
	faults  *fault.Set
	trace   string // a file; "-" for stderr
	json    bool
	raw     bool
	control string
	network string
	links   []string // kinds of interfaces
}

const usage = `Emu runs a program, and what it starts, on emulated ConnectX adapters. The program's own
libibverbs, libmlx5 and librdmacm find and drive them; it needs no privileges and no kernel modules.

  emu -- ibv_devinfo -v
  emu -- sh -c 'ib_write_bw & sleep 1; ib_write_bw 127.0.0.1; wait'
  emu --device mlx5_0 --device mlx5_1,model=connectx6dx -- show_gids
  emu --strict -- ./program                 what an adapter would punish, and exit code 99
  emu --trace -- ibv_rc_pingpong            each command, WQE, doorbell, CQE and event, one line each
  emu --fault rnr:after=100 -- ./program    the 101st send finds no receive
  emu control port mlx5_0 1 down            below emu: take a port down

The program's network is its own: it has the devices' interfaces, their addresses and lo, and
leads nowhere else. With --net=host it is the machine's, and the interfaces do not exist.

The emulated device says nothing about an adapter's speed or its memory ordering.

Usage: emu [flags] -- program args…
       emu control REQUEST                  ask the emulator that this runs below; "help" lists requests

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
	f.StringVar(&o.control, "control", "",
		"`address` of the control socket: a path or @name; programs find it in "+control.Env)
	f.StringVar(&o.network, "net", "auto", "`own`: a network of the program's own, with the devices' interfaces and "+
		"no way out; host: the machine's, without them; auto: own where that can be had")
	links := f.String("links", "", "`kind` of the interfaces in the program's own network: "+
		strings.Join(netdev.Kinds, ", ")+"; without it the first of these that the kernel has")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	o.argv = f.Args()
	var err error
	o.config = config.Default()
	if len(*devices) > 0 {
		if o.config, err = config.Parse(*devices); err != nil {
			return nil, err
		}
	}
	o.config.MemlockLimit = *memlock
	if !slices.Contains([]string{"auto", "own", "host"}, o.network) {
		return nil, fmt.Errorf("--net %q: want own, host or auto", o.network)
	}
	o.links = netdev.Kinds
	if *links != "" {
		if !slices.Contains(netdev.Kinds, *links) {
			return nil, fmt.Errorf("--links %q: want one of %s", *links, strings.Join(netdev.Kinds, ", "))
		}
		o.links = []string{*links}
	}
	for _, l := range *limits {
		if err := o.config.SetLimit(l); err != nil {
			return nil, err
		}
	}
	if err := o.config.Validate(); err != nil {
		return nil, err
	}
	if o.faults, err = fault.Parse(*faults); err != nil {
		return nil, err
	}
	o.strict = o.strict || len(o.ignore) > 0
	if o.trace == "" && (o.json || o.raw) {
		o.trace = "-"
	}
	if len(o.argv) == 0 && !o.list && !o.rules && !o.version {
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

// traceFile returns where the trace goes.
func (o *options) traceFile(stderr io.Writer) (io.WriteCloser, error) {
	if o.trace == "-" {
		return keep{stderr}, nil
	}
	return os.Create(o.trace)
}

// keep is a file that others still use.
type keep struct{ io.Writer }

func (keep) Close() error { return nil }
