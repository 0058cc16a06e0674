package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/payload"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/report"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// Formats of what is printed.
const (
	formatText = ""
	formatJSON = "json"
	formatCSV  = "csv"
)

type options struct {
	asked     plan.Options
	plan      plan.Plan   // what was asked for, checked and completed
	rails     []plan.Plan // one for each of several devices and servers
	format    string
	only      string // the one figure that the text is
	jsonFile  string // file that also gets perftest's JSON object
	ownFile   string // file that also gets the JSON object of --json
	limits    measure.Limits
	histogram bool
	ignored   string // what was asked for and has no effect
	agentPort int    // of perf serve, which is asked for the server; 0: the server is there
	tokenFile string // of that agent

	table []section
	// Values of flags from which finish makes the fields above.
	writeImm, rawIPv6, json, csv, outJSON, hugePages, deviceMemory bool

	counterNames []string // of port counters, as they were given

	source   string // address of the client's connection
	priority uint8  // of the VLAN
	given    struct {
		bandwidth, rate, median, p99 limit
		each                         sizedLimit
	}
}

var (
	errHelp    = errors.New("help")
	errVersion = errors.New("version")
)

// flagSet declares the flags of the table. Names may be written with - or _.
func flagSet(o *options) *pflag.FlagSet {
	c := &o.asked
	c.IBPort, c.Port, c.QPs, c.Threads, c.PostList = 1, wire.DefaultPort, 1, 1, 1
	c.GIDIndex, c.Inline, c.Margin, c.Node = plan.Auto, plan.Auto, plan.Auto, plan.Auto
	c.QPTimeout, c.RetryCount, c.Timeout, c.Patience = plan.DefaultQPTimeout, 7, 30*time.Second, 3*time.Second
	c.Atomic, c.LatencyDef, c.Rate.Unit, o.priority = wire.FetchAdd, plan.RoundTrip, plan.GbitPerSecond, 1

	f := pflag.NewFlagSet("perf", pflag.ContinueOnError)
	f.SortFlags = false
	f.Usage = func() {}
	f.SetNormalizeFunc(normal)
	o.table = table(o)
	for _, s := range o.table {
		for _, row := range s.flags {
			row.declare(f)
			f.Lookup(row.name()).Hidden = s.title == hidden
		}
	}
	f.SetNormalizeFunc(abbreviated) // of what is on the command line
	return f
}

// need is a flag that another one needs, and what it gives.
type need struct{ what, flag string }

func (n need) String() string {
	if n.what == "" {
		return "--" + n.flag
	}
	return n.what + " (--" + n.flag + ")"
}

// check returns why a flag's value is refused, or nil.
type check func(*pflag.Flag) error

func positive(f *pflag.Flag) error {
	if f.Value.String() == "0" {
		return fmt.Errorf("--%s%s 0 < 1", f.Name, short(f))
	}
	return nil
}

func filled(f *pflag.Flag) error {
	if f.Value.String() == "" {
		return fmt.Errorf("--%s is empty", f.Name)
	}
	return nil
}

func aboveZero(f *pflag.Flag) error {
	if f.Value.String() == "0s" {
		return fmt.Errorf("--%s%s 0s; give a time above 0", f.Name, short(f))
	}
	return nil
}

func atLeastFive(f *pflag.Flag) error {
	if f.Value.String() == "0" {
		return errors.New("iterations (-n) 0 < 5") // 0 is the plan's default
	}
	return nil
}

// words splits the names of a row.
func (r *flagRow) words() (letter, name string, others []string) {
	w := strings.Fields(r.names)
	if len(w) > 1 && len(w[0]) == 1 {
		letter, w = w[0], w[1:]
	}
	return letter, w[0], w[1:]
}

func (r *flagRow) name() string { _, name, _ := r.words(); return name }

