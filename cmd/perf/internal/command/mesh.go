package command

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
	"github.com/pureverbs/pureverbs/cmd/perf/internal/tick"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

const meshUsage = `rdmaperf mesh measures bandwidth and latency between all pairs of hosts, in both directions,
and names the slow pairs and hosts, and those that did not come or were lost. Each host runs an
agent (rdmaperf serve). Agents dial in:

  rdmaperf mesh --launch 'srun --ntasks-per-node=1 --no-kill --kill-on-bad-exit=0 --export=ALL'
  rdmaperf mesh --launch 'mpirun -x RDMAPERF_JOIN -x RDMAPERF_TOKEN --hostfile FILE'
  rdmaperf mesh --expect 2 --launch 'for h in a b; do
    printf %s $RDMAPERF_TOKEN | ssh $h "$@" --token-file - & done; wait'
  srun --ntasks-per-node=1 rdmaperf mesh        rank 0 measures, all others join it
  mpirun ... rdmaperf mesh --join HOST          the same; rank 0 is on HOST
  rdmaperf mesh --expect N --job-from CRONJOB   in a pod of Kubernetes: a Job starts the agents

or they stand ready, and this end dials:

  rdmaperf mesh --hosts a,b,c [options]         hosts; a:PORT for an agent on another port
  rdmaperf mesh --hostfile FILE [options]       hosts from a file: the first word of each line
  rdmaperf mesh --service NAME --expect N       all addresses of a DNS name (a headless service)

{flags}
--launch runs COMMAND with the shell, with "rdmaperf serve --join ..." behind it, or where COMMAND
has "$@". It sets RDMAPERF_JOIN, where this end listens, and RDMAPERF_TOKEN, a new secret; the
launcher has to pass them on.
All others need the same token on all hosts: --token-file, or RDMAPERF_TOKEN in the environment.

A host that does not come, is lost, or has no working adapter, another token or another release is
named, and the exit status is 1. The others are measured if at least two remain. A host that stood
still and went on is named as stalled. A NIC that reaches nobody is named, and its pairs are left
out; so are pairs between the sides of a split fabric. What a host's busy CPUs may have caused is
held against nobody (--cpu-wait).

Exit status: 0 success, 1 failure, also of a host or a pair, 2 wrong usage. With --fail-slow also 3:
a host or pair is slow or stalled, and 4: none is, but of a host nobody knows whether it is good.
`

