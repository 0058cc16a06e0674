package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/mesh"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

const inMesh = "PERF_MESH_TEST_INSIDE"

// TestEmuMesh has eight hosts. The completions of one come late, and another one dies in the middle: the first is named
// as slow, the second as lost, and the pairs of the others all have figures.
func TestEmuMesh(t *testing.T) {
	const slow, dies = 5, 2
	if os.Getenv(inMesh) == "" {
		root, err := filepath.Abs("../..")
		if err != nil {
			t.Fatal(err)
		}
		args := []string{"--fault", fmt.Sprintf("cqe-delayed:device=mlx5_%d,us=50000,count=0", slow)}
		for i := range 8 {
			args = append(args, "--device", fmt.Sprintf("mlx5_%d", i))
		}
		args = append(args, "--", os.Args[0], "-test.run=^TestEmuMesh$", "-test.v")
		cmd := exec.Command(filepath.Join(root, ".build/bin/emu"), args...)
		cmd.Env = append(os.Environ(), inMesh+"="+filepath.Join(root, ".build/bin/perf"),
			"PERF_TOKEN=0123456789abcdef")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	perf := os.Getenv(inMesh)
	var agents []*proc
	var hosts []string
	for i := range 8 {
		port := freshPort()
		agents = append(agents, start(t, perf, "serve", "-d", fmt.Sprintf("mlx5_%d", i), "-p", port,
			"--bind", "127.0.0.1"))
		hosts = append(hosts, "127.0.0.1:"+port)
	}
	// Processes without end compete for few processors here: the figures of hosts that are well scatter much.
	m := start(t, perf, "mesh", "--json", "--slow", "60%", "--deviations", "1.5", "-n", "5",
		"--hosts", strings.Join(hosts, ","))
	testutil.Eventually(t, "the agent that dies has run tests", func() bool {
		return strings.Count(agents[dies].diag.String(), "server of write lat") > 1
	})
	agents[dies].Process.Signal(syscall.SIGKILL)
	if rc := m.wait(t); rc != exitFailure {
		t.Errorf("exit code %d, want %d\n%s", rc, exitFailure, m.output())
	}
	var r mesh.Result
	if err := json.Unmarshal([]byte(m.out.String()), &r); err != nil {
		t.Fatalf("%v\n%s", err, m.output())
	}
	if r.Schema != "pureverbs.perf.mesh" || r.Version != 1 || len(r.Pairs) != 8*7 || len(r.Hosts) != 8 {
		t.Errorf("%s %d, %d pairs of %d hosts", r.Schema, r.Version, len(r.Pairs), len(r.Hosts))
	}
	if len(r.LostHosts) != 1 || r.LostHosts[0].Host != hosts[dies] {
		t.Errorf("lost: %v, want %s alone\n%s", r.LostHosts, hosts[dies], m.diag.String())
	}
	for _, p := range r.Pairs {
		lost := p.From == hosts[dies] || p.To == hosts[dies]
		switch {
		case lost && p.Error != "" && !strings.Contains(p.Error, "host "+hosts[dies]+" "):
			t.Errorf("%s > %s: %q does not name %s", p.From, p.To, p.Error, hosts[dies])
		case !lost && (p.Error != "" || p.Bits <= 0 || p.P50 <= 0):
			t.Errorf("%s > %s has no figures: %+v", p.From, p.To, p)
		}
	}
	var worst mesh.SlowHost
	for _, h := range r.SlowHosts {
		if h.Figure == "bandwidth_bits_per_second" && h.Part == "sends" && (worst.Host == "" || h.Value < worst.Value) {
			worst = h
		}
	}
	if worst.Host != hosts[slow] {
		t.Errorf("%s is not named as the slowest sender: %+v\n%s", hosts[slow], r.SlowHosts, m.out.String())
	}
	if !strings.Contains(m.diag.String(), "1 hosts were lost") {
		t.Errorf("it does not say that a host was lost: %s", m.diag.String())
	}
}
