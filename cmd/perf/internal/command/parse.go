package command

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/report"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// note says that an option has no effect.
func (o *options) note(f *pflag.Flag, why string) {
	n := flagName(f) + " has no effect here: " + strings.TrimPrefix(why, flagName(f)+": ")
	if !slices.Contains(o.notes, n) {
		o.notes = append(o.notes, n)
	}
}

// parse reads the command line of a test and makes a plan of it.
func parse(args []string) (*options, error) { return read(args, &options{}, nil) }

// parsePerftest is parse for a command line of perftest. Options that perftest takes, and that have no effect next to
// the others, are left out.
func parsePerftest(args []string) (*options, error) {
	var without []*plan.Unfit
	left := func(u *plan.Unfit) bool {
		return slices.ContainsFunc(without, func(w *plan.Unfit) bool { return w.Option == u.Option })
	}
	for {
		o, err := read(args, &options{perftest: true}, without)
		if err == nil {
			return o, nil
		}
		var unfit []*plan.Unfit
		var refused []error
		for _, e := range split(err) {
			if u, ok := e.(*plan.Unfit); ok && !left(u) {
				unfit = append(unfit, u)
			} else {
				refused = append(refused, e)
			}
		}
		if refused != nil {
			return nil, errors.Join(refused...)
		}
		without = append(without, unfit...)
	}
}

// read makes a plan of a command line, without some of its options.
func read(args []string, o *options, without []*plan.Unfit) (*options, error) {
	f := flagSet(o)
	set := func(fl *pflag.Flag, value string) error {
		if o.perftest && fl.Name == "connection" && o.asked.Transport == wire.RawEth {
			o.note(fl, "raw Ethernet is the connection type of this test")
			return nil
		}
		if i := slices.IndexFunc(without, func(u *plan.Unfit) bool { return u.Option == fl.Name }); i >= 0 {
			o.note(fl, without[i].Reason)
			return nil
		}
		return f.Set(fl.Name, value)
	}
	if err := f.ParseAll(args, set); err != nil {
		return nil, unknown(err, f)
	}
	if f.Changed("help") {
		return nil, errHelp
	}
	if f.Changed("version") {
		return nil, errVersion
	}
	return o, o.finish(f, f.Args())
}

// finish makes a plan of the flags and the words of a command line.
func (o *options) finish(f *pflag.FlagSet, words []string) (err error) {
	if err = o.readWords(words); err != nil {
		return err
	}
	if err = o.together(f); err != nil {
		return err
	}
	if a := &o.asked; a.Load.WarmUp && (a.Metric != wire.Bandwidth || a.Verb.Consumes()) {
		a.Load.WarmUp = false
		o.note(f.Lookup("perform-warm-up"), "only write, read and atomic bw have a warm-up, as in perftest")
	}
	for _, step := range []func(*pflag.FlagSet) error{o.asPerftest, o.place, o.setTransport, o.setOutput, o.setLimits} {
		if err = step(f); err != nil {
			return err
		}
	}
	o.asked.Link.GIDIndex = max(o.asked.Link.GIDIndex, plan.Auto) // any negative one
	if o.rails, err = plan.Rails(o.asked); err != nil {
		return err
	}
	o.plan = o.rails[0]
	if of := o.limits.EachOf; of != 0 && !slices.Contains(o.plan.Sizes(), of) {
		return fmt.Errorf("limit (--min-bw) of %d bytes: the test does not have that size (-s, -a, --sizes)", of)
	}
	if o.ownFile != "" && o.ownFile == o.jsonFile {
		return errors.New("give --json-file and --out-json-file different files")
	}
	if len(o.rails) > 1 && f.Changed("agent") {
		return errors.New("--agent: serves one connection; give one device (-d) and one server")
	}
	return nil
}

