package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/mesh"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/schedule"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/starve"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

const meshUsage = `perf mesh measures bandwidth and latency between all pairs of hosts, in both directions,
and names the slow pairs and hosts, and those that did not come or were lost. Each host runs an
agent (perf serve). Agents dial in:

  perf mesh --launch 'srun --ntasks-per-node=1 --no-kill --kill-on-bad-exit=0 --export=ALL'
  perf mesh --launch 'mpirun -x PERF_JOIN -x PERF_TOKEN --hostfile FILE'
  perf mesh --expect 2 --launch 'for h in a b; do
    printf %s $PERF_TOKEN | ssh $h "$@" --token-file - & done; wait'
  srun --ntasks-per-node=1 perf mesh        rank 0 measures, all others join it
  mpirun ... perf mesh --join HOST          the same; rank 0 is on HOST
  perf mesh --expect N --job-from CRONJOB   in a pod of Kubernetes: a Job starts the agents

or they stand ready, and this end dials:

  perf mesh --hosts a,b,c [options]         hosts; a:PORT for an agent on another port
  perf mesh --hostfile FILE [options]       hosts from a file: the first word of each line
  perf mesh --service NAME --expect N       all addresses of a DNS name (a headless service)

{flags}
--launch runs COMMAND with the shell, with "perf serve --join ..." behind it, or where COMMAND has
"$@". It sets PERF_JOIN, where this end listens, and PERF_TOKEN, a new secret; the launcher has to
pass them on.
All others need the same token on all hosts: --token-file, or PERF_TOKEN in the environment.

A host that does not come, is lost, or has no working adapter, another token or another release is
named, and the exit status is 1. The others are measured if at least two remain. A host that stood
still and went on is named as stalled. A NIC that reaches nobody is named, and its pairs are left
out; so are pairs between the sides of a split fabric. What a host's busy CPUs may have caused is
held against nobody (--cpu-wait).

Exit status: 0 success, 1 failure, also of a host or a pair, 2 wrong usage. With --fail-slow also 3:
a host or pair is slow or stalled, and 4: none is, but of a host nobody knows whether it is good.
`

type meshOptions struct {
	agentOptions
	hosts    []string
	hostfile string
	service  string
	expect   int
	launch   string
	kube     kubeOptions
	listen   string
	join     string
	strict   bool
	beat     time.Duration
	stall    time.Duration
	cpuWait  float64
	order    string
	rounds   int
	until    float64
	rails    string
	reach    time.Duration
	confirm  bool
	matrix   bool
	good     string // files
	bad      string
	unknown  string
	form     string // of them
	verb     string
	json     bool
	jsonFile string
	failSlow bool
	size     uint64
	latSize  uint64
	limits   mesh.Outliers
	test     wire.Params
	timeout  time.Duration
	patience time.Duration
	place    roster.Place // of this process among those that a launcher started
	ranked   bool         // it has one, and the others are its hosts
}

