package command

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// printResult has the test binary print the result of a test: a release's libraries come without a shell.
const printResult = "print a result"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == printResult {
		fmt.Println(`{"results":[{}]}`)
		return
	}
	os.Exit(m.Run())
}

// TestRXE_Inside: tests in the agent's process have figures, use one device and one piece of memory, and go on after
// one that failed. One that comes while another one runs has a process of its own.
func TestRXE_Inside(t *testing.T) {
	vm := needOnce(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*inside
	var near [2][]string
	for i := range ends {
		a := agentOptions{device: vm.Dev[i], ibPort: 1, gidIndex: vm.GIDs[i]}
		if vm.Emulated {
			a.gidIndex = plan.Auto
		}
		child := agent.Child{Program: []string{self, printResult}}
		ends[i], near[i] = &inside{child: child}, a.near()
		defer func() {
			if err := ends[i].shelf("").Close(); err != nil {
				t.Error(err)
			}
		}()
	}
	test := func(p wire.Params) (f agent.Figures, err error) {
		port := make(chan int, 1)
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			defer close(port)
			task := agent.Task{Alone: true, Options: near[1], Test: p}
			_, err := ends[1].Run(t.Context(), task, func(n int) error { port <- n; return nil })
			if err != nil {
				t.Errorf("server of %v %v: %v", p.Verb, p.Metric, err)
			}
		})
		task := agent.Task{Alone: true, Options: near[0], Test: p, Host: vm.Host[1], Port: <-port}
		return ends[0].Run(t.Context(), task, nil)
	}
	var dev *ibv.Device
	for i, p := range []wire.Params{
		{Verb: wire.Write, Metric: wire.Bandwidth, Size: 4096, Iters: 20, QPs: 1},
		{Verb: wire.Write, Metric: wire.Latency, Size: 2, Iters: 200, QPs: 1},
		{Verb: wire.Send, Metric: wire.Bandwidth, Size: 4096, Iters: 20, QPs: 2},
		{Verb: wire.Read, Metric: wire.Latency, Size: 64, Iters: 20, QPs: 1},
		{Verb: wire.Write, Metric: wire.Bandwidth, Size: 4096, Iters: 20, QPs: 1},
	} {
		f, err := test(p)
		if good := f.Bits > 0; err != nil || good != (p.Metric == wire.Bandwidth) || good == (f.P50 > 0) {
			t.Errorf("%v %v: %+v, %v", p.Verb, p.Metric, f, err)
		}
		if p.Metric == wire.Latency && p.Iters > 100 && (f.P99 < f.P50 || f.Max < f.P99) {
			t.Errorf("%v %v: %+v", p.Verb, p.Metric, f)
		}
		if now := ends[0].shelf("").Device(); dev != nil && now != dev {
			t.Errorf("%v %v opened the device again", p.Verb, p.Metric)
		}
		dev = ends[0].shelf("").Device()
		if i != 3 {
			continue
		}
		// Nobody listens there.
		bad := agent.Task{Alone: true, Options: near[0], Test: p, Host: "127.0.0.1", Port: 1}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := ends[0].Run(ctx, bad, nil); err == nil {
			t.Error("no error of a test without a server")
		}
		if now := ends[0].shelf("").Device(); now == dev {
			t.Error("after a test that failed, the next one does not begin anew")
		}
		dev = nil
	}
	busy := make(chan int)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		p := wire.Params{Verb: wire.Write, Metric: wire.Bandwidth, Size: 64, Iters: 20, QPs: 1}
		_, err := ends[0].Run(ctx, agent.Task{Alone: true, Options: near[0], Test: p},
			func(n int) error { busy <- n; return nil })
		if err == nil || !strings.Contains(err.Error(), "canceled") {
			t.Errorf("a server that is ended: %v", err)
		}
	})
	<-busy
	other := agent.Task{Alone: true, Host: "127.0.0.1", Port: 1,
		Test: wire.Params{Verb: wire.Write, Metric: wire.Bandwidth, Size: 64, Iters: 20, QPs: 1}}
	if _, err := ends[0].Run(t.Context(), other, nil); err != nil {
		t.Errorf("a test at the same time as another one, in its own process: %v", err)
	}
	cancel()
	wg.Wait()
	testPorts(t, vm)
}

// testPorts gives an agent one port for tests, in its own process and in one for each test. While something else uses
// it, the error says so.
func testPorts(t *testing.T, vm testutil.RXE) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	a := agentOptions{device: vm.Dev[0], ibPort: 1, gidIndex: plan.Auto, testPorts: fmt.Sprintf("%d-%d", port, port)}
	child := agent.Child{Program: []string{testutil.NeedProgram(t, "rdmaperf")}}
	own := &inside{child: child}
	server := agent.Task{Alone: true, Options: a.near(), Test: wire.Params{Verb: wire.Write, Metric: wire.Bandwidth,
		Size: 64, Iters: 20, QPs: 1}}
	for _, r := range []agent.Runner{own, child} {
		_, err := r.Run(t.Context(), server, func(n int) error { t.Errorf("port %d is taken", n); return nil })
		if err == nil || !strings.Contains(err.Error(), "all 1 are in use; give a larger range (--test-ports)") {
			t.Errorf("%T: the port is taken: %v", r, err)
		}
	}
	ln.Close()
	for _, r := range []agent.Runner{own, child} {
		ctx, cancel := context.WithCancel(t.Context())
		got := 0
		_, err := r.Run(ctx, server, func(n int) error { got = n; cancel(); return nil })
		if cancel(); got != port {
			t.Errorf("%T: the server is on port %d, want %d; %v", r, got, port, err)
		}
	}
	if err := own.shelf("").Close(); err != nil {
		t.Error(err)
	}
}
