package slurm

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

var (
	// quick are options of a mesh whose tests are short.
	quick = []string{"-n", "20", "-s", "64"}
	// steady are those of one that takes seconds. They are no -D, because on a busy machine a test of 1 s may have too
	// few messages for a figure.
	steady = []string{"-n", "3000", "-s", "64"}
	// long are those of one that runs for a while.
	long = []string{"-D", "2", "-s", "64"}
)

// complete fails the test unless the job succeeded and has the figures of all pairs of n nodes.
func (j job) complete(t *testing.T, n int) {
	t.Helper()
	state, code := j.wait(t)
	r := j.result(t)
	got, of := r.measured()
	if state != "COMPLETED" || code != "0:0" || got != n*(n-1) || of != got || len(r.Lost) > 0 || r.Error != "" {
		t.Errorf("%s, %s: %d of %d pairs, lost %+v, %q\n%s", state, code, got, of, r.Lost, r.Error, j.output(t))
	}
}

// without fails the test unless the job failed because of these nodes, and has the figures of all other pairs of n.
func (j job) without(t *testing.T, n int, names ...string) {
	t.Helper()
	state, code := j.wait(t)
	r := j.result(t)
	left := n - len(names)
	if got, _ := r.measured(names...); state != "FAILED" || code != "1:0" || !slices.Equal(r.lost(), names) ||
		got != left*(left-1) {
		t.Errorf("%s, %s: %d of %d pairs of the others, lost %+v, want %q\n%s", state, code, got, left*(left-1), r.Lost,
			names, j.output(t))
	}
	t.Logf("%+v", r.Lost)
}

// begins waits until Slurm has started the job.
func (j job) begins(t *testing.T) {
	t.Helper()
	testutil.Eventually(t, "job "+j.id+" begins", func() bool {
		return !slices.Contains([]string{"PENDING", "CONFIGURING"}, j.show(t)["JobState"])
	})
}

// measures waits until a node runs a test: its agent is connected to the coordinator, and in a test also to the agent
// at the other end.
func (j job) measures(t *testing.T, n *node) {
	t.Helper()
	testutil.Eventually(t, n.name+" measures", func() bool { return n.connections() > 1 || j.finished() })
	if j.finished() {
		t.Error("the mesh is over")
	}
}

// finished reports whether rdmaperf mesh has written its result.
func (j job) finished() bool {
	_, err := os.Stat(filepath.Join(j.dir, "rdmaperf-mesh-"+j.id+".json"))
	return err == nil
}

// TestEmuSlurm_Good: the file holds the tables, and the result is in a file of its own.
func TestEmuSlurm_Good(t *testing.T) {
	c := needAny(t)
	j := c.submit(t, submission{sbatch: []string{"-N4", "-wnode[1-4]"}, args: quick})
	j.complete(t, 4)
	out := j.output(t)
	if !strings.Contains(out, "[3] node4") || strings.Contains(out, "agent on") || strings.Contains(out, "server of") {
		t.Errorf("output:\n%s", out)
	}
}

// TestEmuSlurm_Dark: whenever a node goes dark, it is named, and no other one.
func TestEmuSlurm_Dark(t *testing.T) {
	c := need(t)
	victim := c.nodes[2]
	start := func(t *testing.T) job {
		j := c.submit(t, submission{sbatch: []string{"-N4", "-wnode[1-4]"}, args: steady})
		j.begins(t)
		testutil.Eventually(t, "the agent starts", func() bool { // before that: TestEmuSlurm_DarkAtLaunch
			return len(victim.processes("rdmaperf")) > 0 || j.finished()
		})
		return j
	}
	j := start(t)
	begin := time.Now()
	testutil.Eventually(t, "the mesh ends", j.finished)
	took := time.Since(begin) // where nothing happens; the instants are tenths of it
	t.Logf("undisturbed: %.1f s", took.Seconds())
	j.complete(t, 4)
	for _, d := range darknesses {
		ran, named := 0, 0
		for i := range 10 {
			t.Run(fmt.Sprintf("%s_%d", strings.ReplaceAll(d.name, " ", "_"), i), func(t *testing.T) {
				t.Cleanup(func() { c.heal(t) })
				ran++
				j := start(t)
				begin := time.Now()
				for time.Since(begin) < took*time.Duration(i)/10 && !j.finished() {
					time.Sleep(20 * time.Millisecond)
				}
				if j.finished() { // faster than the one before: the machine has less to do
					took = time.Since(begin)
				}
				d.on(t, victim)
				dark := time.Now()
				testutil.Eventually(t, "the mesh ends", j.finished)
				t.Logf("ended %.1f s later", time.Since(dark).Seconds())
				d.off(t, victim)
				if r := j.result(t); len(r.Lost) == 0 {
					j.complete(t, 4)
					t.Log(victim.name + " had nothing left to do: each of its pairs has its figures")
					return
				}
				named++
				j.without(t, 4, "node3")
			})
		}
		if named < ran/2 && !t.Failed() {
			t.Errorf("%s: the node was named in %d of %d runs", d.name, named, ran)
		}
	}
}