func (m *meshOptions) flags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringSliceVar(&m.hosts, "hosts", nil, "`hosts`, separated by commas")
	f.StringVar(&m.hostfile, "hostfile", "", "`file` with one host per line")
	f.StringVar(&m.service, "service", "", "DNS `name` that has the addresses of all hosts")
	f.StringVar(&m.launch, "launch", "", "`command` that starts an agent on each host")
	m.kube.flags(f)
	f.StringVar(&m.listen, "listen", "", "`address:port` where agents dial in (default: any port of all addresses)")
	f.StringVar(&m.join, "join", "", "`address` of rank 0, for the others: HOST or HOST:PORT (default: of Slurm)")
	f.IntVar(&m.expect, "expect", 0, "number of `hosts` to wait for (default: as the launcher says)")
	f.BoolVar(&m.strict, "strict-hosts", false, "measure nothing unless all hosts come, with this token and release")
	f.StringVar(&m.order, "order", string(schedule.Rounds),
		"`order` of the pairs: rounds (disjoint pairs at the same time), single (one at a time), all (all at once), "+
			"ring (each host to the next), incast (all others to one host, each in turn), outcast (the reverse) or "+
			"bisection (one half to the other)")
	f.IntVar(&m.rounds, "rounds", 0, "`number` of other hosts that each host is measured with (default: all)")
	until := percent(0)
	f.Var(&until, "until", "measure more rounds until a NIC with less bandwidth, or more latency, by this `share` "+
		"would be named in 95% of runs; --slow is then half of it, unless it is given")
	f.StringVar(&m.rails, "rails", string(mesh.SameRail), "which `NICs` of two hosts: same (of the same name) or all "+
		"(each with each)")
	m.reach = 3 * time.Second
	f.Var((*seconds)(&m.reach), "reach", "time for a first small message between each two NICs, before anything is "+
		"measured; one that reaches nobody is named and left out (0: no such message)")
	f.BoolVar(&m.confirm, "confirm", false, "measure slow hosts again, alone and with good ones, and slow pairs, and "+
		"compare them with pairs of good ones alone")
	f.BoolVar(&m.matrix, "matrix", false, "print matrices also of more than 32 hosts")
	f.StringVar(&m.good, "good-hosts", "", "`file` for the names of the hosts all of whose NICs were measured, and "+
		"are in order")
	f.StringVar(&m.bad, "bad-hosts", "", "`file` for the names of those that are slow, stalled, dark or lost")
	f.StringVar(&m.unknown, "unknown-hosts", "", "`file` for the names of all others: nobody knows")
	f.StringVar(&m.form, "hosts-form", "plain", "`form` of these files: plain (a name in each line) or slurm "+
		"(as node[1-3,7])")
	f.StringVar(&m.verb, "verb", "write", "`verb`: write, read or send")
	m.size, m.latSize = 64<<10, 2
	f.VarP((*size)(&m.size), "size", "s", "message size of the bandwidth tests")
	f.Var((*size)(&m.latSize), "lat-size", "message size of the latency tests")
	f.Uint64VarP(&m.test.Iters, "iters", "n", 1000, "`messages` per test")
	f.VarP((*seconds)(&m.test.Duration), "duration", "D", "run time of each test, instead of a number of messages")
	f.IntVarP(&m.test.QPs, "qp", "q", 1, "number of `queue pairs` of the bandwidth tests")
	share := percent(0.1)
	f.Var(&share, "slow", "smallest distance of a slow figure from the median of its group, as a `share`")
	f.Float64Var(&m.limits.Deviations, "deviations", 5,
		"smallest distance of a slow figure from the median, in median absolute `deviations`")
	m.stall = time.Second
	f.Var((*seconds)(&m.stall), "stall",
		"time after which a host that stands still, or a message of a latency test, is named; 0: none is")
	wait := percent(starve.Limit)
	f.Var(&wait, "cpu-wait", "largest `share` of a test's time that its threads may wait for CPUs (run delay, steal, "+
		"throttling); one that waits longer is repeated, and then compared with nothing (0: any)")
	f.BoolVar(&m.failSlow, "fail-slow", false, "exit with 3 if a host or pair is slow, or stood still, or else with 4 "+
		"if a host is unknown")
	f.BoolVar(&m.json, "json", false, "one JSON object instead of the tables")
	f.StringVar(&m.jsonFile, "json-file", "", "`file` for the JSON object, written whole at the end")
	m.timeout, m.patience, m.beat = 30*time.Second, 10*time.Second, agent.DefaultBeat
	f.Var((*seconds)(&m.timeout), "timeout", "time for a test to begin, and for an agent to answer a dial")
	f.Var((*seconds)(&m.patience), "retry",
		"time for which agents are dialed, or without another one that dials in, until the rest is given up")
	f.Var((*seconds)(&m.beat), "heartbeat", "time between heartbeats of agents: without three of them a host is lost")
	m.agentOptions.flags(f)
	for name, v := range map[string]string{"hosts": "[]", "duration": "0", "slow": "10%", "until": "0",
		"cpu-wait": "10%"} {
		f.Lookup(name).DefValue = v
	}
}

