package command

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/payload"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
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
	notes     []string // which options have no effect, and why
	agentPort int      // of rdmaperf serve, which is asked for the server; 0: the server is there
	tokenFile string   // of that agent

	table []section
	// Values of flags from which finish makes the fields above.
	writeImm, rawIPv6, rawMulticast, json, csv, outJSON, hugePages, deviceMemory bool

	counterNames []string // of port counters, as they were given

	perftest bool   // the command line is one of perftest's
	source   string // address of the client's connection
	priority uint8  // of the VLAN
	given    struct {
		bandwidth, rate, median, p99 float64
		each                         sized
		static                       bool // the rate is InfiniBand's static one
		local, remote                netip.Addr
		localPort, remotePort        uint16
	}
}

var (
	errHelp    = errors.New("help")
	errVersion = errors.New("version")
)

// flagSet declares the flags of the table. Names may be written with - or _.
func flagSet(o *options) *pflag.FlagSet {
	c := &o.asked
	c.Link.IBPort, c.Peer.Port, c.Queues.QPs, c.Queues.Threads, c.Queues.PostList = 1, wire.DefaultPort, 1, 1, 1
	c.Link.GIDIndex, c.Queues.Inline, c.Load.Margin, c.Place.Node = plan.Auto, plan.Auto, plan.Auto, plan.Auto
	c.Link.QPTimeout, c.Peer.RetryCount, c.Peer.Timeout, c.Peer.Patience = plan.DefaultQPTimeout, 7, 30*time.Second,
		3*time.Second
	c.Atomic, c.Report.LatencyDef, c.Load.Rate.Unit, o.priority = wire.FetchAdd, plan.RoundTrip, plan.GbitPerSecond, 1

	f := pflag.NewFlagSet("rdmaperf", pflag.ContinueOnError)
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

// never refuses a value.
func never(value, why string) check {
	return func(f *pflag.Flag) error {
		if f.Value.String() != value {
			return nil
		}
		return fmt.Errorf("%s%s", flagName(f), why)
	}
}

// unfit is a check of options that perftest takes nevertheless.
func unfit(refuses check) check {
	return func(f *pflag.Flag) error {
		if err := refuses(f); err != nil {
			return &plan.Unfit{Option: f.Name, Reason: err.Error()}
		}
		return nil
	}
}

var (
	positive  = never("0", " 0 < 1")
	orDefault = unfit(positive)
	limiting  = unfit(never("0", " 0 is no limit: give a number above 0"))
	filled    = never("", " is empty")
	aboveZero = never("0s", " 0s; give a time above 0")
)

func priority(f *pflag.Flag) error {
	if n, err := strconv.Atoi(f.Value.String()); err != nil || n > plan.EachPriority {
		return fmt.Errorf("priority (--vlan-pcp) %s; allowed: 0 to 7, or %d for all in turn", f.Value,
			plan.EachPriority)
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
		f.VarP(whole(v), name, letter, r.text)
	case *int64:
		f.VarP(whole(v), name, letter, r.text)
	case *uint8:
		f.VarP(whole(v), name, letter, r.text)
	case *uint16:
		f.VarP(whole(v), name, letter, r.text)
	case *uint64:
		f.VarP(whole(v), name, letter, r.text)
	case func(string) error:
		f.FuncP(name, letter, r.text, v)
	case pflag.Value:
		f.VarP(v, name, letter, r.text)
	default:
		panic(fmt.Sprintf("rdmaperf: flag --%s has a value of type %T", name, v))
	}
	// --help shows a default that is a number above 0, unless the text says what the default is.
	switch fl := f.Lookup(name); r.value.(type) {
	case nil, *bool, *string, *[]string:
	default:
		if strings.Contains(r.text, "(default") || slices.Contains([]string{"0s", "[]", "invalid IP",
			"[0 0 0 0 0 0]"}, fl.DefValue) {
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
			switch fits := row.fits(o.asked.Verb.String(), o.asked.Metric.String()); {
			case row.refused != "":
				return fmt.Errorf("%s: %s", flagName(fl), row.refused)
			case row.idle != "" && !fits:
				return fmt.Errorf("%s: only for %s", flagName(fl), row.tests)
			case row.idle != "":
				o.note(fl, row.idle)
			}
			if row.check != nil {
				if err := row.check(fl); err != nil {
					return err
				}
			}
			if least, most := row.only[0], row.only[1]; o.perftest && most != 0 {
				if n, err := strconv.ParseInt(fl.Value.String(), 10, 64); err != nil || n < least || n > most {
					return fmt.Errorf("%s %v; perftest allows %d to %d", flagName(fl), fl.Value, least, most)
				}
			}
			for other := range strings.FieldsSeq(row.excludes) {
				if f.Changed(other) {
					return &plan.Unfit{Option: other, Reason: fmt.Sprintf("give %s or %s, not both", flagName(fl),
						flagName(f.Lookup(other)))}
				}
			}
			if row.needs.flag != "" && !f.Changed(row.needs.flag) {
				return &plan.Unfit{Option: fl.Name, Reason: fmt.Sprintf("%s needs %v", flagName(fl), row.needs)}
			}
		}
	}
	return nil
}

// flagName returns the names of a flag, to print.
func flagName(f *pflag.Flag) string {
	if f.Shorthand == "" {
		return "--" + f.Name
	}
	return "--" + f.Name + " (-" + f.Shorthand + ")"
}

// rateType reads perftest's type of a rate limit.
func (o *options) rateType(t string) error {
	switch t {
	case "SW", "HW", "PP":
		o.asked.Load.Rate.Hardware, o.given.static = t != "SW", t == "HW"
		return nil
	}
	return fmt.Errorf("type of rate (--rate-limit-type) %q; allowed: SW, HW and PP (as HW)", t)
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
