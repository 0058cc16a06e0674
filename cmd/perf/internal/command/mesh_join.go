package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/launch"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/mesh"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// launched runs a mesh whose agents a command starts.
func (m *meshOptions) launched(ctx context.Context, c mesh.Config, show *meshProgress) (*mesh.Result, error) {
	secret := ""
	c.Token, secret = agent.NewToken()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// A list of the allocation says who did not come. What the launcher uses of it, its agents say.
	c.Launcher = roster.Allocation(os.Getenv)
	where, err := m.listen(&c)
	if err != nil {
		return nil, err
	}
	words := slices.Concat([]string{self, "serve", "--join", where}, m.agentWords())
	l, err := launch.Start(m.from.launch, words, []string{agent.JoinEnv + "=" + where, agent.TokenEnv + "=" + secret},
		show.launcher)
	if err != nil {
		c.Listener.Close()
		return nil, fmt.Errorf("--launch: %w", err)
	}
	c.Launched = l.Ended
	beginsWith(&c, l.TakeTerminal)
	res, err := mesh.Run(ctx, c)
	outcome := l.Stop(ctx, launch.Grace)
	if outcome != nil && err == nil && res.AllEnded() {
		err = fmt.Errorf("the launcher has ended all agents: %w", outcome)
	}
	wrong := err != nil || len(res.LostHosts) > 0 || res.Failed() > 0
	if wrong && ctx.Err() == nil {
		for _, line := range l.Said() {
			show.say(fmt.Errorf("launcher: %s", line))
		}
		if outcome != nil {
			show.say(fmt.Errorf("launcher: %w", outcome))
		}
	}
	return res, err
}

// listen opens the listener where agents dial in, before anything is started, and returns its addresses for --join.
func (m *meshOptions) listen(c *mesh.Config) (where string, err error) {
	if err := c.CheckFiles(); err != nil {
		return "", err
	}
	if c.Listener, err = net.Listen("tcp", cmp.Or(m.from.listen, ":0")); err != nil {
		return "", fmt.Errorf("--listen: %w", err)
	}
	addrs, err := reachable(c.Listener.Addr().(*net.TCPAddr))
	if err != nil {
		c.Listener.Close()
	}
	return strings.Join(addrs, ","), err
}

// beginsWith has f called first when the measurement begins.
func beginsWith(c *mesh.Config, f func()) {
	begun := c.Begun
	c.Begun = func(pass string, hosts, pairs int) {
		f()
		begun(pass, hosts, pairs)
	}
}

// agentWords returns the options of agents that differ from the default.
func (m *meshOptions) agentWords() (words []string) {
	add := func(differs bool, option ...string) {
		if differs {
			words = append(words, option...)
		}
	}
	add(m.device != "", "-d", m.device)
	add(m.ibPort != 0, "-i", strconv.Itoa(int(m.ibPort)))
	add(m.gidIndex >= 0, "-x", strconv.Itoa(m.gidIndex))
	add(m.maxClients != defaultClients, "--max-clients", strconv.Itoa(m.maxClients))
	add(m.testPorts != "", "--test-ports", m.testPorts)
	add(m.isolate, "--isolate")
	return words
}

// reachable returns the addresses of this host at which others may reach a listener.
func reachable(a *net.TCPAddr) (list []string, err error) {
	if !a.IP.IsUnspecified() {
		return []string{a.String()}, nil
	}
	all, err := agent.Addresses()
	if err == nil && len(all) == 0 {
		err = errors.New("this host has no address at which agents could reach it")
	}
	return lists.Map(all, func(p netip.Prefix) string {
		return net.JoinHostPort(p.Addr().String(), strconv.Itoa(a.Port))
	}), err
}

// lead runs a mesh of the processes of srun or mpirun as their rank 0, which is also an agent.
func (m *meshOptions) lead(ctx context.Context, c mesh.Config, stderr io.Writer) (*mesh.Result, error) {
	ln, err := net.Listen("tcp", cmp.Or(m.from.listen, net.JoinHostPort(m.bind, strconv.Itoa(m.port))))
	if err != nil {
		return nil, wire.ListenHint(err, "another mesh or an agent; give all ranks another port (-p)")
	}
	c.Listener, c.Launcher = ln, m.from.place
	own := ln.Addr().(*net.TCPAddr)
	if own.IP.IsUnspecified() {
		own = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: own.Port}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- m.agentOptions.join(ctx, c.Token, []string{own.String()}, m.config.Patience) }()
	res, err := mesh.Run(ctx, c)
	cancel()
	if failed := <-ended; failed != nil {
		say(stderr, fmt.Errorf("the agent of rank 0: %w", failed))
	}
	return res, err
}

// follow is another rank: the agent of the mesh of rank 0.
func (m *meshOptions) follow(ctx context.Context, t agent.Token) error {
	addrs, err := m.leaders()
	if err != nil {
		return err
	}
	return m.agentOptions.join(ctx, t, addrs, max(m.config.Patience, 30*time.Second))
}

// leaders returns where rank 0 may be.
func (m *meshOptions) leaders() ([]string, error) {
	if m.from.join != "" {
		return agent.ParseJoin(m.from.join, m.port)
	}
	var names []string
	if list, err := roster.ExpandNodes(m.from.place.Nodes); err == nil {
		names = []string{list[0]}
		if ip := os.Getenv("SLURM_LAUNCH_NODE_IPADDR"); ip != "" {
			names = append(names, ip) // of the batch script, which is on the first node
		}
	}
	if len(names) == 0 {
		return nil, errors.New("ranks without SLURM_JOB_NODELIST: also give --join, the address of rank 0")
	}
	return lists.Map(names, func(n string) string { return net.JoinHostPort(n, strconv.Itoa(m.port)) }), nil
}