// check checks what can be checked without any host.
func (m *meshOptions) check(f *pflag.FlagSet, getenv func(string) string) (err error) {
	m.limits.Share = float64(*f.Lookup("slow").Value.(*percent))
	m.cpuWait = float64(*f.Lookup("cpu-wait").Value.(*percent))
	if m.until = float64(*f.Lookup("until").Value.(*percent)); m.until > 0 && !f.Changed("slow") {
		m.limits.Share = m.until / 2
	}
	given := 0
	for _, n := range []string{"launch", "job-from", "hosts", "hostfile", "service"} {
		if f.Changed(n) {
			given++
		}
	}
	if m.place = roster.Nowhere; given == 0 { // an option wins over the environment
		if m.place, err = roster.FindPlace(getenv); err != nil {
			return err
		}
	}
	if m.ranked = m.place.Rank >= 0; given > 1 || given == 0 && !m.ranked {
		return errors.New("give one of --launch, --job-from, --hosts, --hostfile and --service, or start perf mesh " +
			"with srun or mpirun")
	}
	if f.Changed("launch") && strings.TrimSpace(m.launch) == "" {
		return errors.New("--launch has no command")
	}
	if m.expect != 0 && (m.expect < 2 || m.expect > mesh.MostHosts) {
		return fmt.Errorf("--expect %d hosts; allowed: 2 to %d", m.expect, mesh.MostHosts)
	}
	if err := m.checkKube(f); err != nil {
		return err
	}
	if m.beat < 50*time.Millisecond || m.beat > time.Hour {
		return fmt.Errorf("--heartbeat %v; allowed: 50ms to 1h", m.beat)
	}
	if m.stall < 0 || m.stall > time.Hour {
		return fmt.Errorf("--stall %v; allowed: 0 to 1h", m.stall)
	}
	if m.ranked && m.expect == 0 {
		m.expect = m.place.Of
	}
	if m.ranked && m.expect < 2 {
		return fmt.Errorf("%d ranks; a mesh needs at least 2; for an indexed Job, give their number with --expect",
			m.expect)
	}
	if f.Changed("hosts") {
		if _, err := mesh.ParseHosts(m.hosts, m.port); err != nil {
			return err
		}
	}
	if m.service != "" && m.expect == 0 {
		return fmt.Errorf("--expect 0 addresses of --service; allowed: 2 to %d", mesh.MostHosts)
	}
	if !slices.Contains(schedule.Orders, schedule.Order(m.order)) {
		return fmt.Errorf("--order %q; allowed: rounds, single, all, ring, incast, outcast and bisection", m.order)
	}
	if f.Changed("rounds") && (m.rounds < 1 || m.order != string(schedule.Rounds)) {
		return fmt.Errorf("--rounds %d with --order %s; allowed: at least 1, with rounds", m.rounds, m.order)
	}
	if f.Changed("until") && (m.until <= 0 || m.until >= 1 || m.order != string(schedule.Rounds)) {
		return fmt.Errorf("--until %s with --order %s; allowed: above 0%% and below 100%%, with rounds",
			f.Lookup("until").Value, m.order)
	}
	if m.until > 0 && m.limits.Share >= m.until {
		return fmt.Errorf("--slow %s with --until %s; allowed: less, because no loss shows below --slow and the noise",
			f.Lookup("slow").Value, f.Lookup("until").Value)
	}
	if m.rails != string(mesh.SameRail) && m.rails != string(mesh.AllRails) {
		return fmt.Errorf("--rails %q; allowed: same and all", m.rails)
	}
	if m.reach < 0 || m.reach > 0 && m.reach < time.Millisecond || m.reach > time.Hour {
		return fmt.Errorf("--reach %v; allowed: 0, and 1ms to 1h", m.reach)
	}
	if m.form != "plain" && m.form != "slurm" {
		return fmt.Errorf("--hosts-form %q; allowed: plain and slurm", m.form)
	}
	if m.test.Verb, err = wire.ParseVerb(m.verb); err != nil {
		return err
	}
	if m.test.Verb == wire.Atomic {
		return errors.New("--verb atomic; allowed: write, read and send")
	}
	if m.limits.Deviations < 0 || m.limits.Deviations > 1e6 || m.limits.Deviations != m.limits.Deviations {
		return fmt.Errorf("--deviations %v; allowed: 0 to 1e6", m.limits.Deviations)
	}
	if m.test.Duration > 0 {
		if m.test.Iters = 0; m.test.Duration < time.Second {
			return fmt.Errorf("duration (-D) %v; allowed: at least 1s", m.test.Duration)
		}
	} else if m.test.Duration < 0 || m.test.Iters < 5 {
		return fmt.Errorf("%d messages (-n) for %v (-D); allowed: at least 5, or a duration", m.test.Iters,
			m.test.Duration)
	}
	for _, p := range []wire.Params{m.bandwidth(), m.latency()} {
		if err := agent.CheckTest(p); err != nil {
			return err
		}
	}
	return m.agentOptions.check()
}

