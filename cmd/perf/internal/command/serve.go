package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

const serveUsage = `rdmaperf serve is an agent: it runs servers for clients that have its token (rdmaperf mesh, and
rdmaperf with --agent), several at a time, until it is stopped.

perftest's programs cannot request a server. With --stock, the agent keeps a server for one test
on a TCP port, for any client. The client must use the same sizes, numbers and queue pairs; for
write, read and atomic, -s may be larger than the client's.

  rdmaperf serve [options]
  rdmaperf serve --join [ADDRESS:PORT]    dials an rdmaperf mesh and belongs to it until it ends;
                                          started by rdmaperf mesh --launch, or with the address at
                                          which that listens (RDMAPERF_JOIN)

{flags}
The token is read from --token-file, again at each SIGHUP, or from RDMAPERF_TOKEN in the
environment.
--token-file - reads a line from standard input, once, which process lists do not show.
The agent is ready when its port accepts connections. Below systemd (Type=notify) it waits until
its device can be used, and notifies systemd of what it waits for.

Exit status: 0 stopped, 1 failure, 2 wrong usage.
`

// agentOptions has the options of an agent, alone or as a part of rdmaperf mesh.
type agentOptions struct {
	port       int
	bind       string
	tokenFile  string
	maxClients int
	device     string
	ibPort     uint8
	gidIndex   int
	isolate    bool
	testPorts  string   // of servers, as 18600-18699; empty: any
	stock      []string // tests for clients that cannot request one
	joins      bool     // the agent dials
	address    string   // of the mesh to join, or empty
	waits      time.Duration
}

const defaultClients = 16

func (a *agentOptions) flags(f *pflag.FlagSet) {
	f.IntVarP(&a.port, "port", "p", agent.DefaultPort, "TCP `port` of the agents")
	f.StringVar(&a.tokenFile, "token-file", "", "`file` with the token, the same on all hosts; -: standard input")
	f.StringVar(&a.bind, "bind", "", "`address` that the agent listens on (default: all)")
	f.IntVar(&a.maxClients, "max-clients", defaultClients, "maximum number of `tests` at a time; others wait")
	f.StringVarP(&a.device, "ib-dev", "d", "",
		"RDMA `devices` of this agent: one as mlx5_0, several as mlx5_0,mlx5_1:2 (its port 2), all, or gpu (the "+
			"nearest of each GPU) (default: the first with an active port)")
	f.Uint8VarP(&a.ibPort, "ib-port", "i", 0, "`port` of the devices (default 1; with all and gpu, each)")
	f.IntVarP(&a.gidIndex, "gid-index", "x", plan.Auto, "GID `index` (default, and if negative: the best one)")
	f.Lookup("gid-index").DefValue = "0"
	f.StringVar(&a.testPorts, "test-ports", "",
		"TCP `ports` for the servers of tests, such as 18600-18699, for a firewall (default: any)")
	f.BoolVar(&a.isolate, "isolate", false, "run each test of a mesh in a process of its own")
}

// ownFlags declares the flags that only rdmaperf serve has.
func (a *agentOptions) ownFlags(f *pflag.FlagSet) {
	f.BoolVar(&a.joins, "join", false, "dial an rdmaperf mesh, which listens at RDMAPERF_JOIN, or at the address "+
		"behind --join")
	a.waits = 30 * time.Second
	f.Var(seconds(&a.waits), "retry", "time for which the mesh of --join is tried")
	f.StringArrayVar(&a.stock, "stock", nil, "keep a server for perftest clients of this `test`, one at a time, "+
		"such as \"write bw -s 8M -p 18515\"; repeatable")
}

func (a *agentOptions) check() error {
	if a.port < 1 || a.port > 65535 {
		return fmt.Errorf("tcp port (-p) %d; allowed: 1 to 65535", a.port)
	}
	if _, err := wire.ParsePorts(a.testPorts); a.testPorts != "" && err != nil {
		return fmt.Errorf("--test-ports: %w", err)
	}
	if a.maxClients < 1 || a.maxClients > 4096 {
		return fmt.Errorf("--max-clients %d; allowed: 1 to 4096", a.maxClients)
	}
	return a.checkDevices()
}

// serve runs an agent until ctx ends.
func (a *agentOptions) serve(ctx context.Context, t agent.Token, stderr io.Writer) error {
	log := logTo(stderr)
	var token atomic.Pointer[agent.Token]
	token.Store(&t)
	defer renew(&token, a.tokenFile, log)()
	w, child, err := a.await(ctx, log)
	if w == nil {
		return err
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(a.bind, strconv.Itoa(a.port)))
	if err != nil {
		return wire.ListenHint(err, "another agent")
	}
	log("agent on %v, %d tests at a time", ln.Addr(), a.maxClients)
	if err := agent.Notify(); err != nil {
		ln.Close()
		return err
	}
	w.Look = func() []agent.NIC { return a.look(ctx) }
	return agent.Serve(ctx, ln, agent.Config{Token: &token, Worker: *w, Child: child, Log: log})
}