// readWords reads the verb, the metric and the server.
func (o *options) readWords(w []string) (err error) {
	if len(w) == 1 {
		if _, err := wire.ParseVerb(w[0]); err != nil {
			return fmt.Errorf("unknown command %.100q; commands: write, read, send, atomic, %s", w[0],
				strings.Join(commandNames, ", "))
		}
	}
	if len(w) < 2 {
		return errors.New("no command; usage: rdmaperf {write|read|send|atomic} {bw|lat} [options] [SERVER]")
	}
	if o.asked.Verb, err = wire.ParseVerb(w[0]); err != nil {
		return err
	}
	if o.writeImm && o.asked.Verb == wire.Write {
		o.asked.Verb = wire.WriteImm
	} else if o.writeImm && o.asked.Verb != wire.WriteImm {
		return fmt.Errorf("--write-with-imm: only for write, not for %v", o.asked.Verb)
	}
	if o.asked.Metric, err = wire.ParseMetric(w[1]); err != nil {
		return err
	}
	o.asked.Peer.Host, err = onlyServer(w[2:])
	return err
}

// onlyServer reads the server from what follows the test.
func onlyServer(w []string) (string, error) {
	switch len(w) {
	case 0:
		return "", nil
	case 1:
		return serverName(w[0])
	}
	return "", fmt.Errorf("%d arguments too many: %s", len(w)-1, strings.Join(w[1:], " "))
}

// setTransport completes what depends on the kind of connection.
func (o *options) setTransport(f *pflag.FlagSet) error {
	c := &o.asked
	if c.Multicast && !f.Changed("connection") {
		c.Transport = wire.UD // as perftest
	}
	if c.Transport == wire.RawEth {
		o.setFrames(f)
	} else if err := o.noFrames(f); err != nil {
		return err
	}
	c.Peer.Bind = cmp.Or(c.Peer.Bind, o.source)
	if fr := &c.Frames; f.Changed("source-ip") && c.Transport != wire.RawEth {
		// perftest 6.06 has this name for --bind-source-ip.
		c.Peer.Bind, fr.Client = cmp.Or(c.Peer.Bind, fr.Client.String()), netip.Addr{}
	}
	switch {
	case o.rawIPv6 && !c.Frames.IP():
		return &plan.Unfit{Option: "raw-ipv6", Reason: "--raw-ipv6: needs IPv6 addresses (-J, -j)"}
	case o.rawIPv6 && !c.Frames.IPv6():
		return errors.New("--raw-ipv6: needs IPv6 addresses (-J, -j)")
	case f.Changed("server") && c.Peer.Host != "":
		return errors.New("--server: give no SERVER")
	case f.Changed("tos") && !c.Peer.RDMACM && c.Transport != wire.RawEth:
		return errors.New("type of service (--tos, -T): needs rdma_cm (-R) or frames (-c RawEth); without them use " +
			"--tclass")
	case f.Changed("agent") && (o.agentPort < 1 || o.agentPort > 65535 || c.Peer.Host == "" || c.Peer.RDMACM ||
		c.Peer.CMExchange):
		return fmt.Errorf("--agent %d: needs a client, a TCP port from 1 to 65535, and neither -R nor -z", o.agentPort)
	}
	return nil
}

// setOutput completes what is printed.
func (o *options) setOutput(*pflag.FlagSet) error {
	o.counterNames = slices.Clone(o.asked.Report.CounterNames)
	for i, n := range o.counterNames {
		o.asked.Report.CounterNames[i] = path.Base(n) // perftest's have their folder in front
	}
	switch {
	case o.json:
		o.format = formatJSON
	case o.csv:
		o.format = formatCSV
	}
	if o.outJSON && o.jsonFile == "" {
		o.jsonFile = "perftest_out.json"
	}
	switch {
	case o.format == formatCSV && (o.histogram || o.asked.Report.Unsorted):
		return errors.New("histogram and samples (-H, -U): not with --csv; use --json")
	case o.format == formatCSV && o.asked.Report.HWTimestamps:
		return errors.New("timestamps of the adapter (--hw-timestamps): not with --csv; use --json")
	case o.histogram && o.asked.Metric != wire.Latency:
		return errors.New("histogram (-H): only for latency tests")
	}
	return o.checkOnly()
}