func (m *meshOptions) bandwidth() wire.Params {
	p := m.test
	p.Metric, p.Size = wire.Bandwidth, m.size
	return p
}

func (m *meshOptions) latency() wire.Params {
	p := m.test
	p.Metric, p.Size, p.QPs = wire.Latency, m.latSize, 1
	return p
}

// find returns the hosts of standing agents.
func (m *meshOptions) find(ctx context.Context) ([]mesh.Host, error) {
	names, err := m.hosts, error(nil)
	switch {
	case m.hostfile != "":
		var file *os.File
		if file, err = os.Open(m.hostfile); err == nil {
			names, err = mesh.ReadHostfile(file)
			file.Close()
		}
		if err != nil {
			return nil, fmt.Errorf("hostfile %s: %w", m.hostfile, err)
		}
	case m.service != "":
		names, err = m.resolve(ctx)
	}
	if err != nil {
		return nil, err
	}
	return mesh.ParseHosts(names, m.port)
}

// resolve waits until a name has as many addresses as it should.
func (m *meshOptions) resolve(ctx context.Context) ([]string, error) {
	end := time.Now().Add(m.patience)
	for {
		addrs, err := net.DefaultResolver.LookupHost(ctx, m.service)
		if err == nil && len(addrs) >= m.expect {
			slices.Sort(addrs)
			return addrs, nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			if err == nil {
				err = fmt.Errorf("%d addresses, --expect is %d; check that all agents are ready", len(addrs), m.expect)
			}
			return nil, fmt.Errorf("service %s, after %v: %w", m.service, m.patience, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (v *invocation) mesh() *cobra.Command {
	c := &cobra.Command{Use: "mesh [options]", Long: meshUsage, Short: "all pairs of many hosts"}
	var m meshOptions
	m.flags(c.Flags())
	c.Args = func(c *cobra.Command, words []string) error {
		return cmp.Or(tooMany(words), m.check(c.Flags(), os.Getenv))
	}
	c.Run = func(c *cobra.Command, _ []string) { v.code = runMesh(c.Context(), &m, v.args, v.stdout, v.stderr) }
	return c
}

// runMesh is perf mesh.
func runMesh(ctx context.Context, m *meshOptions, args []string, stdout, stderr io.Writer) int {
	for _, name := range []string{m.jsonFile, m.good, m.bad, m.unknown} {
		if name == "" || m.ranked && m.place.Rank > 0 {
			continue
		}
		if err := writable(name); err != nil {
			say(stderr, err)
			return exitFailure
		}
	}
	var t agent.Token
	var err error
	if m.launch == "" {
		if t, err = agent.ReadToken(m.tokenFile); err != nil {
			say(stderr, err)
			return exitFailure
		}
	}
	if m.ranked && m.place.Rank > 0 {
		if err := m.follow(ctx, t); err != nil {
			say(stderr, err)
			return exitFailure
		}
		return exitOK
	}
	show := &meshProgress{w: stderr, every: isTerminal(stderr)}
	c := mesh.Config{Program: program(), Order: schedule.Order(m.order), Bandwidth: m.bandwidth(),
		Latency: m.latency(), Token: t, Timeout: m.timeout, Patience: m.patience, Beat: m.beat, Strict: m.strict,
		Stall: m.stall, Outliers: m.limits, Expect: m.expect, Rounds: m.rounds, Rails: mesh.Rails(m.rails),
		Reach: m.reach, Confirm: m.confirm, CPUWait: m.cpuWait,
		Until: m.until}
	show.hooks(&c)
	var res *mesh.Result
	switch {
	case m.launch != "":
		res, err = m.launched(ctx, c, show)
	case m.kube.template != "":
		res, err = m.placed(ctx, c, show)
	case m.ranked:
		res, err = m.lead(ctx, c, stderr)
	default:
		if c.Hosts, err = m.find(ctx); err != nil {
			say(stderr, err)
			return exitFailure
		}
		res, err = mesh.Run(ctx, c)
	}
	show.end()
	return m.report(res, err, args, stdout, stderr)
}

// report prints a result, and returns the exit status.
func (m *meshOptions) report(res *mesh.Result, err error, args []string, stdout, stderr io.Writer) int {
	if res == nil {
		say(stderr, err)
		return exitFailure
	}
	res.Command = args
	good, bad := res.Sort()
	unknown := mesh.Names(res.Unknown)
	if err != nil {
		res.Error = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	if m.jsonFile != "" {
		err = errors.Join(err, save(m.jsonFile, res.JSON))
	}
	for name, list := range map[string][]string{m.good: good, m.bad: bad, m.unknown: unknown} {
		if name != "" && len(res.Hosts) > 0 {
			err = errors.Join(err, save(name, func(w io.Writer) error { return m.list(w, list) }))
		}
	}
	switch {
	case m.json:
		err = errors.Join(err, res.JSON(stdout))
	case len(res.Pairs) > 0:
		res.Text(stdout, m.matrix)
	}
	if err == nil && (res.Failed() > 0 || len(res.LostHosts) > 0 || len(res.DarkNICs) > 0) {
		err = fmt.Errorf("%d of %d pairs have no figures; %s", res.Failed(), len(res.Pairs), res.Absences())
	}
	if n := len(res.UnpairedNICs); err == nil && n > 0 {
		err = fmt.Errorf("%d NICs were not measured with some hosts, because of their names", n)
	}
	if err != nil {
		for _, e := range split(err) {
			say(stderr, e)
		}
		return exitFailure
	}
	hosts, figures := res.Slow()
	stalled, pairs := res.Still()
	if m.failSlow && hosts+figures > 0 {
		say(stderr, fmt.Errorf("%d hosts and %d figures of pairs are slow", hosts, figures))
	}
	if m.failSlow && stalled+pairs > 0 {
		say(stderr, fmt.Errorf("%d hosts and messages of %d pairs stood still", stalled, pairs))
	}
	if m.failSlow && hosts+figures+stalled+pairs > 0 {
		return exitLimit
	}
	if m.failSlow && len(unknown) > 0 {
		say(stderr, fmt.Errorf("nobody knows whether %d hosts are good", len(unknown)))
		return exitUnknown
	}
	return exitOK
}

// list writes names in the form that was asked for.
func (m *meshOptions) list(w io.Writer, names []string) error {
	text := strings.Join(names, "\n")
	if m.form == "slurm" {
		text = roster.Fold(names)
	}
	if text == "" {
		return nil
	}
	_, err := fmt.Fprintln(w, text)
	return err
}