// check checks what can be checked without any host.
func (m *meshOptions) check(f *pflag.FlagSet, getenv func(string) string) (err error) {
	if m.config.Until > 0 && !f.Changed("slow") {
		m.config.Outliers.Share = m.config.Until / 2
	}
	if err := m.checkHosts(f, getenv); err != nil {
		return err
	}
	if err := m.checkPairs(f); err != nil {
		return err
	}
	if m.test.Verb, err = wire.ParseVerb(m.verb); err != nil {
		return err
	}
	if m.test.Verb == wire.Atomic {
		return errors.New("--verb atomic; allowed: write, read and send")
	}
	if d := m.config.Outliers.Deviations; !(d >= 0 && d <= 1e6) {
		return fmt.Errorf("--deviations %v; allowed: 0 to 1e6", d)
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

// checkHosts checks where the hosts come from.
func (m *meshOptions) checkHosts(f *pflag.FlagSet, getenv func(string) string) (err error) {
	given := 0
	for _, n := range []string{"launch", "job-from", "hosts", "hostfile", "service"} {
		if f.Changed(n) {
			given++
		}
	}
	if m.from.place = roster.Nowhere; given == 0 { // an option wins over the environment
		if m.from.place, err = roster.FindPlace(getenv); err != nil {
			return err
		}
	}
	if m.from.ranked = m.from.place.Rank >= 0; given > 1 || given == 0 && !m.from.ranked {
		return errors.New("give one of --launch, --job-from, --hosts, --hostfile and --service, or start " +
			"rdmaperf mesh with srun or mpirun")
	}
	if f.Changed("launch") && strings.TrimSpace(m.from.launch) == "" {
		return errors.New("--launch has no command")
	}
	if m.config.Expect != 0 && (m.config.Expect < 2 || m.config.Expect > mesh.MostHosts) {
		return fmt.Errorf("--expect %d hosts; allowed: 2 to %d", m.config.Expect, mesh.MostHosts)
	}
	if err := m.checkKube(f); err != nil {
		return err
	}
	if m.config.Beat < 50*time.Millisecond || m.config.Beat > time.Hour {
		return fmt.Errorf("--heartbeat %v; allowed: 50ms to 1h", m.config.Beat)
	}
	if m.config.Stall < 0 || m.config.Stall > time.Hour {
		return fmt.Errorf("--stall %v; allowed: 0 to 1h", m.config.Stall)
	}
	if m.from.ranked && m.config.Expect == 0 {
		m.config.Expect = m.from.place.Of
	}
	if m.from.ranked && m.config.Expect < 2 {
		return fmt.Errorf("%d ranks; a mesh needs at least 2; for an indexed Job, give their number with --expect",
			m.config.Expect)
	}
	if f.Changed("hosts") {
		if _, err := mesh.ParseHosts(m.from.hosts, m.port); err != nil {
			return err
		}
	}
	if m.from.service != "" && m.config.Expect == 0 {
		return fmt.Errorf("--expect 0 addresses of --service; allowed: 2 to %d", mesh.MostHosts)
	}
	return nil
}

// checkPairs checks which pairs are measured, and the files of hosts.
func (m *meshOptions) checkPairs(f *pflag.FlagSet) error {
	c := &m.config
	switch {
	case !slices.Contains(schedule.Orders, c.Order):
		return fmt.Errorf("--order %q; allowed: rounds, single, all, ring, incast, outcast and bisection", c.Order)
	case f.Changed("rounds") && (c.Rounds < 1 || c.Order != schedule.Rounds):
		return fmt.Errorf("--rounds %d with --order %s; allowed: at least 1, with rounds", c.Rounds, c.Order)
	case f.Changed("until") && (c.Until <= 0 || c.Until >= 1 || c.Order != schedule.Rounds):
		return fmt.Errorf("--until %s with --order %s; allowed: above 0%% and below 100%%, with rounds",
			f.Lookup("until").Value, c.Order)
	case c.Until > 0 && c.Outliers.Share >= c.Until:
		return fmt.Errorf("--slow %s with --until %s; allowed: less, because no loss shows below --slow and the noise",
			f.Lookup("slow").Value, f.Lookup("until").Value)
	case c.Rails != mesh.SameRail && c.Rails != mesh.AllRails:
		return fmt.Errorf("--rails %q; allowed: same and all", c.Rails)
	case c.Reach < 0 || c.Reach > 0 && c.Reach < time.Millisecond || c.Reach > time.Hour:
		return fmt.Errorf("--reach %v; allowed: 0, and 1ms to 1h", c.Reach)
	case m.out.form != "plain" && m.out.form != "slurm":
		return fmt.Errorf("--hosts-form %q; allowed: plain and slurm", m.out.form)
	}
	return nil
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
	names, err := m.from.hosts, error(nil)
	switch {
	case m.from.hostfile != "":
		var file *os.File
		if file, err = os.Open(m.from.hostfile); err == nil {
			names, err = mesh.ReadHostfile(file)
			file.Close()
		}
		if err != nil {
			return nil, fmt.Errorf("hostfile %s: %w", m.from.hostfile, err)
		}
	case m.from.service != "":
		names, err = m.resolve(ctx)
	}
	if err != nil {
		return nil, err
	}
	return mesh.ParseHosts(names, m.port)
}

// resolve waits until a name has as many addresses as it should.
func (m *meshOptions) resolve(ctx context.Context) ([]string, error) {
	end := time.Now().Add(m.config.Patience)
	for {
		addrs, err := net.DefaultResolver.LookupHost(ctx, m.from.service)
		if err == nil && len(addrs) >= m.config.Expect {
			slices.Sort(addrs)
			return addrs, nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			if err == nil {
				err = fmt.Errorf("%d addresses, --expect is %d; check that all agents are ready", len(addrs),
					m.config.Expect)
			}
			return nil, fmt.Errorf("service %s, after %v: %w", m.from.service, m.config.Patience, err)
		}
		tick.Wait(ctx, 200*time.Millisecond)
	}
}

func (v *invocation) mesh() *cobra.Command {
	c := &cobra.Command{Use: "mesh [options]", Long: meshUsage, Short: "all pairs of many hosts"}
	var m meshOptions
	m.flags(c.Flags())
	c.Args = func(c *cobra.Command, words []string) error {
		return cmp.Or(tooMany(words), m.check(c.Flags(), os.Getenv))
	}
	c.Run = func(c *cobra.Command, _ []string) { v.end(runMesh(c.Context(), &m, v.args, v.stdout, v.stderr)) }
	return c
}

// runMesh is rdmaperf mesh.
func runMesh(ctx context.Context, m *meshOptions, args []string, stdout, stderr io.Writer) (int, error) {
	t, err := m.prepare()
	follows := m.from.ranked && m.from.place.Rank > 0
	if err == nil && follows {
		err = m.follow(ctx, t)
	}
	if err != nil || follows {
		return exitOK, err
	}
	show := &meshProgress{w: stderr, every: isTerminal(stderr)}
	c := m.config
	c.Program, c.Bandwidth, c.Latency, c.Token = program(), m.bandwidth(), m.latency(), t
	show.hooks(&c)
	var res *mesh.Result
	switch {
	case m.from.launch != "":
		res, err = m.launched(ctx, c, show)
	case m.kube.template != "":
		res, err = m.placed(ctx, c, show)
	case m.from.ranked:
		res, err = m.lead(ctx, c, stderr)
	default:
		if c.Hosts, err = m.find(ctx); err == nil {
			res, err = mesh.Run(ctx, c)
		}
	}
	show.end()
	return m.report(res, err, args, stdout)
}

// prepare returns the token, or why a mesh would be of no use.
func (m *meshOptions) prepare() (t agent.Token, err error) {
	for _, name := range []string{m.out.jsonFile, m.out.good, m.out.bad, m.out.unknown} {
		if name == "" || m.from.ranked && m.from.place.Rank > 0 {
			continue
		}
		if err := writable(name); err != nil {
			return t, err
		}
	}
	if m.from.launch == "" {
		return agent.ReadToken(m.tokenFile)
	}
	return t, nil
}

// report prints a result, and returns the exit status, and an error that explains it.
func (m *meshOptions) report(res *mesh.Result, err error, args []string, stdout io.Writer) (int, error) {
	if res == nil {
		return exitFailure, err
	}
	res.Command = args
	good, bad := res.Sort()
	unknown := mesh.Names(res.Unknown)
	if err != nil {
		res.Error = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	if m.out.jsonFile != "" {
		err = errors.Join(err, save(m.out.jsonFile, res.JSON))
	}
	for name, list := range map[string][]string{m.out.good: good, m.out.bad: bad, m.out.unknown: unknown} {
		if name != "" && len(res.Hosts) > 0 {
			err = errors.Join(err, save(name, func(w io.Writer) error { return m.list(w, list) }))
		}
	}
	switch {
	case m.out.json:
		err = errors.Join(err, res.JSON(stdout))
	case len(res.Pairs) > 0:
		res.Text(stdout, m.out.matrix)
	}
	if err == nil && (res.Failed() > 0 || len(res.LostHosts) > 0 || len(res.DarkNICs) > 0) {
		err = fmt.Errorf("%d of %d pairs have no figures; %s", res.Failed(), len(res.Pairs), res.Absences())
	}
	if n := len(res.UnpairedNICs); err == nil && n > 0 {
		err = fmt.Errorf("%d NICs were not measured with some hosts, because of their names", n)
	}
	if err != nil || !m.out.failSlow {
		return exitOK, err
	}
	if hosts, figures := res.Slow(); hosts+figures > 0 {
		err = fmt.Errorf("%d hosts and %d figures of pairs are slow", hosts, figures)
	}
	if hosts, pairs := res.Still(); hosts+pairs > 0 {
		err = errors.Join(err, fmt.Errorf("%d hosts and messages of %d pairs stood still", hosts, pairs))
	}
	switch {
	case err != nil:
		return exitLimit, err
	case len(unknown) > 0:
		return exitUnknown, fmt.Errorf("nobody knows whether %d hosts are good", len(unknown))
	}
	return exitOK, nil
}

// list writes names in the form that was asked for.
func (m *meshOptions) list(w io.Writer, names []string) error {
	text := strings.Join(names, "\n")
	if m.out.form == "slurm" {
		text = roster.Fold(names)
	}
	if text == "" {
		return nil
	}
	_, err := fmt.Fprintln(w, text)
	return err
}