// declare adds a row to a set. The present value is the default.
func (r *flagRow) declare(f *pflag.FlagSet) {
	letter, name, _ := r.words()
	switch v := r.value.(type) {
	case nil:
		f.BoolP(name, letter, false, r.text)
	case *bool:
		f.BoolVarP(v, name, letter, *v, r.text)
	case *string:
		f.StringVarP(v, name, letter, *v, r.text)
	case *[]string:
		f.StringSliceVarP(v, name, letter, *v, r.text)
	case *int:
		f.VarP(whole[int]{v}, name, letter, r.text)
	case *int64:
		f.VarP(whole[int64]{v}, name, letter, r.text)
	case *uint8:
		f.VarP(whole[uint8]{v}, name, letter, r.text)
	case *uint16:
		f.VarP(whole[uint16]{v}, name, letter, r.text)
	case *uint64:
		f.VarP(whole[uint64]{v}, name, letter, r.text)
	case func(string) error:
		f.FuncP(name, letter, r.text, v)
	case pflag.Value:
		f.VarP(v, name, letter, r.text)
	default:
		panic(fmt.Sprintf("perf: flag --%s has a value of type %T", name, v))
	}
	// --help shows a default that is a number above 0, unless the text says what the default is.
	switch fl := f.Lookup(name); r.value.(type) {
	case nil, *bool, *string, *[]string:
	default:
		if strings.Contains(r.text, "(default") || slices.Contains([]string{"0s", "[]", "invalid IP",
			new(mac).String()}, fl.DefValue) {
			fl.DefValue = "0"
		}
	}
}

// fits reports whether a test has the flag. Empty verb and metric are any.
func (r *flagRow) fits(verb, metric string) bool {
	t := strings.Fields(r.tests)
	metrics := slices.DeleteFunc(slices.Clone(t), func(w string) bool { return w != "bw" && w != "lat" })
	verbs := slices.DeleteFunc(t, func(w string) bool { return slices.Contains(metrics, w) })
	in := func(list []string, word string) bool {
		return word == "" || len(list) == 0 || slices.Contains(list, word)
	}
	return in(verbs, verb) && in(metrics, metric)
}

// together returns why flags that were given do not go together, or nil.
func (o *options) together(f *pflag.FlagSet) error {
	for _, s := range o.table {
		for _, row := range s.flags {
			fl := f.Lookup(row.name())
			if !fl.Changed {
				continue
			}
			if row.check != nil {
				if err := row.check(fl); err != nil {
					return err
				}
			}
			for other := range strings.FieldsSeq(row.excludes) {
				if f.Changed(other) {
					return fmt.Errorf("give --%s%s or --%s%s, not both", fl.Name, short(fl), other,
						short(f.Lookup(other)))
				}
			}
			if row.needs.flag != "" && !f.Changed(row.needs.flag) {
				return fmt.Errorf("--%s%s needs %v", fl.Name, short(fl), row.needs)
			}
		}
	}
	return nil
}

