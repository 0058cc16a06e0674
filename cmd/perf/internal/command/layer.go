package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/layer"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/report"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// layerFlags declares the flags of rdmaperf stream and rdmaperf message.
func layerFlags(f *pflag.FlagSet, o *layer.Options, json *bool) {
	o.Timeout, o.Patience = 30*time.Second, 3*time.Second
	f.IntVarP(&o.Port, "port", "p", wire.DefaultPort, "TCP `port` of the exchange; raw verbs use the next port")
	f.StringVar(&o.Bind, "bind", "", "`address` that the server's exchange listens on (default: all)")
	f.StringVar(&o.Address, "address", "",
		"`address` of the server's device (default: the address that the client reached over TCP)")
	f.StringVarP(&o.Device, "ib-dev", "d", "",
		"RDMA `device` of this end (default: the device that has the address)")
	o.Size = 0
	f.VarP(length(&o.Size), "size", "s", "message size, such as 64, 4K or 1M (default: bw 64K, lat 8)")
	f.BoolVarP(&o.All, "all", "a", false, "all powers of two from 2 to 8M, or to -s")
	f.IntVarP(&o.Messages, "iters", "n", 0,
		"`messages` per size, over all connections (default: enough for a short run)")
	f.IntVarP(&o.Conns, "connections", "q", 1, "number of `connections` (bw)")
	f.Var(carriers(&o.Compare), "compare", "`carriers` to compare with: send (rdmaperf send, raw verbs), send-e "+
		"(the same, sleeping), tcp, copy (copies of a stream), buffer (messages without a copy), stream, message "+
		"(without a list: send, tcp and, for bw, copy)")
	f.Lookup("compare").NoOptDefVal = "all"
	f.IntVar(&o.Rounds, "rounds", 0,
		"`number` of runs of each; the table shows the median run (default: 1; 5 with --compare)")
	f.Var(length(&o.Block), "block", "block size of this end (default: that of package rdma)")
	f.DurationVar(&o.Spin, "spin", 0,
		"`time` that this end polls for a reply before it sleeps (default: that of package rdma)")
	f.BoolVar(json, "json", false, "one JSON object with all runs instead of a table")
	f.Var(seconds(&o.Timeout), "timeout", "time without progress after which the run fails")
	f.Var(seconds(&o.Patience), "retry", "time for which the client tries to reach the server")
}

// carriers is a list of what runs.
func carriers(at *[]layer.Carrier) pflag.Value {
	return value[[]layer.Carrier]{at: at, kind: "carriers", read: func(t string) (list []layer.Carrier, _ error) {
		for s := range strings.SplitSeq(t, ",") {
			list = append(list, layer.Carrier(s))
		}
		return list, nil
	}, show: func([]layer.Carrier) string { return "" }}
}

const layerUsage = `rdmaperf stream and rdmaperf message measure package rdma between two hosts: bandwidth or latency,
and for both ends CPU time, allocations and wake-ups. With --compare they measure
raw verbs, TCP or a plain copy in alternating rounds.

  rdmaperf {stream|message} {bw|lat} [options]             server: serves one client
  rdmaperf {stream|message} {bw|lat} [options] SERVER      client

The client sends its options to the server: give sizes and numbers to the client only.

{flags}
Exit status: 0 success, 1 failure, 2 wrong usage.
`

// layer is rdmaperf stream, or rdmaperf message.
func (v *invocation) layer(what layer.Carrier) *cobra.Command {
	var o layer.Options
	var json bool
	c := &cobra.Command{Use: string(what) + " {bw|lat} [options] [SERVER]", Long: layerUsage,
		Short: "bandwidth and latency of package rdma, of a " + string(what), ValidArgs: []string{"bw", "lat"}}
	layerFlags(c.Flags(), &o, &json)
	c.Args = func(c *cobra.Command, words []string) (err error) {
		o.Carrier = what
		o, err = completeLayer(c.Flags(), o, words)
		return err
	}
	c.Run = func(c *cobra.Command, _ []string) { v.code = v.runLayer(c.Context(), o, json) }
	return c
}

// completeLayer adds the words of the command line, and what is left to choose.
func completeLayer(f *pflag.FlagSet, o layer.Options, words []string) (_ layer.Options, err error) {
	if len(words) == 0 {
		return o, errors.New("no command; usage: rdmaperf {stream|message} {bw|lat} [options] [SERVER]")
	}
	if o.Metric, err = wire.ParseMetric(words[0]); err != nil {
		return o, err
	}
	if o.Host, err = onlyServer(words[1:]); err != nil {
		return o, err
	}
	for _, n := range []string{"iters", "connections", "rounds"} {
		if fl := f.Lookup(n); fl.Changed && fl.Value.String() == "0" {
			return o, fmt.Errorf("--%s 0 < 1", n)
		}
	}
	if slices.Equal(o.Compare, []layer.Carrier{"all"}) {
		o.Compare = []layer.Carrier{layer.Raw, layer.TCP, layer.Copy}
		if o.Metric == wire.Latency {
			o.Compare = o.Compare[:2]
		}
	}
	return layer.New(o)
}

func (v *invocation) runLayer(ctx context.Context, o layer.Options, json bool) int {
	stdout, stderr := v.stdout, v.stderr
	res, err := layer.Measure(ctx, o, layer.Hooks{Waiting: func(port int) {
		fmt.Fprintf(stderr, "rdmaperf: waiting for a client on TCP port %d\n", port)
	}})
	if json {
		if jerr := report.LayerJSON(stdout, &o, res, program(), v.args, report.ThisHost(), err); jerr != nil {
			err = errors.Join(err, jerr)
		}
	} else if len(res.Runs) > 0 {
		report.Layer(stdout, &o, res)
	}
	if err != nil {
		sayFailed(ctx, stderr, err)
		return exitFailure
	}
	return exitOK
}
