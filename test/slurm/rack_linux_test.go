package slurm

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestEmuSlurm_Rack: of 16 nodes with two adapters each, one adapter is slow; one node stands still for 3 s, one has
// another release, one is killed, one goes dark. Each is named, and no other one is lost.
func TestEmuSlurm_Rack(t *testing.T) {
	c := need(t)
	nic := c.dir + "/bin/nic" // runs the agent of one adapter
	script := "#!/bin/sh\nexec \"$@\" -d mlx5_$((2 * (${SLURMD_NODENAME#node} - 1) + SLURM_LOCALID))\n"
	if err := os.WriteFile(nic, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	stands, other, killed, dark := c.nodes[4], c.nodes[6], c.nodes[8], c.nodes[10]
	c.otherRelease(t, other)
	j := c.submit(t, submission{sbatch: []string{"-N16", "--ntasks-per-node=2"},
		edit: map[string]string{"--ntasks-per-node=1 --no-kill": "--ntasks-per-node=2 --no-kill",
			"--export=ALL": "--export=ALL " + nic},
		args: []string{"--rounds", "3", "--retry", "60", "--slow", "60%", "--deviations", "1", "--confirm", "-n", "5", "-s", "64"}})
	j.measuresWith(t, killed, 2)
	stands.signal(t, syscall.SIGSTOP)
	killed.signal(t, syscall.SIGKILL)
	link("down")(t, dark)
	begin := time.Now()
	time.Sleep(3 * time.Second)
	stands.signal(t, syscall.SIGCONT)
	for !j.finished() {
		time.Sleep(100 * time.Millisecond)
		if time.Since(begin) > 10*time.Minute {
			t.Fatal("the mesh does not end")
		}
	}
	t.Logf("%.0f s after the faults", time.Since(begin).Seconds())
	link("up")(t, dark)
	state, code := j.wait(t)
	r := j.result(t)
	t.Logf("slow: %+v\nstalled: %+v\n%s", r.Slow, r.Stalled, j.output(t))
	if dir := os.Getenv("PUREVERBS_TEST_KEEP"); dir != "" {
		b, _ := os.ReadFile(j.dir + "/perf-mesh-" + j.id + ".json")
		_ = os.WriteFile(dir+"/rack.json", b, 0o644)
	}
	if state != "FAILED" || code != "1:0" {
		t.Errorf("%s, %s", state, code)
	}
	got := map[string]string{} // of a node: how it was lost
	for _, l := range r.Lost {
		name, _, _ := strings.Cut(l.Host, "#")
		got[name] += l.Kind + ";"
	}
	for n, want := range map[*node]string{other: "left out;left out;", killed: "lost;lost;", dark: "lost;lost;"} {
		if got[n.name] != want {
			t.Errorf("%s: %q, want %q", n.name, got[n.name], want)
		}
		delete(got, n.name)
	}
	if len(got) > 0 {
		t.Errorf("also blamed: %v", got)
	}
	stood := 0.0 // others may also have stood still, because the processors are busy
	for _, h := range r.Stalled {
		if name, _, _ := strings.Cut(h.Host, "#"); name == stands.name {
			stood = max(stood, h.Seconds)
		}
	}
	if stood < 2 {
		t.Errorf("stalled: %+v, want %s for about 3 s", r.Stalled, stands.name)
	}
	named := false // others may also be slow, because the processors are busy, most of them not twice
	for _, h := range r.Slow {
		name, _, _ := strings.Cut(h.Host, "#")
		named = named || name == fmt.Sprintf("node%d", slowNode) && h.Confirmed
	}
	if !named {
		t.Errorf("slow: %+v, want one of node%d", r.Slow, slowNode)
	}
}