// TestEmuSlurm_DarkAtLaunch: srun itself gives up if it cannot reach a node. Nobody is blamed for what srun says.
func TestEmuSlurm_DarkAtLaunch(t *testing.T) {
	c := need(t)
	link("down")(t, c.nodes[2])
	j := c.submit(t, submission{sbatch: []string{"-N4", "-wnode[1-4]"}, args: quick})
	j.begins(t)
	testutil.Eventually(t, "the mesh ends", j.finished)
	link("up")(t, c.nodes[2])
	state, code := j.wait(t)
	out := j.output(t)
	if lost := j.result(t).lost(); state != "FAILED" || code != "1:0" || !slices.Equal(lost, []string{"node3"}) ||
		!strings.Contains(out, "launcher: srun: error: ") {
		t.Errorf("%s, %s, lost %q\n%s", state, code, lost, out)
	}
	t.Log(out)
}

// TestEmuSlurm_Killed: an agent that is killed is named.
func TestEmuSlurm_Killed(t *testing.T) {
	c := need(t)
	j := c.submit(t, submission{sbatch: []string{"-N4", "-wnode[1-4]"}, args: long})
	j.measures(t, c.nodes[2])
	c.nodes[2].signal(t, syscall.SIGKILL)
	j.without(t, 4, "node3")
}

// TestEmuSlurm_NodeFails: a node fails for good, and Slurm notices. The job goes on, and runs once.
func TestEmuSlurm_NodeFails(t *testing.T) {
	c := need(t)
	j := c.submit(t, submission{sbatch: []string{"-N4", "-wnode[1-4]"}, args: long})
	j.measures(t, c.nodes[2])
	c.stop(c.nodes[2])
	link("down")(t, c.nodes[2])
	testutil.Eventually(t, "Slurm notices", func() bool {
		out, _ := exec.Command("sinfo", "-h", "-n", "node3", "-o", "%T").Output()
		return strings.Contains(string(out), "down") || j.finished()
	})
	j.without(t, 4, "node3")
	if n := j.show(t)["Restarts"]; n != "0" {
		t.Errorf("%s restarts", n)
	}
}

// TestEmuSlurm_BatchNodeFails: without the coordinator the agents end. Slurm may keep the job, whose other nodes it has
// not lost, until the time is up. It does not run it again, which would overwrite its output.
func TestEmuSlurm_BatchNodeFails(t *testing.T) {
	c := need(t)
	j := c.submit(t, submission{sbatch: []string{"-N4", "-wnode[1-4]"}, args: long})
	j.measures(t, c.nodes[1]) // the first one also has the coordinator's connections
	c.stop(c.nodes[0])
	link("down")(t, c.nodes[0])
	for _, n := range c.nodes[1:4] {
		testutil.Eventually(t, n.name+" has no agent", func() bool { return len(n.processes("rdmaperf")) == 0 })
	}
	link("up")(t, c.nodes[0])
	if err := c.start(c.nodes[0], ""); err != nil {
		t.Fatal(err)
	}
	_ = exec.Command("scancel", j.id).Run()
	state, _ := j.wait(t)
	if n := j.show(t)["Restarts"]; state != "NODE_FAIL" && state != "CANCELLED" || n != "0" {
		t.Errorf("%s, %s restarts", state, n)
	}
}

// TestEmuSlurm_NoDevice: what node3 lacks is said, and the others are measured.
func TestEmuSlurm_NoDevice(t *testing.T) {
	c := need(t)
	c.special(t, c.nodes[2], `for f in /lib/*/libibverbs.so.1; do mount --bind /dev/null $(readlink -f $f); done`)
	j := c.submit(t, submission{sbatch: []string{"-N4", "-wnode[1-4]"}, args: quick})
	j.without(t, 4, "node3")
	if r := j.result(t); len(r.Lost) == 1 && !strings.Contains(r.Lost[0].Error, "libibverbs") {
		t.Errorf("%+v", r.Lost)
	}
}

