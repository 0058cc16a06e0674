package slurm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// remote runs a command line on a node, as ssh would: nothing of the environment is passed on.
const remote = `#!/bin/sh
host=$1; shift
exec nsenter --net=%[1]s/run/net${host#node} unshare -u sh -c '
	hostname $0; exec env -i PATH=%[1]s/bin:/usr/bin:/bin HOME=/ sh -c "$1"' $host "$*"
`

// TestEmuSlurm_Ways: a mesh of eight hosts has the same result with agents that stand ready, with those of mpirun, and
// with those of a script. Slurm has no part in it.
func TestEmuSlurm_Ways(t *testing.T) {
	c := need(t)
	if _, err := exec.LookPath("mpirun"); err != nil {
		t.Fatal(err)
	}
	ssh := c.dir + "/bin/remote"
	if err := os.WriteFile(ssh, fmt.Appendf(nil, remote, c.dir), 0o755); err != nil {
		t.Fatal(err)
	}
	var names, addrs []string
	for _, n := range c.nodes[:8] {
		names, addrs = append(names, n.name), append(addrs, n.addr)
	}
	mpirun := "mpirun --mca plm_rsh_agent " + ssh + " -x PERF_JOIN -x PERF_TOKEN --oversubscribe " +
		"--map-by ppr:1:node --host " + strings.Join(names, ",")
	script := "for h in " + strings.Join(names, " ") + "; do " + ssh + ` $h PERF_TOKEN=$PERF_TOKEN "$@" & done; wait`
	for _, way := range []struct {
		name  string
		args  []string
		hosts []string
	}{
		{"hosts", []string{"--hosts", strings.Join(addrs, ",")}, addrs},
		{"mpirun", []string{"--launch", mpirun}, names},
		{"script", []string{"--launch", script, "--expect", "8"}, names},
	} {
		t.Run(way.name, func(t *testing.T) {
			env := append(os.Environ(), "PERF_TOKEN=0123456789abcdef", "OMPI_ALLOW_RUN_AS_ROOT=1",
				"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
			if way.name == "hosts" {
				for _, n := range names {
					agent := exec.Command(ssh, n, "PERF_TOKEN=0123456789abcdef exec rdmaperf serve")
					agent.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
					if err := agent.Start(); err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() {
						_ = agent.Process.Signal(syscall.SIGTERM)
						_ = agent.Wait()
					})
				}
			}
			cmd := exec.Command("rdmaperf", append(append([]string{"mesh", "--json", "--retry", "60"}, quick...),
				way.args...)...)
			cmd.Env = env
			var out, diag bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &diag
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s", err, &diag)
			}
			var r result
			if err := json.Unmarshal(out.Bytes(), &r); err != nil {
				t.Fatal(err)
			}
			slices.Sort(r.Hosts)
			if n, of := r.measured(); n != 56 || of != 56 || !slices.EqualFunc(r.Hosts, way.hosts, strings.HasPrefix) {
				t.Errorf("%d of %d pairs of %q, want 56 of %q", n, of, r.Hosts, way.hosts)
			}
		})
	}
	for _, n := range c.nodes[:8] {
		testutil.Eventually(t, n.name+" has no agent", func() bool { return len(n.processes("rdmaperf")) == 0 })
	}
}