// worker returns an agent. One that cannot run tests knows the reason.
func (a *agentOptions) worker(ctx context.Context) (*agent.Worker, agent.Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, agent.Child{}, err
	}
	place, err := roster.FindPlace(os.Getenv)
	if err != nil {
		return nil, agent.Child{}, err
	}
	child := agent.Child{Program: []string{self}}
	var runner agent.Runner = &inside{child: child}
	if a.isolate {
		runner = child
	}
	w := &agent.Worker{Runner: runner, Hello: agent.Hello{Name: roster.FindName(os.Getenv, os.Hostname),
		Program: program(), Most: a.maxClients, Place: place}}
	addrs, err := agent.Addresses()
	for _, p := range addrs {
		w.Addrs = append(w.Addrs, p.String())
	}
	w.Have(a.look(ctx))
	return w, child, err
}

// join runs an agent that dials the mesh.
func (a *agentOptions) join(ctx context.Context, t agent.Token, addrs []string, patience time.Duration) error {
	w, _, err := a.worker(ctx)
	if err != nil {
		return err
	}
	return agent.Join(ctx, addrs, t, w, patience)
}

// serveBoth runs an agent, and servers for stock clients. One that fails ends the other.
func (a *agentOptions) serveBoth(ctx context.Context, t agent.Token, list []agent.Stock, stderr io.Writer) error {
	if len(list) == 0 {
		return a.serve(ctx, t, stderr)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		defer cancel()
		ended <- serveStock(ctx, a.bind, list, func() error { return nil }, logTo(stderr))
	}()
	err := a.serve(ctx, t, stderr)
	cancel()
	return errors.Join(err, <-ended)
}

func tooMany(words []string) error {
	if len(words) > 0 {
		return fmt.Errorf("%d arguments too many: %.100q", len(words), words)
	}
	return nil
}

func (v *invocation) serve() *cobra.Command {
	c := &cobra.Command{Use: "serve [options]", Long: serveUsage, Short: "servers for many clients"}
	var a agentOptions
	a.flags(c.Flags())
	a.ownFlags(c.Flags())
	var list []agent.Stock
	c.Args = func(_ *cobra.Command, words []string) (err error) {
		if a.joins && len(words) == 1 {
			a.address, words = words[0], nil
		}
		if err = cmp.Or(tooMany(words), a.check()); err == nil {
			list, err = a.stockServers()
		}
		if err == nil && !a.joins && !agent.Supervised() {
			err = a.known()
		}
		if err == nil && a.joins && len(list) > 0 {
			err = errors.New("--join: not with --stock")
		}
		return err
	}
	c.Run = func(c *cobra.Command, _ []string) { v.end(exitOK, runServe(c.Context(), &a, list, v.stderr)) }
	return c
}

// runServe is rdmaperf serve.
func runServe(ctx context.Context, a *agentOptions, list []agent.Stock, stderr io.Writer) error {
	t, err := agent.ReadToken(a.tokenFile)
	switch {
	case err == nil && a.joins:
		var addrs []string
		if addrs, err = a.meshAddresses(); err == nil {
			err = a.join(ctx, t, addrs, a.waits)
		}
	case err == nil:
		err = a.serveBoth(ctx, t, list, stderr)
	case len(list) > 0 && a.tokenFile == "" && os.Getenv(agent.TokenEnv) == "":
		err = serveStock(ctx, a.bind, list, agent.Notify, logTo(stderr))
	}
	return err
}

// meshAddresses returns where the mesh listens.
func (a *agentOptions) meshAddresses() ([]string, error) {
	text := cmp.Or(a.address, os.Getenv(agent.JoinEnv))
	if text == "" {
		return nil, errors.New("--join: no address, and " + agent.JoinEnv +
			" is not set; rdmaperf mesh --launch sets " +
			"it, and the launcher has to pass it on (srun --export=ALL, mpirun -x " + agent.JoinEnv + " -x " +
			agent.TokenEnv + ")" + agent.SudoHint())
	}
	return agent.ParseJoin(text, a.port)
}

// askAgent makes an agent the server of the test, whose port goes into the plan.
func (o *options) askAgent(ctx context.Context) (*agent.Client, error) {
	t, err := agent.ReadToken(o.tokenFile)
	if err != nil {
		return nil, err
	}
	c, err := agent.Dial(ctx, o.plan.Peer.Host, o.agentPort, t, o.plan.Peer.Timeout, o.plan.Peer.Patience)
	if err != nil {
		return nil, err
	}
	if o.plan.Peer.Port, err = c.Server(o.plan.Params(), o.plan.Peer.Timeout+time.Hour); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}
