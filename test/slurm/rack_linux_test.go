package slurm

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"
)

// TestEmuSlurm_Rack: of 16 nodes with two adapters each, one adapter is slow; one node stands still for 3 s, one has
// another release, one is killed, one goes dark. Each is named, and no other one is lost.
func TestEmuSlurm_Rack(t *testing.T) {
	c := need(t)
	nics := c.dir + "/bin/nics" // runs the agent of a node's adapters; all nodes see those of the emulator
	script := "#!/bin/sh\nn=$((2 * (${SLURMD_NODENAME#node} - 1)))\nexec \"$@\" -d mlx5_$n,mlx5_$((n + 1))\n"
	if err := os.WriteFile(nics, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	stands, other, killed, dark := c.nodes[4], c.nodes[6], c.nodes[8], c.nodes[10]
	c.otherRelease(t, other)
	j := c.submit(t, submission{sbatch: []string{"-N16"},
		edit: map[string]string{"--export=ALL": "--export=ALL " + nics},
		args: append([]string{"--rounds", "3", "--retry", "60", "--slow", "95%", "--deviations", "1", "--confirm",
			"--cpu-wait", "0"}, quick...)})
	j.measures(t, killed)
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
		b, _ := os.ReadFile(j.dir + "/rdmaperf-mesh-" + j.id + ".json")
		_ = os.WriteFile(dir+"/rack.json", b, 0o644)
	}
	if state != "FAILED" || code != "1:0" {
		t.Errorf("%s, %s", state, code)
	}
	got := map[string]string{} // of a node: how it was lost
	for _, l := range r.Lost {
		got[l.Host] += l.Kind
	}
	for n, want := range map[*node]string{other: "left out", killed: "lost", dark: "lost"} {
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
		if h.Host == stands.name {
			stood = max(stood, h.Seconds)
		}
	}
	if stood < 2 {
		t.Errorf("stalled: %+v, want %s for about 3 s", r.Stalled, stands.name)
	}
	named := false // others may also be slow, because the processors are busy, most of them not twice
	name, nic := fmt.Sprintf("node%d", slowNode), fmt.Sprintf("mlx5_%d", 2*slowNode-1)
	for _, h := range r.Slow {
		named = named || h.Host == name && h.NIC == nic && h.Confirmed
	}
	if !named {
		t.Errorf("slow: %+v, want %s of %s", r.Slow, nic, name)
	}
}
