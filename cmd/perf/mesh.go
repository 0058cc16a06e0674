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
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

const meshUsage = `perf mesh measures bandwidth and latency between all pairs of hosts, in both directions,
and names the slow pairs and hosts. Each host runs an agent (perf serve).

  perf mesh --hosts a,b,c [options]         hosts; a:PORT for an agent on another port
  perf mesh --hostfile FILE [options]       hosts from a file: the first word of each line
  perf mesh --service NAME --expect N       all addresses of a DNS name (a headless service)
  srun --ntasks-per-node=1 perf mesh        no agents needed: rank 0 measures, all ranks serve
  mpirun ... perf mesh --hostfile FILE      the same

{flags}
A host that cannot be reached is shown as failed, and the exit status is 1. The others are measured
if at least two remain.
All hosts need the same token: --token-file, or PERF_TOKEN in the environment.

Exit status: 0 success, 1 failure, also of a host or a pair, 2 wrong usage, 3 a host or pair is slow
and --fail-slow was given.
`

type meshOptions struct {
	agentOptions
	hosts    []string
	hostfile string
	service  string
	expect   int
	order    string
	verb     string
	json     bool
	failSlow bool
	size     uint64
	latSize  uint64
	limits   mesh.Outliers
	test     wire.Params
	timeout  time.Duration
	patience time.Duration
	rank     mesh.Rank
	ranked   bool
}

func (m *meshOptions) flags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringSliceVar(&m.hosts, "hosts", nil, "`hosts`, separated by commas")
	f.StringVar(&m.hostfile, "hostfile", "", "`file` with one host per line")
	f.StringVar(&m.service, "service", "", "DNS `name` that has the addresses of all hosts")
	f.IntVar(&m.expect, "expect", 0, "number of `addresses` of --service to wait for")
	f.StringVar(&m.order, "order", string(mesh.Rounds),
		"`order` of the pairs: rounds (disjoint pairs at the same time), single (one at a time) or all (all at once)")
	f.StringVar(&m.verb, "verb", "write", "`verb`: write, read or send")
	m.size, m.latSize = 64<<10, 2
	f.VarP((*size)(&m.size), "size", "s", "message size of the bandwidth tests")
	f.Var((*size)(&m.latSize), "lat-size", "message size of the latency tests")
	f.Uint64VarP(&m.test.Iters, "iters", "n", 1000, "`messages` per test")
	f.VarP((*seconds)(&m.test.Duration), "duration", "D", "run time of each test, instead of a number of messages")
	f.IntVarP(&m.test.QPs, "qp", "q", 1, "number of `queue pairs` of the bandwidth tests")
	share := percent(0.1)
	f.Var(&share, "slow", "smallest distance of a slow figure from the median, as a `share`")
	f.Float64Var(&m.limits.Deviations, "deviations", 5,
		"smallest distance of a slow figure from the median, in median absolute `deviations`")
	f.BoolVar(&m.failSlow, "fail-slow", false, "exit with 3 if a host or pair is slow")
	f.BoolVar(&m.json, "json", false, "one JSON object instead of the tables")
	m.timeout, m.patience = 30*time.Second, 10*time.Second
	f.Var((*seconds)(&m.timeout), "timeout", "time without a message from an agent, after which it is lost")
	f.Var((*seconds)(&m.patience), "retry", "time for which agents are tried")
	m.agentOptions.flags(f)
	for name, v := range map[string]string{"hosts": "[]", "duration": "0", "slow": "10%"} {
		f.Lookup(name).DefValue = v
	}
}

// check checks what can be checked without any host.
func (m *meshOptions) check(f *pflag.FlagSet, getenv func(string) string) (err error) {
	m.limits.Share = float64(*f.Lookup("slow").Value.(*percent))
	if m.rank, m.ranked, err = mesh.FindRank(getenv); err != nil {
		return err
	}
	given := 0
	for _, n := range []string{"hosts", "hostfile", "service"} {
		if f.Changed(n) {
			given++
		}
	}
	if given > 1 || given == 0 && !m.ranked {
		return errors.New("give one of --hosts, --hostfile and --service, or start perf mesh with srun or mpirun")
	}
	if f.Changed("hosts") {
		if _, err := mesh.ParseHosts(m.hosts, m.port); err != nil {
			return err
		}
	}
	if f.Changed("service") {
		m.ranked = false // its agents are others
	}
	if m.service != "" && (m.expect < 2 || m.expect > mesh.MostHosts) {
		return fmt.Errorf("--expect %d addresses of --service; allowed: 2 to %d", m.expect, mesh.MostHosts)
	}
	if !slices.Contains(mesh.Orders, mesh.Order(m.order)) {
		return fmt.Errorf("--order %q; allowed: rounds, single and all", m.order)
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
		m.test.Iters = 0
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

// find returns the hosts.
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
	case len(m.hosts) == 0:
		names, err = m.rank.Hosts()
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
	t, err := agent.ReadToken(m.tokenFile)
	if err != nil {
		say(stderr, err)
		return exitFailure
	}
	if m.ranked && m.rank.Number > 0 {
		if err := m.serve(ctx, t, true, stderr); err != nil {
			say(stderr, err)
			return exitFailure
		}
		return exitOK
	}
	if m.ranked {
		agentCtx, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() {
			err := m.serve(agentCtx, t, false, io.Discard)
			if err != nil {
				say(stderr, fmt.Errorf("the agent of rank 0: %w", err))
			}
			ended <- err
		}()
		defer func() { stop(); <-ended }()
	}
	hosts, err := m.find(ctx)
	if err != nil {
		say(stderr, err)
		return exitFailure
	}
	n, of := 0, len(hosts)*(len(hosts)-1)
	done := func(p mesh.PairResult) {
		n++
		if p.Error != "" && !p.Skipped {
			say(stderr, fmt.Errorf("%s > %s: %s", p.From, p.To, p.Error))
		} else if isTerminal(stderr) {
			fmt.Fprintf(stderr, "\r%d of %d pairs", n, of)
		}
	}
	lost := func(h mesh.LostHost) { say(stderr, fmt.Errorf("host %s is left out: %s", h.Host, h.Error)) }
	res, err := mesh.Run(ctx, mesh.Config{Program: program(), Lost: lost, Hosts: hosts,
		Order: mesh.Order(m.order), Bandwidth: m.bandwidth(), Latency: m.latency(), Token: t, Timeout: m.timeout,
		Patience: m.patience, Outliers: m.limits, Done: done})
	if isTerminal(stderr) && n > 0 {
		fmt.Fprintln(stderr)
	}
	res.Command = args
	if err != nil {
		res.Error = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	switch {
	case m.json:
		err = errors.Join(err, res.JSON(stdout))
	case len(res.Pairs) > 0:
		res.Text(stdout)
	}
	if err == nil && (res.Failed() > 0 || len(res.LostHosts) > 0) {
		err = fmt.Errorf("%d of %d pairs have no figures; %d hosts were lost", res.Failed(), of, len(res.LostHosts))
	}
	if err != nil {
		for _, e := range split(err) {
			say(stderr, e)
		}
		return exitFailure
	}
	if m.failSlow && len(res.SlowHosts)+len(res.SlowPairs) > 0 {
		say(stderr, fmt.Errorf("%d hosts and %d figures of pairs are slow", len(res.SlowHosts), len(res.SlowPairs)))
		return exitLimit
	}
	return exitOK
}