// TestEmuSlurm_NoProgram: a node without rdmaperf is named.
func TestEmuSlurm_NoProgram(t *testing.T) {
	c := need(t)
	c.special(t, c.nodes[2], "mount -t tmpfs none bin")
	j := c.submit(t, submission{sbatch: []string{"-N4", "-wnode[1-4]"}, args: quick})
	j.without(t, 4, "node3")
	if out := j.output(t); !strings.Contains(out, "No such file or directory") {
		t.Errorf("what srun says is not shown:\n%s", out)
	}
}

// take takes a TCP port of a node.
func take(t *testing.T, n *node, port string) {
	t.Helper()
	var err error
	done := make(chan struct{})
	go func() { // in the network namespace of the node, with a thread that ends
		defer close(done)
		runtime.LockOSThread()
		err = enterNetwork(n.netns)
		if err == nil {
			var ln net.Listener
			if ln, err = net.Listen("tcp", ":"+port); err == nil {
				t.Cleanup(func() { ln.Close() })
			}
		}
	}()
	if <-done; err != nil {
		t.Fatal(err)
	}
}

// TestEmuSlurm_TakenPort: the default port of agents may be taken, also where the coordinator is.
func TestEmuSlurm_TakenPort(t *testing.T) {
	c := need(t)
	for _, n := range []*node{c.nodes[0], c.nodes[2]} {
		take(t, n, "18514")
	}
	c.submit(t, submission{sbatch: []string{"-N4", "-wnode[1-4]"}, args: quick}).complete(t, 4)
}

// TestEmuSlurm_Firewall: rdmaperf needs two ports or ranges between nodes, which can be chosen. The others are Slurm's.
func TestEmuSlurm_Firewall(t *testing.T) {
	c := need(t)
	for _, n := range c.nodes[:4] {
		rule := "iptables $1 INPUT -i eth0 -p tcp --syn -m multiport ! --dports 6818,60001:63000,18514,18600:18999 " +
			"-j REJECT --reject-with tcp-reset"
		if err := sh(`nsenter --net="$1" sh -euc "$2" sh -A`, n.netns, rule); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := sh(`nsenter --net="$1" sh -euc "$2" sh -D`, n.netns, rule); err != nil {
				t.Error(err)
			}
		})
	}
	j := c.submit(t, submission{sbatch: []string{"-N4", "-wnode[1-4]"}, args: append([]string{"--listen", ":18514"},
		quick...)})
	if state, _ := j.wait(t); state != "FAILED" {
		t.Errorf("%s with tests on any port", state)
	}
	c.submit(t, submission{sbatch: []string{"-N4", "-wnode[1-4]"}, args: append([]string{"--listen", ":18514",
		"--test-ports", "18600-18999"}, quick...)}).complete(t, 4)
}

// TestEmuSlurm_NoDNS: no node knows the name of another one.
func TestEmuSlurm_NoDNS(t *testing.T) {
	c := need(t)
	for _, n := range c.nodes[:4] {
		c.special(t, n, "mount --bind no-hosts /etc/hosts")
	}
	c.submit(t, submission{sbatch: []string{"-N4", "-wnode[1-4]"}, args: quick}).complete(t, 4)
}

// TestEmuSlurm_Two: two meshes share the nodes, and none uses the other's agents.
func TestEmuSlurm_Two(t *testing.T) {
	c := need(t)
	s := submission{sbatch: []string{"-N4", "-wnode[1-4]"}, edit: map[string]string{"#SBATCH --exclusive\n": ""},
		args: quick}
	a, b := c.submit(t, s), c.submit(t, s)
	a.begins(t)
	b.begins(t)
	if state := a.show(t)["JobState"]; state != "RUNNING" {
		t.Logf("the first is %s already", state)
	}
	a.complete(t, 4)
	b.complete(t, 4)
}

// TestEmuSlurm_ExportNone: the job has nothing of the environment of sbatch.
func TestEmuSlurm_ExportNone(t *testing.T) {
	c := need(t)
	j := c.submit(t, submission{sbatch: []string{"-N4", "-wnode[1-4]", "--export=NONE"}, args: quick,
		edit: map[string]string{"exec rdmaperf": "exec " + c.dir + "/bin/rdmaperf"}})
	j.complete(t, 4)
}