// setLimits completes the limits, and returns why this end has none of those, or nil.
func (o *options) setLimits(f *pflag.FlagSet) error {
	c, g := &o.asked, &o.given
	o.limits = measure.Limits{MinBits: g.bandwidth * measure.Units(c.Report.Gbits), MiB: g.bandwidth > 0 &&
		!c.Report.Gbits,
		EachBits: g.each.limit * 1e9, EachOf: g.each.of,
		MinRate: g.rate * 1e6, MaxP50Ns: g.median * 1e3, MaxP99Ns: g.p99 * 1e3}
	slow := o.limits.MinBits > 0 || o.limits.MinRate > 0 || o.limits.EachBits > 0
	late := o.limits.MaxP50Ns > 0 || o.limits.MaxP99Ns > 0
	switch {
	case slow && c.Metric == wire.Latency:
		var list []error
		for _, name := range []string{"limit-bw", "limit-msgrate", "min-bw"} {
			if f.Changed(name) {
				list = append(list, &plan.Unfit{Option: name,
					Reason: "limits of bandwidth and rate (-w, -y, --min-bw): only for bandwidth tests"})
			}
		}
		return errors.Join(list...)
	case late && c.Metric == wire.Bandwidth:
		return errors.New("limits of latency (--max-lat, --max-p99): only for latency tests")
	case late && c.Verb.Fetches() && (c.Peer.Host == "") != c.Load.Reversed:
		return fmt.Errorf("limits (--max-lat, --max-p99): this end of %v lat measures nothing, "+
			"give them to the client (with --reversed to the server)", c.Verb)
	}
	return nil
}

// checkOnly returns why --output does not fit the other options, or nil.
func (o *options) checkOnly() error {
	const why = "--output: not with a histogram (-H), samples (-U) or --hw-timestamps"
	bw := o.asked.Metric == wire.Bandwidth
	switch {
	case o.only == "":
		return nil
	case o.format != formatText:
		return errors.New("--output: not with --json or --csv")
	case bw && o.only != report.OnlyBandwidth && o.only != report.OnlyRate, !bw && o.only != report.OnlyLatency:
		return fmt.Errorf("--output %q; allowed: %s and %s of bw, %s of lat", o.only, report.OnlyBandwidth,
			report.OnlyRate, report.OnlyLatency)
	case o.histogram:
		return &plan.Unfit{Option: "report-histogram", Reason: why}
	case o.asked.Report.Unsorted:
		return &plan.Unfit{Option: "report-unsorted", Reason: why}
	case o.asked.Report.HWTimestamps:
		return errors.New(why)
	}
	return nil
}

// place sets the kind of memory: at most one is given.
func (o *options) place(f *pflag.FlagSet) error {
	m := &o.asked.Memory
	var given []string
	for _, k := range []struct {
		name string
		on   bool
		kind plan.MemoryKind
	}{
		{"use-hugepages", o.hugePages, plan.HugePages},
		{"mmap", f.Changed("mmap"), plan.File},
		{"use-dm", o.deviceMemory, plan.DeviceMemory},
		{"use-cuda", f.Changed("use-cuda"), plan.CUDA},
		{"use-cuda-bus-id", f.Changed("use-cuda-bus-id"), plan.CUDA},
	} {
		if k.on {
			m.Kind, given = k.kind, append(given, "--"+k.name)
		}
	}
	if len(given) > 1 {
		why := fmt.Sprintf("more than one kind of memory: give only one of %s", strings.Join(given, ", "))
		if o.hugePages {
			return &plan.Unfit{Option: "use-hugepages", Reason: why} // perftest's are of host memory
		}
		return errors.New(why)
	}
	m.OnDemand = m.OnDemand || m.Implicit
	return nil
}
