package slurm

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// nodes is how many nodes the cluster has: node1, node2 and so on. A short run has a few.
var nodes = 4

// slowNode is the node whose second adapter is slow. Its first one, the only one of most tests, is not.
const slowNode = 16

// belowEnv is set where the test binary runs below the emulator, in namespaces of its own.
const belowEnv = "PUREVERBS_TEST_SLURM"

const user = 2001 // who submits the jobs: alice

// here is the cluster; nil outside the namespaces.
var here *cluster

func TestMain(m *testing.M) {
	if testutil.Full() {
		nodes = slowNode
	}
	if os.Getenv(belowEnv) != "" {
		os.Exit(below(m))
	}
	if why() == "" {
		os.Exit(enter())
	}
	os.Exit(m.Run())
}

// why returns why the tests cannot run here, "" if they can.
func why() string {
	for _, p := range []string{"slurmctld", "slurmd", "sbatch", "munged"} {
		if _, err := exec.LookPath(p); err != nil {
			return "Slurm is not installed: make test-slurm"
		}
	}
	switch {
	case os.Getenv(testutil.EmuEnv) == "":
		return "starts the emulator: make test-slurm"
	case os.Getuid() != 0:
		return "needs root: make test-slurm"
	}
	out, err := exec.Command("unshare", "-n", "-m", "-p", "-f", "-u", "--mount-proc", "sh", "-euc",
		"ip link add br0 type bridge; ip link add v0 type veth peer name p0; hostname node").CombinedOutput()
	if err != nil {
		return fmt.Sprintf("no virtual nodes here: %v: %s", err, bytes.TrimSpace(out))
	}
	return ""
}

// need returns the cluster of a full run as it was at first.
func need(t *testing.T) *cluster {
	t.Helper()
	if !testutil.Full() {
		t.Skip("full runs only: make test-slurm")
	}
	return needAny(t)
}

// needAny returns the cluster as it was at first.
func needAny(t *testing.T) *cluster {
	t.Helper()
	if here == nil {
		t.Skip(why())
	}
	t.Cleanup(func() { here.heal(t) })
	return here
}

// enter runs this binary in namespaces of its own, below the emulator.
func enter() int {
	bin, err := filepath.Abs("../../.build/bin")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	emu := []string{bin + "/emu", "--net=host"}
	for i := range 2 * nodes {
		emu = append(emu, "--device", fmt.Sprintf("mlx5_%d,gid=10.88.%d.%d", i, i/nodes, i%nodes+1))
	}
	if nodes >= slowNode {
		emu = append(emu, "--fault", fmt.Sprintf("cqe-delayed:device=mlx5_%d,us=200000,count=0", 2*slowNode-1))
	}
	emu = append(emu, "--")
	return testutil.Enter([]string{"-u"}, emu, belowEnv+"="+bin)
}

// below starts the cluster, and runs the tests.
func below(m *testing.M) int {
	c, err := newCluster(os.Getenv(belowEnv))
	if c != nil {
		defer c.end()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the cluster:", err)
		return 1
	}
	here = c
	return m.Run()
}

// cluster is a Slurm.
type cluster struct {
	dir      string // of all its files
	nodes    []*node
	programs []*exec.Cmd // slurmctld, munged
}

// node is a virtual node.
type node struct {
	name, addr string
	netns      string // file of its network namespace
	link       string // its interface at the controller's end
	slurmd     *exec.Cmd
	special    bool // it was prepared for one test
}

