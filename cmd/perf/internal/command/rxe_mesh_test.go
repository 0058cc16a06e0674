package command

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// meshStalls is what the test reads of the JSON object of rdmaperf mesh.
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
	t.Setenv("RDMAPERF_TOKEN", "0123456789abcdef")
	var agents []*proc
	var hosts []string
	for i := range 4 {
		port := freshPort()
		agents = append(agents, start(t, "rdmaperf", "serve", "-d", vm.Dev[i%2], "-p", port, "--bind", "127.0.0.1"))
		hosts = append(hosts, "127.0.0.1:"+port)
		listening(t, agents[i], port)
	}
	stops := agents[3]
	for try := range 5 {
		before := len(stops.diag.String())
		m := start(t, "rdmaperf", "mesh", "--json", "--fail-slow", "--deviations", "1e6", "-n", "50", "--size", "64",
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

// TestRXE_MeshNICs: agents measure all their devices. One whose link is down is not used where nobody asked for it, and
// dark where it was asked for.
func TestRXE_MeshNICs(t *testing.T) {
	vm := needOnce(t)
	t.Setenv("RDMAPERF_TOKEN", "0123456789abcdef")
	list := vm.Dev[0] + "," + vm.Dev[1]
	for _, tt := range []struct {
		devices []string // of each agent
		flags   string
		down    bool
		pairs   map[string]int // by the NICs of both ends
		dark    int
	}{
		{[]string{"all", "all", list}, "", false, map[string]int{vm.Dev[0] + " " + vm.Dev[0]: 6,
			vm.Dev[1] + " " + vm.Dev[1]: 6}, 0},
		{[]string{"all", "all"}, "--rails all", false, map[string]int{vm.Dev[0] + " " + vm.Dev[0]: 2,
			vm.Dev[1] + " " + vm.Dev[1]: 2, vm.Dev[0] + " " + vm.Dev[1]: 2, vm.Dev[1] + " " + vm.Dev[0]: 2}, 0},
		{[]string{"all", "all"}, "", true, map[string]int{vm.Dev[0] + " " + vm.Dev[0]: 2}, 0},
		{[]string{list, "all", vm.Dev[0]}, "", true, map[string]int{vm.Dev[0] + " " + vm.Dev[0]: 6}, 1},
	} {
		var hosts []string
		var agents []*proc
		for _, d := range tt.devices {
			port := freshPort()
			p := start(t, "rdmaperf", "serve", "-d", d, "-p", port, "--bind", "127.0.0.1")
			listening(t, p, port)
			agents, hosts = append(agents, p), append(hosts, "127.0.0.1:"+port)
		}
		if tt.down { // after the agents have begun: they look again for each mesh
			vm.SetLink(t, 1, false)
		}
		args := append([]string{"mesh", "--json", "-n", "5", "--size", "64", "--deviations", "1e6", "--reach", "60",
			"--hosts", strings.Join(hosts, ",")}, strings.Fields(tt.flags)...)
		m := start(t, "rdmaperf", args...)
		rc := m.wait(t)
		if tt.down {
			vm.SetLink(t, 1, true)
		}
		var r struct {
			Pairs []struct {
				FromNIC string  `json:"from_nic"`
				ToNIC   string  `json:"to_nic"`
				Bits    float64 `json:"bandwidth_bits_per_second"`
			} `json:"pairs"`
			Dark []struct {
				NIC   string `json:"nic"`
				Error string `json:"error"`
			} `json:"dark_nics"`
		}
		if err := json.Unmarshal([]byte(m.out.String()), &r); err != nil {
			t.Fatalf("%v\n%s", err, m.output())
		}
		got := map[string]int{}
		for _, p := range r.Pairs {
			if p.Bits > 0 {
				got[p.FromNIC+" "+p.ToNIC]++
			}
		}
		if !maps.Equal(got, tt.pairs) || len(r.Dark) != tt.dark || (rc == exitOK) != (tt.dark == 0) {
			t.Errorf("%q %s: %v, want %v; dark %+v, want %d; exit code %d\n%s", tt.devices, tt.flags, got, tt.pairs,
				r.Dark, tt.dark, rc, m.diag.String())
		}
		for _, d := range r.Dark {
			if d.NIC != vm.Dev[1] || !strings.Contains(d.Error, "not active") {
				t.Errorf("%+v", d)
			}
		}
		for _, p := range agents {
			p.Process.Signal(syscall.SIGTERM)
			p.wait(t)
		}
	}
	p := start(t, "rdmaperf", "serve", "-d", vm.Dev[0]+",nonsense", "-p", freshPort())
	if rc := p.wait(t); rc != exitUsage || !strings.Contains(p.diag.String(), "there are: "+vm.Dev[0]+", "+vm.Dev[1]) {
		t.Errorf("an unknown device in a list: exit code %d\n%s", rc, p.output())
	}
}
