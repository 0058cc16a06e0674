package main

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// meshStalls is what the test reads of the JSON object of perf mesh.
type meshStalls struct {
	Pairs []struct {
		Error string `json:"error"`
	} `json:"pairs"`
	Lost    []struct{} `json:"lost_hosts"`
	Stalled []struct {
		Host     string  `json:"host"`
		Seconds  float64 `json:"seconds"`
		Silences int     `json:"silences"`
	} `json:"stalled_hosts"`
}

// TestRXE_MeshStalled: an agent that is stopped for 3 s and goes on is named, and all pairs have figures. On a busy
// machine others may stand still as well.
func TestRXE_MeshStalled(t *testing.T) {
	vm := needOnce(t)
	t.Setenv("PERF_TOKEN", "0123456789abcdef")
	var agents []*proc
	var hosts []string
	for i := range 4 {
		port := freshPort()
		agents = append(agents, start(t, "perf", "serve", "-d", vm.Dev[i%2], "-p", port, "--bind", "127.0.0.1"))
		hosts = append(hosts, "127.0.0.1:"+port)
		listening(t, agents[i], port)
	}
	stops := agents[3]
	for try := range 5 {
		before := len(stops.diag.String())
		m := start(t, "perf", "mesh", "--json", "--fail-slow", "--deviations", "1e6", "-n", "50", "--size", "64",
			"--heartbeat", "4", "--hosts", strings.Join(hosts, ","))
		testutil.Eventually(t, "the agent that stops runs tests", func() bool {
			return strings.Contains(stops.diag.String()[before:], "server of write bw")
		})
		stops.Process.Signal(syscall.SIGSTOP)
		time.Sleep(3 * time.Second)
		early := false
		select {
		case <-m.done:
			early = true // the mesh had ended before
		default:
		}
		stops.Process.Signal(syscall.SIGCONT)
		rc := m.wait(t)
		if early && try < 4 {
			continue
		}
		var r meshStalls
		if err := json.Unmarshal([]byte(m.out.String()), &r); err != nil {
			t.Fatalf("%v\n%s", err, m.output())
		}
		if rc != exitLimit || !strings.Contains(m.diag.String(), "stood still") {
			t.Errorf("exit code %d, want %d\n%s", rc, exitLimit, m.diag.String())
		}
		var names []string
		for _, h := range r.Stalled {
			if names = append(names, h.Host); h.Host == hosts[3] && (h.Seconds < 2.5 || h.Silences < 1) {
				t.Errorf("%+v", h)
			}
		}
		if !slices.Contains(names, hosts[3]) || len(r.Lost) > 0 || len(r.Pairs) != 12 {
			t.Errorf("stalled %q, want %s; %d lost, %d pairs", names, hosts[3], len(r.Lost), len(r.Pairs))
		}
		for i, p := range r.Pairs {
			if p.Error != "" {
				t.Errorf("pair %d: %s", i, p.Error)
			}
		}
		return
	}
}
