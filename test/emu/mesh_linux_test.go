//go:build linux && amd64 && !race

package emu

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// meshResult is what the test reads of the JSON object of rdmaperf mesh.
type meshResult struct {
	Schema  string   `json:"schema"`
	Version int      `json:"version"`
	Hosts   []string `json:"hosts"`
	Pairs   []struct {
		From    string  `json:"from"`
		To      string  `json:"to"`
		Bits    float64 `json:"bandwidth_bits_per_second"`
		P50     float64 `json:"latency_p50_ns"`
		FromNIC string  `json:"from_nic"`
		ToNIC   string  `json:"to_nic"`
		Error   string  `json:"error"`
	} `json:"pairs"`
	SlowHosts []struct {
		Host   string  `json:"host"`
		Part   string  `json:"part"`
		Figure string  `json:"figure"`
		Value  float64 `json:"median_of_host"`
	} `json:"slow_hosts"`
	LostHosts []struct {
		Host string `json:"host"`
		Kind string `json:"kind"`
	} `json:"lost_hosts"`
	DarkNICs []struct {
		Host  string `json:"host"`
		NIC   string `json:"nic"`
		Error string `json:"error"`
	} `json:"dark_nics"`
}

// TestEmuMesh has eight hosts. The completions of one come late, and another one dies in the middle: the first is named
// as slow, the second as lost, and the pairs of the others all have figures.
func TestEmuMesh(t *testing.T) {
	testutil.NeedEmu(t)
	const slow, dies = 5, 2
	flags := []string{"--fault", fmt.Sprintf("cqe-delayed:device=mlx5_%d,us=50000,count=0", slow)}
	for i := range 8 {
		flags = append(flags, "--device", fmt.Sprintf("mlx5_%d", i))
	}
	if !inside(t, flags...) {
		return
	}
	t.Setenv("RDMAPERF_TOKEN", "0123456789abcdef")
	perf := filepath.Join(root, ".build/bin/rdmaperf")
	var devices []string
	for i := range 8 {
		devices = append(devices, fmt.Sprintf("mlx5_%d", i))
	}
	agents, hosts, log := startAgents(t, perf, 21900, devices)
	// Processes without end compete for few processors here: the figures of hosts that are well scatter much.
	m := exec.Command(perf, "mesh", "--json", "--slow", "60%", "--deviations", "1.5", "-n", "5", "--cpu-wait", "0",
		"--hosts", strings.Join(hosts, ","))
	var out, diag strings.Builder
	m.Stdout, m.Stderr = &out, &diag
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { m.Wait(); close(ended) }()
	t.Cleanup(func() { m.Process.Kill(); <-ended })
	testutil.Eventually(t, "the agent that dies has run tests", func() bool {
		b, _ := os.ReadFile(log(dies))
		return strings.Count(string(b), "server of write lat") > 1
	})
	agents[dies].Process.Kill()
	testutil.Eventually(t, "the mesh ends", func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
	if rc := m.ProcessState.ExitCode(); rc != 1 || !strings.Contains(diag.String(), "1 hosts were lost") {
		t.Errorf("exit code %d, want 1; %s", rc, &diag)
	}
	var r meshResult
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if r.Schema != "pureverbs.perf.mesh" || r.Version != 1 || len(r.Pairs) != 8*7 || len(r.Hosts) != 8 {
		t.Errorf("%s %d, %d pairs of %d hosts", r.Schema, r.Version, len(r.Pairs), len(r.Hosts))
	}
	if len(r.LostHosts) != 1 || r.LostHosts[0].Host != hosts[dies] {
		t.Errorf("lost: %v, want %s alone\n%s", r.LostHosts, hosts[dies], &diag)
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
	worst, least := "", 0.0
	for _, h := range r.SlowHosts {
		if h.Figure == "bandwidth_bits_per_second" && h.Part == "sends" && (worst == "" || h.Value < least) {
			worst, least = h.Host, h.Value
		}
	}
	if worst != hosts[slow] {
		t.Errorf("%s is not named as the slowest sender: %+v", hosts[slow], r.SlowHosts)
	}
}

// startAgents starts an agent for each entry of devices, on one port after the other. It returns the processes, what rdmaperf
// mesh takes for their hosts, and the file with what each says.
func startAgents(t *testing.T, perf string, port int, devices []string) (agents []*exec.Cmd, hosts []string,
	log func(int) string) {
	t.Helper()
	dir := t.TempDir()
	log = func(i int) string { return filepath.Join(dir, strconv.Itoa(i)) }
	for i, d := range devices {
		p := strconv.Itoa(port + i)
		c := exec.Command(perf, "serve", "-d", d, "-p", p, "--bind", "127.0.0.1")
		f, err := os.Create(log(i))
		if err != nil {
			t.Fatal(err)
		}
		c.Stderr = f
		err = c.Start()
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
		agents, hosts = append(agents, c), append(hosts, "127.0.0.1:"+p)
	}
	return agents, hosts, log
}

// TestEmuMeshNICs has four hosts with two adapters each. What one of the adapters sends is lost: it is named, and all
// pairs without it have figures. So have those without an adapter that is taken away in the middle.
func TestEmuMeshNICs(t *testing.T) {
	testutil.NeedEmu(t)
	const dark = 5
	flags := []string{"--fault", fmt.Sprintf("retry-exceeded:device=mlx5_%d,count=0", dark)}
	for i := range 8 {
		flags = append(flags, "--device", fmt.Sprintf("mlx5_%d", i))
	}
	if !inside(t, flags...) {
		return
	}
	t.Setenv("RDMAPERF_TOKEN", "0123456789abcdef")
	perf := filepath.Join(root, ".build/bin/rdmaperf")
	var devices []string
	for i := range 4 {
		devices = append(devices, fmt.Sprintf("mlx5_%d,mlx5_%d", 2*i, 2*i+1))
	}
	_, hosts, log := startAgents(t, perf, 21920, devices)
	var out, diag strings.Builder
	begin := func(messages string) *exec.Cmd {
		out.Reset()
		diag.Reset()
		m := exec.Command(perf, "mesh", "--json", "-n", messages, "-s", "64", "--reach", "60", "--cpu-wait", "0", "--deviations", "1e6",
			"--hosts", strings.Join(hosts, ","))
		m.Stdout, m.Stderr = &out, &diag
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := begin("5")
	m.Wait()
	var r meshResult
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
		t.Fatalf("%v\n%s\n%s", err, &out, &diag)
	}
	host, nic := hosts[dark/2], fmt.Sprint("mlx5_", dark)
	if rc := m.ProcessState.ExitCode(); rc != 1 || strings.Count(diag.String(), host+" "+nic+" reaches nobody: ") != 1 {
		t.Errorf("exit code %d, want 1; %s", rc, &diag)
	}
	if d := r.DarkNICs; len(d) != 1 || d[0].Host != host || d[0].NIC != nic || len(r.LostHosts) > 0 {
		t.Errorf("dark %v, want %s %s; lost %v", d, host, nic, r.LostHosts)
	}
	if len(r.Pairs) != 2*4*3 {
		t.Errorf("%d pairs of NICs, want %d", len(r.Pairs), 2*4*3)
	}
	for _, p := range r.Pairs {
		if no := p.FromNIC == nic || p.ToNIC == nic; no != (p.Error != "") || no == (p.Bits > 0 && p.P50 > 0) {
			t.Errorf("%+v", p)
		}
	}
	const gone = 2
	went := fmt.Sprint("mlx5_", gone)
	before, _ := os.ReadFile(log(gone / 2))
	m = begin("500") // so that it takes a while
	testutil.Eventually(t, "the adapter that goes is measured", func() bool {
		b, _ := os.ReadFile(log(gone / 2))
		return strings.Contains(string(b[len(before):]), "bw by "+went)
	})
	if b, err := exec.Command(emulator(), "control", "remove", went).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, b)
	}
	m.Wait()
	r = meshResult{}
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil || m.ProcessState.ExitCode() != 1 {
		t.Fatalf("%v, exit code %d\n%s", err, m.ProcessState.ExitCode(), &diag)
	}
	failed := 0
	for _, p := range r.Pairs {
		switch has := func(nic string) bool { return p.FromNIC == nic || p.ToNIC == nic }; {
		case !has(nic) && !has(went) && (p.Error != "" || p.Bits <= 0 || p.P50 <= 0):
			t.Errorf("without %s: %+v", went, p)
		case has(went) && p.Error != "":
			failed++
		}
	}
	if failed == 0 || len(r.Pairs) != 2*4*3 || len(r.LostHosts) > 0 {
		t.Errorf("%d pairs of %s failed, of %d; lost %v\n%s", failed, went, len(r.Pairs), r.LostHosts, &diag)
	}
}