// parse reads the command line of a test and makes a plan of it.
func parse(args []string) (*options, error) {
	o := &options{}
	f := flagSet(o)
	if err := f.Parse(args); err != nil {
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
	if err = o.together(f); err != nil {
		return err
	}
	if err = o.readWords(words); err != nil {
		return err
	}
	if a := &o.asked; a.WarmUp && (a.Metric != wire.Bandwidth || a.Verb.Consumes()) {
		a.WarmUp = false
		o.ignored = "warm-up (--perform-warm-up): no effect, as in perftest: only write, read and atomic bw have one"
	}
	for _, step := range []func(*pflag.FlagSet) error{o.place, o.setTransport, o.setOutput, o.setLimits} {
		if err = step(f); err != nil {
			return err
		}
	}
	o.asked.GIDIndex = max(o.asked.GIDIndex, plan.Auto) // any negative one
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
		return errors.New("no command; usage: perf {write|read|send|atomic} {bw|lat} [options] [SERVER]")
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
	o.asked.Host, err = onlyServer(w[2:])
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
	c.Bind = cmp.Or(c.Bind, o.source)
	if fr := &c.Frames; f.Changed("source-ip") && c.Transport != wire.RawEth {
		// perftest 6.06 has this name for --bind-source-ip.
		c.Bind, fr.Client = cmp.Or(c.Bind, fr.Client.String()), netip.Addr{}
	}
	if c.Frames.VLAN {
		c.Frames.Priority = o.priority
	}
	switch {
	case o.rawIPv6 && !c.Frames.IPv6():
		return errors.New("--raw-ipv6: needs IPv6 addresses (-J, -j)")
	case f.Changed("server") && c.Host != "":
		return errors.New("--server: give no SERVER")
	case f.Changed("tos") && !c.RDMACM && c.Transport != wire.RawEth:
		return errors.New("type of service (--tos, -T): needs rdma_cm (-R) or frames (-c RawEth); without them use " +
			"--tclass")
	case f.Changed("agent") && (o.agentPort < 1 || o.agentPort > 65535 || c.Host == "" || c.RDMACM || c.CMExchange):
		return fmt.Errorf("--agent %d: needs a client, a TCP port from 1 to 65535, and neither -R nor -z", o.agentPort)
	}
	return nil
}

// setOutput completes what is printed.
func (o *options) setOutput(*pflag.FlagSet) error {
	o.counterNames = slices.Clone(o.asked.CounterNames)
	for i, n := range o.counterNames {
		o.asked.CounterNames[i] = path.Base(n) // perftest's have their folder in front
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
	case o.format == formatCSV && (o.histogram || o.asked.Unsorted):
		return errors.New("histogram and samples (-H, -U): not with --csv; use --json")
	case o.format == formatCSV && o.asked.HWTimestamps:
		return errors.New("timestamps of the adapter (--hw-timestamps): not with --csv; use --json")
	case o.histogram && o.asked.Metric != wire.Latency:
		return errors.New("histogram (-H): only for latency tests")
	}
	return o.checkOnly()
}

// setLimits completes the limits, and returns why this end has none of those, or nil.
func (o *options) setLimits(*pflag.FlagSet) error {
	c, g := &o.asked, &o.given
	o.limits = measure.Limits{MinBits: float64(g.bandwidth) * measure.Units(c.Gbits), MiB: g.bandwidth > 0 && !c.Gbits,
		EachBits: float64(g.each.limit) * 1e9, EachOf: uint64(g.each.of),
		MinRate: float64(g.rate) * 1e6, MaxP50Ns: float64(g.median) * 1e3, MaxP99Ns: float64(g.p99) * 1e3}
	slow := o.limits.MinBits > 0 || o.limits.MinRate > 0 || o.limits.EachBits > 0
	late := o.limits.MaxP50Ns > 0 || o.limits.MaxP99Ns > 0
	switch {
	case slow && c.Metric == wire.Latency:
		return errors.New("limits of bandwidth and rate (-w, -y, --min-bw): only for bandwidth tests")
	case late && c.Metric == wire.Bandwidth:
		return errors.New("limits of latency (--max-lat, --max-p99): only for latency tests")
	case late && c.Verb.Fetches() && (c.Host == "") != c.Reversed:
		return fmt.Errorf("limits (--max-lat, --max-p99): this end of %v lat measures nothing, "+
			"give them to the client (with --reversed to the server)", c.Verb)
	}
	return nil
}

// checkOnly returns why --output does not fit the other options, or nil.
func (o *options) checkOnly() error {
	bw := o.asked.Metric == wire.Bandwidth
	switch {
	case o.only == "":
		return nil
	case o.format != formatText:
		return errors.New("--output: not with --json or --csv")
	case bw && o.only != report.OnlyBandwidth && o.only != report.OnlyRate, !bw && o.only != report.OnlyLatency:
		return fmt.Errorf("--output %q; allowed: %s and %s of bw, %s of lat", o.only, report.OnlyBandwidth,
			report.OnlyRate, report.OnlyLatency)
	case o.histogram || o.asked.Unsorted || o.asked.HWTimestamps:
		return errors.New("--output: not with a histogram (-H), samples (-U) or --hw-timestamps")
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
		return fmt.Errorf("more than one kind of memory: give only one of %s", strings.Join(given, ", "))
	}
	m.OnDemand = m.OnDemand || m.Implicit
	return nil
}

// short returns a flag's letter, to print after its long name.
func short(f *pflag.Flag) string {
	if f.Shorthand == "" {
		return ""
	}
	return " (-" + f.Shorthand + ")"
}

// byHardware reads perftest's type of a rate limit.
func byHardware(t string) (bool, error) {
	switch t {
	case "SW":
		return false, nil
	case "HW", "PP":
		return true, nil
	}
	return false, fmt.Errorf("type of rate (--rate-limit-type) %q; allowed: SW, HW and PP (as HW)", t)
}

func latencyDef(t string) (plan.LatencyDef, error) {
	for _, d := range []plan.LatencyDef{plan.RoundTrip, plan.ToCompletion} {
		if t == d.String() {
			return d, nil
		}
	}
	return 0, fmt.Errorf("latency definition (--lat-def) %q; allowed: perftest and cqe", t)
}

func readPayload(name string) ([]byte, error) {
	b, err := payload.Read(name)
	if err != nil {
		return nil, fmt.Errorf("payload (--payload-file-path): %w", err)
	}
	return b, nil
}
