package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/nics"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/session"
	"github.com/pureverbs/pureverbs/hostfacts"
)

// word reports whether -d is a word that stands for the devices of this host.
func (a *agentOptions) word() bool { return a.device == nics.All || a.device == nics.GPU }

// checkDevices checks what can be checked of -d on any host.
func (a *agentOptions) checkDevices() error {
	if a.device == "" || a.word() {
		return nil
	}
	_, err := nics.Parse(a.device, a.firstPort())
	return err
}

// known returns an error if one of several devices is not on this host.
func (a *agentOptions) known() error {
	if !strings.Contains(a.device, ",") {
		return nil // without it, the agent says what the library says
	}
	_, err := nics.Find(hostfacts.This(), a.device, a.ibPort)
	return err
}

func (a *agentOptions) firstPort() uint8 { return max(a.ibPort, 1) }

// near returns the options of a test by the first device that was asked for.
func (a *agentOptions) near() []string {
	n := nics.NIC{Port: a.firstPort()}
	if list, err := nics.Parse(a.device, n.Port); a.device != "" && !a.word() && err == nil {
		n = list[0]
	}
	return a.options(n)
}

func (a *agentOptions) options(n nics.NIC) []string {
	words := []string{"-d", n.Device, "-i", fmt.Sprint(n.Port), "-x", fmt.Sprint(a.gidIndex)}
	if a.testPorts != "" {
		words = append(words, "--test-ports", a.testPorts)
	}
	return words
}

// look returns the NICs of this agent as they are now. One that cannot run tests has the reason.
func (a *agentOptions) look(ctx context.Context) (list []agent.NIC) {
	root := hostfacts.This()
	if a.word() {
		found, err := nics.Find(root, a.device, a.ibPort)
		for _, n := range found {
			nic := a.try(ctx, n)
			nic.Spare = true
			list = append(list, nic)
		}
		if err != nil {
			list = []agent.NIC{{Problem: err.Error()}}
		}
		return list
	}
	if a.device == "" {
		return []agent.NIC{a.try(ctx, nics.NIC{Port: a.firstPort()})}
	}
	named, err := nics.Parse(a.device, a.firstPort())
	if err != nil {
		return []agent.NIC{{Problem: err.Error()}}
	}
	for _, n := range named {
		found, err := nics.Find(root, n.Device, n.Port)
		if err == nil {
			n = found[0]
		}
		list = append(list, a.try(ctx, n))
	}
	return list
}

// try opens a NIC for a moment. One without a name is the first with an active port. It has its name from then on, so
// that all tests use the same, and the result has the name.
func (a *agentOptions) try(ctx context.Context, n nics.NIC) agent.NIC {
	said := agent.NIC{Link: n.Link, Rate: float64(n.Rate), Options: a.options(n), Problem: n.Down}
	if n.Down == "" || !a.word() {
		tests, err := parse(append([]string{"write", "bw"}, said.Options...))
		var opened string
		if err == nil {
			opened, err = session.Try(ctx, tests.plan)
		}
		if n.Device == "" && opened != "" {
			n.Device, said.Options = opened, a.options(nics.NIC{Device: opened, Port: n.Port})
		}
		if said.Problem = ""; err != nil {
			said.Problem = fmt.Sprintf("%.1000s", err)
		}
	}
	if n.Device != "" {
		said.Name = n.Name()
	}
	return said
}