// sh runs a shell script.
func sh(script string, args ...string) error {
	out, err := exec.Command("sh", append([]string{"-euc", script, "sh"}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", script, err, out)
	}
	return nil
}

func newCluster(bin string) (*cluster, error) {
	dir, err := os.MkdirTemp("", "slurm")
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: dir}
	hosts := "127.0.0.1 localhost\n10.77.1.254 ctl\n"
	for i := range nodes {
		n := &node{name: fmt.Sprintf("node%d", i+1), addr: fmt.Sprintf("10.77.1.%d", i+1),
			netns: fmt.Sprintf("%s/run/net%d", dir, i+1), link: fmt.Sprintf("v%d", i+1)}
		hosts += n.addr + " " + n.name + "\n"
		c.nodes = append(c.nodes, n)
	}
	err = sh(`cd "$1"; chmod 755 .; mkdir spool log run state alice bin
	hostname ctl
	ip link set lo up; ip link add br0 type bridge; ip addr add 10.77.1.254/24 dev br0; ip link set br0 up
	{ cat /etc/passwd; echo "alice:x:$3:$3:alice:$1/alice:/bin/bash"; } >passwd
	{ cat /etc/group; echo "alice:x:$3:"; } >group
	printf %s "$4" >hosts; printf '127.0.0.1 localhost\n' >no-hosts
	for f in hosts passwd group; do mount --bind $f /etc/$f; done
	chown $3:$3 alice
	cp "$2/rdmaperf" bin/rdmaperf; cp "$2/emu" bin
	head -c 64 /dev/urandom >munge.key; chmod 400 munge.key`, dir, bin, strconv.Itoa(user), hosts)
	if err != nil {
		return c, err
	}
	conf := fmt.Sprintf(`ClusterName=emu
SlurmctldHost=ctl(10.77.1.254)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=%[1]s/run/munge.sock
CredType=cred/munge
StateSaveLocation=%[1]s/state
SlurmdSpoolDir=%[1]s/spool/%%n
SlurmctldPidFile=%[1]s/run/slurmctld.pid
SlurmdPidFile=%[1]s/run/slurmd-%%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=10
SrunPortRange=60001-63000
KillWait=5
InactiveLimit=0
NodeName=node[1-%[2]d] NodeAddr=10.77.1.[1-%[2]d] CPUs=2 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`, dir, nodes)
	if err := os.WriteFile(dir+"/slurm.conf", []byte(conf), 0o644); err != nil {
		return c, err
	}
	os.Setenv("SLURM_CONF", dir+"/slurm.conf")
	os.Setenv("PATH", dir+"/bin:"+os.Getenv("PATH"))
	if _, err := c.program("munged", "munged", "--foreground", "--force", "--key-file="+dir+"/munge.key",
		"--socket="+dir+"/run/munge.sock", "--pid-file="+dir+"/run/munged.pid", "--log-file="+dir+"/log/munged",
		"--seed-file="+dir+"/run/munge.seed"); err != nil {
		return c, err
	}
	err = patiently("munged", func() bool { _, err := os.Stat(dir + "/run/munge.sock"); return err == nil })
	if err != nil {
		return c, err
	}
	if err := os.Chmod(dir+"/run", 0o755); err != nil { // munged takes it from other users
		return c, err
	}
	if _, err := c.program("slurmctld", "slurmctld", "-D"); err != nil {
		return c, err
	}
	for i, n := range c.nodes {
		err := sh(`touch "$1"; unshare --net="$1" true
		ip link add $2 type veth peer name p$3; ip link set p$3 netns "$1"; ip link set $2 master br0 up
		nsenter --net="$1" sh -euc "ip link set lo up; ip link set p$3 name eth0; ip addr add $4/24 dev eth0; ip link set eth0 up"`,
			n.netns, n.link, strconv.Itoa(i+1), n.addr)
		if err == nil {
			err = c.start(n, "")
		}
		if err != nil {
			return c, err
		}
	}
	return c, patiently("idle nodes", c.idle)
}

// program starts a program that runs until the cluster ends.
func (c *cluster) program(log, name string, args ...string) (*exec.Cmd, error) {
	f, err := os.OpenFile(filepath.Join(c.dir, "log", log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.programs = append(c.programs, cmd)
	return cmd, nil
}

// start starts a node's slurmd in a mount namespace, in which a shell script has prepared what is special about it.
func (c *cluster) start(n *node, prepare string) (err error) {
	n.special = prepare != ""
	n.slurmd, err = c.program(n.name, "nsenter", "--net="+n.netns, "unshare", "-u", "-m", "sh", "-euc",
		"hostname "+n.name+"; "+cmp.Or(prepare, "true")+"; exec slurmd -D -N "+n.name)
	return err
}

// stop ends all processes of a node.
func (c *cluster) stop(n *node) {
	for _, pid := range n.processes("") {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if n.slurmd != nil {
		_ = n.slurmd.Wait()
		n.slurmd = nil
	}
}

// special restarts a node in which a shell script has prepared something. Its working directory is the cluster's.
func (c *cluster) special(t *testing.T, n *node, prepare string) {
	t.Helper()
	c.stop(n)
	if err := c.start(n, "cd "+c.dir+"; "+prepare); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, n.name+" is idle", c.idle)
}

// processes returns the processes of a node with this name, or all.
func (n *node) processes(name string) (pids []int) {
	var self, other syscall.Stat_t
	if syscall.Stat(n.netns, &self) != nil {
		return nil
	}
	own := fmt.Sprintf("/proc/%d", os.Getpid()) // its first thread may be the one that took a port of the node
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		comm, _ := os.ReadFile(d + "/comm")
		if d != own && syscall.Stat(d+"/ns/net", &other) == nil && other.Ino == self.Ino && other.Dev == self.Dev &&
			(name == "" || string(bytes.TrimSpace(comm)) == name) {
			pid, _ := strconv.Atoi(filepath.Base(d))
			pids = append(pids, pid)
		}
	}
	return pids
}

// connections counts the TCP connections of a node's agents, and of the coordinator if it is there.
func (n *node) connections() (count int) {
	for _, pid := range n.processes("rdmaperf") {
		proc := fmt.Sprintf("/proc/%d/", pid)
		own := map[string]bool{} // inodes of its sockets
		fds, _ := os.ReadDir(proc + "fd")
		for _, fd := range fds {
			to, _ := os.Readlink(proc + "fd/" + fd.Name())
			if inode, ok := strings.CutPrefix(to, "socket:["); ok {
				own[strings.TrimSuffix(inode, "]")] = true
			}
		}
		for _, table := range []string{"tcp", "tcp6"} {
			text, _ := os.ReadFile(proc + "net/" + table)
			for line := range strings.Lines(string(text)) {
				const state, established, inode = 3, "01", 9
				if f := strings.Fields(line); len(f) > inode && f[state] == established && own[f[inode]] {
					count++
				}
			}
		}
	}
	return count
}

// signal sends a signal to the agents of a node.
func (n *node) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	for _, pid := range n.processes("rdmaperf") {
		if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Error(n.name, err)
		}
	}
}