// blameless fails the test if the job blames a host.
func (j job) blameless(t *testing.T) {
	t.Helper()
	out := j.output(t)
	if j.finished() {
		if r := j.result(t); len(r.Lost) > 0 {
			t.Errorf("blamed: %+v", r.Lost)
		}
	}
	if strings.Contains(out, "lost host") {
		t.Errorf("a host is blamed:\n%s", out)
	}
	t.Log(out)
}

func TestEmuSlurm_Cancel(t *testing.T) {
	c := need(t)
	j := c.submit(t, submission{sbatch: []string{"-N4", "-wnode[1-4]"}, args: long})
	j.measures(t, c.nodes[2])
	if out, err := exec.Command("scancel", j.id).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if state, _ := j.wait(t); state != "CANCELLED" {
		t.Error(state)
	}
	j.blameless(t)
}

// TestEmuSlurm_TimeLimit: Slurm's shortest limit is a minute.
func TestEmuSlurm_TimeLimit(t *testing.T) {
	c := need(t)
	j := c.submit(t, submission{sbatch: []string{"-N4", "-wnode[1-4]", "--time=1"},
		args: []string{"-D", "30", "-s", "64"}})
	if state, _ := j.wait(t); state != "TIMEOUT" {
		t.Error(state)
	}
	j.blameless(t)
}

// TestEmuSlurm_Requeue: the job cannot be run again, which would overwrite its output.
func TestEmuSlurm_Requeue(t *testing.T) {
	c := need(t)
	j := c.submit(t, submission{sbatch: []string{"-N4", "-wnode[1-4]"}, args: long})
	j.measures(t, c.nodes[2])
	out, err := exec.Command("scontrol", "requeue", j.id).CombinedOutput()
	if err == nil {
		t.Errorf("it was requeued: %s", out)
	}
	j.complete(t, 4)
}

// srun is a batch file with the line that rdmaperf mesh --help has.
var srun = submission{sbatch: []string{"-N4", "-wnode[1-4]"}, args: quick, edit: map[string]string{
	"exec rdmaperf": "export RDMAPERF_TOKEN=0123456789abcdef0123456789abcdef; srun --ntasks-per-node=1 rdmaperf",
	"\\\n\t--launch 'srun --ntasks-per-node=1 --no-kill --kill-on-bad-exit=0 --export=ALL'": "",
}}

// TestEmuSlurm_Ranks: srun starts rdmaperf mesh, and rank 0 coordinates.
func TestEmuSlurm_Ranks(t *testing.T) {
	c := need(t)
	c.submit(t, srun).complete(t, 4)
}

// TestEmuSlurm_RankKilled: the agents end with their coordinator, not with the allocation.
func TestEmuSlurm_RankKilled(t *testing.T) {
	c := need(t)
	s := srun
	s.args = long
	j := c.submit(t, s)
	j.measures(t, c.nodes[1]) // the first one also has the coordinator's connections
	c.nodes[0].signal(t, syscall.SIGKILL)
	if state, _ := j.wait(t); state != "FAILED" {
		t.Errorf("%s\n%s", state, j.output(t))
	}
}

// otherRelease gives a node another release of rdmaperf.
func (c *cluster) otherRelease(t *testing.T, n *node) {
	t.Helper()
	program, err := os.ReadFile(c.dir + "/bin/rdmaperf")
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	version := info.Main.Version // its length cannot change
	cut := min(len(version), len("v0.9.99"))
	here, other := info.Main.Path+"\t"+version, info.Main.Path+"\t"+"v0.9.99"[:cut]+version[cut:]
	if !bytes.Contains(program, []byte(here)) {
		t.Fatalf("rdmaperf has no %q", here)
	}
	program = bytes.ReplaceAll(program, []byte(here), []byte(other))
	if err := os.WriteFile(c.dir+"/other", program, 0o755); err != nil {
		t.Fatal(err)
	}
	c.special(t, n, "mount --bind other bin/rdmaperf")
}

// TestEmuSlurm_OtherRelease: a node with another release of rdmaperf is left out, and its release is named.
func TestEmuSlurm_OtherRelease(t *testing.T) {
	c := need(t)
	c.otherRelease(t, c.nodes[2])
	j := c.submit(t, submission{sbatch: []string{"-N4", "-wnode[1-4]"}, args: quick})
	j.without(t, 4, "node3")
	if r := j.result(t); len(r.Lost) == 1 && !strings.Contains(r.Lost[0].Program+r.Lost[0].Error, "v0.9.9") {
		t.Errorf("%+v", r.Lost)
	}
}
