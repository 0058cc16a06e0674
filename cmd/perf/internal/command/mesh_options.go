package command

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/mesh"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/schedule"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/starve"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

type meshOptions struct {
	agentOptions
	kube    kubeOptions
	from    meshHosts
	out     meshOutput
	config  mesh.Config // what needs nothing but a flag
	verb    string
	size    uint64
	latSize uint64
	test    wire.Params
}

// meshHosts is where the hosts come from.
type meshHosts struct {
	hosts    []string
	hostfile string
	service  string
	launch   string
	listen   string
	join     string
	place    roster.Place // of this process among those that a launcher started
	ranked   bool         // it has one, and the others are its hosts
}

// meshOutput has the forms and files of the output.
type meshOutput struct {
	matrix   bool
	good     string // files
	bad      string
	unknown  string
	form     string // of them
	json     bool
	jsonFile string
	failSlow bool
}

func (m *meshOptions) flags(f *pflag.FlagSet) {
	f.SortFlags = false
	m.hostFlags(f)
	m.pairFlags(f)
	m.out.flags(f)
	m.testFlags(f)
	c := &m.config
	c.Timeout, c.Patience, c.Beat = 30*time.Second, 10*time.Second, agent.DefaultBeat
	f.Var(seconds(&c.Timeout), "timeout", "time for a test to begin, and for an agent to answer a dial")
	f.Var(seconds(&c.Patience), "retry",
		"time for which agents are dialed, or without another one that dials in, until the rest is given up")
	f.Var(seconds(&c.Beat), "heartbeat", "time between heartbeats of agents: without three of them a host is lost")
	m.agentOptions.flags(f)
	for name, v := range map[string]string{"hosts": "[]", "duration": "0", "slow": "10%", "until": "0",
		"cpu-wait": "10%"} {
		f.Lookup(name).DefValue = v
	}
}

func (m *meshOptions) hostFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&m.from.hosts, "hosts", nil, "`hosts`, separated by commas")
	f.StringVar(&m.from.hostfile, "hostfile", "", "`file` with one host per line")
	f.StringVar(&m.from.service, "service", "", "DNS `name` that has the addresses of all hosts")
	f.StringVar(&m.from.launch, "launch", "", "`command` that starts an agent on each host")
	m.kube.flags(f)
	f.StringVar(&m.from.listen, "listen", "",
		"`address:port` where agents dial in (default: any port of all addresses)")
	f.StringVar(&m.from.join, "join", "", "`address` of rank 0, for the others: HOST or HOST:PORT (default: of Slurm)")
	f.IntVar(&m.config.Expect, "expect", 0, "number of `hosts` to wait for (default: as the launcher says)")
	f.BoolVar(&m.config.Strict, "strict-hosts", false,
		"measure nothing unless all hosts come, with this token and release")
}

func (m *meshOptions) pairFlags(f *pflag.FlagSet) {
	c := &m.config
	f.StringVar((*string)(&c.Order), "order", string(schedule.Rounds),
		"`order` of the pairs: rounds (disjoint pairs at the same time), single (one at a time), all (all at once), "+
			"ring (each host to the next), incast (all others to one host, each in turn), outcast (the reverse) or "+
			"bisection (one half to the other)")
	f.IntVar(&c.Rounds, "rounds", 0, "`number` of other hosts that each host is measured with (default: all)")
	f.Var(percent(&c.Until), "until", "measure more rounds until a NIC with less bandwidth, or more latency, by this "+
		"`share` would be named in 95% of runs; --slow is then half of it, unless it is given")
	f.StringVar((*string)(&c.Rails), "rails", string(mesh.SameRail),
		"which `NICs` of two hosts: same (of the same name) or all "+
			"(each with each)")
	c.Reach = 3 * time.Second
	f.Var(seconds(&c.Reach), "reach",
		"time for a first small message between each two NICs, before anything is "+
			"measured; one that reaches nobody is named and left out (0: no such message)")
	f.BoolVar(&c.Confirm, "confirm", false,
		"measure slow hosts again, alone and with good ones, and slow pairs, and "+
			"compare them with pairs of good ones alone")
}

func (m *meshOutput) flags(f *pflag.FlagSet) {
	f.BoolVar(&m.matrix, "matrix", false, "print matrices also of more than 32 hosts")
	f.StringVar(&m.good, "good-hosts", "",
		"`file` for the names of the hosts all of whose NICs were measured, and "+
			"are in order")
	f.StringVar(&m.bad, "bad-hosts", "", "`file` for the names of those that are slow, stalled, dark or lost")
	f.StringVar(&m.unknown, "unknown-hosts", "", "`file` for the names of all others: nobody knows")
	f.StringVar(&m.form, "hosts-form", "plain", "`form` of these files: plain (a name in each line) or slurm "+
		"(as node[1-3,7])")
}

func (m *meshOptions) testFlags(f *pflag.FlagSet) {
	f.StringVar(&m.verb, "verb", "write", "`verb`: write, read or send")
	m.size, m.latSize = 64<<10, 2
	f.VarP(size(&m.size), "size", "s", "message size of the bandwidth tests")
	f.Var(size(&m.latSize), "lat-size", "message size of the latency tests")
	f.Uint64VarP(&m.test.Iters, "iters", "n", 1000, "`messages` per test")
	f.VarP(seconds(&m.test.Duration), "duration", "D", "run time of each test, instead of a number of messages")
	f.IntVarP(&m.test.QPs, "qp", "q", 1, "number of `queue pairs` of the bandwidth tests")
	c := &m.config
	c.Outliers.Share, c.CPUWait, c.Stall = 0.1, starve.Limit, time.Second
	f.Var(percent(&c.Outliers.Share), "slow",
		"smallest distance of a slow figure from the median of its group, as a `share`")
	f.Float64Var(&c.Outliers.Deviations, "deviations", 5,
		"smallest distance of a slow figure from the median, in median absolute `deviations`")
	f.Var(seconds(&c.Stall), "stall",
		"time after which a host that stands still, or a message of a latency test, is named; 0: none is")
	f.Var(percent(&c.CPUWait), "cpu-wait", "largest `share` of a test's time that its threads may wait for CPUs (run "+
		"delay, steal, throttling); one that waits longer is repeated, and then compared with nothing (0: any)")
	f.BoolVar(&m.out.failSlow, "fail-slow", false,
		"exit with 3 if a host or pair is slow, or stood still, or else with 4 "+
			"if a host is unknown")
	f.BoolVar(&m.out.json, "json", false, "one JSON object instead of the tables")
	f.StringVar(&m.out.jsonFile, "json-file", "", "`file` for the JSON object, written whole at the end")
}