// darkness is a way in which a node goes dark.
type darkness struct {
	name    string
	on, off func(*testing.T, *node)
}

func link(args ...string) func(*testing.T, *node) {
	return func(t *testing.T, n *node) {
		t.Helper()
		out, err := exec.Command("ip", append([]string{"link", "set", n.link}, args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
}

var darknesses = []darkness{
	{"link down", link("down"), link("up")},
	{"black hole", link("nomaster"), link("master", "br0")}, // the link stays up, and packets get lost
	{"stopped", func(t *testing.T, n *node) { n.signal(t, syscall.SIGSTOP) },
		func(t *testing.T, n *node) { n.signal(t, syscall.SIGCONT) }},
}

// idle reports whether all nodes are idle.
func (c *cluster) idle() bool {
	out, err := exec.Command("sinfo", "-h", "-t", "idle", "-o", "%D").Output()
	n := 0
	for _, f := range strings.Fields(string(out)) {
		i, _ := strconv.Atoi(f)
		n += i
	}
	return err == nil && n == nodes
}

// heal ends all jobs, and makes the nodes as they were.
func (c *cluster) heal(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("scancel", "-f", "-u", "alice").CombinedOutput(); err != nil {
		t.Errorf("scancel: %v\n%s", err, out)
	}
	for _, n := range c.nodes {
		for _, d := range darknesses {
			d.off(t, n)
		}
		alive := n.slurmd != nil && n.slurmd.ProcessState == nil && syscall.Kill(n.slurmd.Process.Pid, 0) == nil &&
			len(n.processes("slurmd")) > 0
		if !alive || n.special {
			c.stop(n)
			if err := c.start(n, ""); err != nil {
				t.Error(err)
			}
		}
	}
	again := time.Now()
	testutil.Eventually(t, "the cluster heals", func() bool {
		if c.idle() {
			return true
		}
		if time.Since(again) > time.Second {
			again = time.Now()
			out, _ := exec.Command("sinfo", "-h", "-N", "-o", "%N %T").Output()
			for line := range strings.Lines(string(out)) {
				name, state, _ := strings.Cut(strings.TrimSpace(line), " ")
				state = strings.TrimRight(state, "*")
				if slices.Contains([]string{"down", "drained", "draining"}, state) {
					_ = exec.Command("scontrol", "update", "nodename="+name, "state=resume").Run()
				}
			}
		}
		return false
	})
	for _, n := range c.nodes {
		if left := n.processes("rdmaperf"); len(left) > 0 {
			t.Errorf("%s: %d agents are left after the job", n.name, len(left))
			n.signal(t, syscall.SIGKILL)
		}
	}
}

// end ends the cluster. The processes of jobs end with the namespace of processes.
func (c *cluster) end() {
	for _, p := range slices.Backward(c.programs) {
		_ = p.Process.Signal(syscall.SIGTERM)
	}
	for _, p := range c.programs {
		timer := time.AfterFunc(10*time.Second, func() { _ = p.Process.Kill() })
		_ = p.Wait()
		timer.Stop()
	}
	os.RemoveAll(c.dir)
}

// patiently waits until ok returns true.
func patiently(what string, ok func() bool) error {
	for end := time.Now().Add(testutil.Patience); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("not within %v: %s", testutil.Patience, what)
		}
	}
	return nil
}
