package mesh

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// nothing acts as tests that take no time.
type nothing struct{}

func (nothing) Run(_ context.Context, t agent.Task, listening func(int) error) (agent.Figures, error) {
	if t.Server() {
		return agent.Figures{}, listening(4711)
	}
	return agent.Figures{Bits: 1e11, P50: 1000, P99: 2000, Max: 3000}, nil
}

// TestScale: many hosts with tests that do nothing: the cost of the mesh itself. The log has a table. The agents are in
// another process.
func TestScale(t *testing.T) {
	if addr := os.Getenv(scaleEnv); addr != "" {
		manyAgents(t, addr)
		return
	}
	type size struct{ hosts, nics int }
	sizes := []size{{1000, 1}, {100, 8}}
	if testutil.Full() {
		sizes = append(sizes, size{1000, 8}, size{10000, 1})
	}
	for _, s := range sizes {
		t.Run(fmt.Sprintf("%d/%d", s.hosts, s.nics), func(t *testing.T) { ofMany(t, s.hosts, s.nics) })
	}
}

const scaleEnv, scaleHosts, scaleNICs = "PUREVERBS_SCALE_AGENTS", "PUREVERBS_SCALE_HOSTS", "PUREVERBS_SCALE_NICS"

// manyAgents has agents dial.
func manyAgents(t *testing.T, addr string) {
	n, err := strconv.Atoi(os.Getenv(scaleHosts))
	if err != nil {
		t.Fatal(err)
	}
	secret, err := agent.ReadToken("")
	if err != nil {
		t.Fatal(err)
	}
	nics, err := strconv.Atoi(os.Getenv(scaleNICs))
	if err != nil {
		t.Fatal(err)
	}
	var list []agent.NIC
	for i := range nics {
		list = append(list, agent.NIC{Name: fmt.Sprint("mlx5_", i)})
	}
	var agents sync.WaitGroup
	for i := range n {
		agents.Go(func() {
			w := worker(fmt.Sprintf("node%d", i+1), roster.Place{Rank: i, Of: n}, nothing{})
			w.NICs = list
			err := agent.Join(t.Context(), []string{addr}, secret, w, testutil.Patience)
			if err != nil {
				t.Errorf("agent %d: %v", i, err)
			}
		})
	}
	agents.Wait()
}

func ofMany(t *testing.T, n, nics int) {
	limit := syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := config(t)
	c.Listener, c.Rounds, c.Patience, c.Beat = ln, 3, testutil.Patience, 20*time.Second
	c.Reach = testutil.Patience
	c.Launcher = roster.Place{Rank: -1, Nodes: fmt.Sprintf("node[1-%d]", n)}
	var reach, begun time.Time
	c.Begun = func(pass string, _, _ int) {
		if begun = time.Now(); pass != "" {
			reach = begun
		}
	}
	began := time.Now()
	agents := exec.Command(os.Args[0], "-test.run", "^TestScale$")
	agents.Env = append(os.Environ(), scaleEnv+"="+ln.Addr().String(), fmt.Sprint(scaleHosts, "=", n),
		fmt.Sprint(scaleNICs, "=", nics))
	var said bytes.Buffer
	agents.Stdout, agents.Stderr = &said, &said
	if err := agents.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := agents.Wait(); err != nil {
			t.Errorf("the agents: %v\n%.2000s", err, &said)
		}
	}()
	descriptors, memory := 0, runtime.MemStats{}
	c.Done = func(list []PairResult) {
		if descriptors == 0 {
			list, _ := os.ReadDir("/proc/self/fd")
			descriptors = len(list)
			runtime.ReadMemStats(&memory)
		}
		for _, r := range list {
			if r.Error != "" {
				t.Errorf("%s > %s: %s", r.From, r.To, r.Error)
			}
		}
	}
	res, err := Run(t.Context(), c)
	ended := time.Now()
	if err != nil || len(res.LostHosts) > 0 || len(res.Pairs) != 6*(n/2)*nics {
		t.Fatalf("%v, lost %d, %d pairs, want %d", err, len(res.LostHosts), len(res.Pairs), 6*(n/2)*nics)
	}
	var object, text bytes.Buffer
	if err := res.JSON(&object); err != nil {
		t.Fatal(err)
	}
	res.Text(&text, false)
	spent := ended.Sub(begun).Seconds()
	t.Logf("%d hosts with %d NICs: gathered in %.1f s, first pass %.1f s, %d pairs in %.1f s (%.0f/s), "+
		"%d MiB of heap, %d of the system, %d descriptors (limit %d), JSON %.1f MB, text %d bytes", n, nics,
		reach.Sub(began).Seconds(), begun.Sub(reach).Seconds(), len(res.Pairs), spent,
		float64(len(res.Pairs))/spent, memory.HeapInuse>>20, memory.Sys>>20, descriptors, limit.Cur,
		float64(object.Len())/1e6, text.Len())
}
