package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/layer"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/report"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// layerFlags declares the flags of perf stream and perf message.
func layerFlags(o *layer.Options, json *bool) *pflag.FlagSet {
	f := pflag.NewFlagSet("perf", pflag.ContinueOnError)
	f.SortFlags = false
	f.Usage = func() {}
	o.Timeout, o.Patience = 30*time.Second, 3*time.Second
	f.IntVarP(&o.Port, "port", "p", wire.DefaultPort, "TCP `port` of the exchange; raw verbs use the next port")
	f.StringVar(&o.Bind, "bind", "", "`address` that the server's exchange listens on (default: all)")
	f.StringVar(&o.Address, "address", "",
		"`address` of the server's device (default: the address that the client reached over TCP)")
	f.StringVarP(&o.Device, "ib-dev", "d", "",
		"RDMA `device` of this end (default: the device that has the address)")
	o.Size = 0
	f.VarP((*length)(&o.Size), "size", "s", "message size, such as 64, 4K or 1M (default: bw 64K, lat 8)")
	f.BoolVarP(&o.All, "all", "a", false, "all powers of two from 2 to 8M, or to -s")
	f.IntVarP(&o.Messages, "iters", "n", 0,
		"`messages` per size, over all connections (default: enough for a short run)")
	f.IntVarP(&o.Conns, "connections", "q", 1, "number of `connections` (bw)")
	f.Var((*carriers)(&o.Compare), "compare", "`carriers` to compare with: send (perf send, raw verbs), send-e (the "+
		"same, sleeping), tcp, copy (copies of a stream), buffer (messages without a copy), stream, message "+
		"(without a list: send, tcp and, for bw, copy)")
	f.Lookup("compare").NoOptDefVal = "all"
	f.IntVar(&o.Rounds, "rounds", 0,
		"`number` of runs of each; the table shows the median run (default: 1; 5 with --compare)")
	f.Var((*length)(&o.Block), "block", "block size of this end (default: that of package rdma)")
	f.DurationVar(&o.Spin, "spin", 0,
		"`time` that this end polls for a reply before it sleeps (default: that of package rdma)")
	f.BoolVar(json, "json", false, "one JSON object with all runs instead of a table")
	f.Var((*seconds)(&o.Timeout), "timeout", "time without progress after which the run fails")
	f.Var((*seconds)(&o.Patience), "retry", "time for which the client tries to reach the server")
	f.BoolP("help", "h", false, "print this help")
	return f
}

// carriers is a list of what runs.
type carriers []layer.Carrier

func (c *carriers) String() string { return "" }
func (c *carriers) Type() string   { return "carriers" }

func (c *carriers) Set(t string) error {
	*c = nil
	for s := range strings.SplitSeq(t, ",") {
		*c = append(*c, layer.Carrier(s))
	}
	return nil
}

// length is a size that fits an int.
type length int

func (l *length) String() string { return strconv.Itoa(int(*l)) }
func (l *length) Type() string   { return "bytes" }

func (l *length) Set(t string) error {
	var s size
	if err := s.Set(t); err != nil {
		return err
	}
	if s > 1<<31-1 {
		return fmt.Errorf("%q: too large for a message", t)
	}
	*l = length(s)
	return nil
}

// parseLayer reads the command line of perf stream and perf message.
func parseLayer(args []string) (o layer.Options, json bool, err error) {
	f := layerFlags(&o, &json)
	if err := f.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			err = errHelp
		}
		return o, json, err
	}
	if h, _ := f.GetBool("help"); h {
		return o, json, errHelp
	}
	a := f.Args()
	if len(a) < 2 {
		return o, json, errors.New("no command; usage: perf {stream|message} {bw|lat} [options] [SERVER]")
	}
	o.Carrier = layer.Carrier(a[0])
	if o.Metric, err = wire.ParseMetric(a[1]); err != nil {
		return o, json, err
	}
	switch len(a) {
	case 2:
	case 3:
		if o.Host, err = serverName(a[2]); err != nil {
			return o, json, err
		}
	default:
		return o, json, fmt.Errorf("%d arguments too many: %s", len(a)-3, strings.Join(a[3:], " "))
	}
	for _, n := range []string{"iters", "connections", "rounds"} {
		if fl := f.Lookup(n); fl.Changed && fl.Value.String() == "0" {
			return o, json, fmt.Errorf("--%s 0 < 1", n)
		}
	}
	if slices.Equal(o.Compare, []layer.Carrier{"all"}) {
		o.Compare = []layer.Carrier{layer.Raw, layer.TCP, layer.Copy}
		if o.Metric == wire.Latency {
			o.Compare = o.Compare[:2]
		}
	}
	o, err = layer.New(o)
	return o, json, err
}

func layerUsage() string {
	return `perf stream and perf message measure package rdma between two hosts: bandwidth or latency,
and for both ends CPU time, allocations and wake-ups. With --compare they measure
raw verbs, TCP or a plain copy in alternating rounds.

  perf {stream|message} {bw|lat} [options]             server: serves one client
  perf {stream|message} {bw|lat} [options] SERVER      client

The client sends its options to the server: give sizes and numbers to the client only.

` + layerFlags(&layer.Options{}, new(bool)).FlagUsages() + `
Exit status: 0 success, 1 failure, 2 wrong usage.
`
}

// runLayer is perf stream and perf message: arguments in, an exit code out.
func runLayer(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, json, err := parseLayer(args)
	if errors.Is(err, errHelp) {
		fmt.Fprint(stdout, layerUsage())
		return exitOK
	}
	if err != nil {
		for _, e := range split(err) {
			say(stderr, e)
		}
		fmt.Fprintf(stderr, "perf %s --help shows the usage\n", args[0])
		return exitUsage
	}
	res, err := layer.Measure(ctx, o, layer.Hooks{Waiting: func(port int) {
		fmt.Fprintf(stderr, "perf: waiting for a client on TCP port %d\n", port)
	}})
	if json {
		if jerr := report.LayerJSON(stdout, &o, res, program(), args, report.ThisHost(), err); jerr != nil {
			err = errors.Join(err, jerr)
		}
	} else if len(res.Runs) > 0 {
		report.Layer(stdout, &o, res)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("interrupted: %w", err)
		}
		for _, e := range split(err) {
			say(stderr, e)
		}
		return exitFailure
	}
	return exitOK
}
