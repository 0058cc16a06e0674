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
while case $1 in -*) ;; *) false ;; esac; do shift; done
host=$1; shift
exec nsenter --net=%[1]s/run/net${host#node} unshare -u sh -c '
	hostname $0; exec env -i PATH=%[1]s/bin:/usr/bin:/bin HOME=/ sh -c "$1"' $host "$*"
`

// readme returns the commands of a section of deploy/README.md.
func readme(t *testing.T, section string) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n## "+section+"\n")
	_, rest, _ = strings.Cut(rest, "\n```sh\n")
	commands, _, ok := strings.Cut(rest, "```\n")
	if !ok {
		t.Fatalf("deploy/README.md has no commands in %q", section)
	}
	return commands
}

// TestEmuSlurm_Ways: a mesh of eight hosts has the same result with agents that stand ready, and with those that mpirun
// and ssh start, by the lines of deploy/README.md. Slurm has no part in it.
func TestEmuSlurm_Ways(t *testing.T) {
	c := need(t)
	if _, err := exec.LookPath("mpirun"); err != nil {
		t.Fatal(err)
	}
	dir := c.dir + "/ways"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var names, addrs []string
	for _, n := range c.nodes[:8] {
		names, addrs = append(names, n.name), append(addrs, n.addr)
	}
	ssh := dir + "/ssh" // Open MPI also calls it
	for file, text := range map[string]string{ssh: fmt.Sprintf(remote, c.dir),
		dir + "/hosts": strings.Join(names, "\n") + "\n"} {
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	options := "rdmaperf mesh --json --retry 60 " + strings.Join(quick, " ")
	for _, way := range []struct {
		name    string
		command string
		edit    []string
		hosts   []string
	}{
		{"hosts", "rdmaperf mesh --hosts " + strings.Join(addrs, ","), nil, addrs},
		{"mpirun", readme(t, "MPI"), nil, names},
		{"ssh", readme(t, "ssh"), []string{"for h in a b;", "for h in " + strings.Join(names, " ") + ";", "--expect 2",
			"--expect 8"}, names},
	} {
		t.Run(way.name, func(t *testing.T) {
			if way.name == "hosts" {
				for _, n := range names {
					agent := exec.Command(ssh, n, "RDMAPERF_TOKEN=0123456789abcdef exec rdmaperf serve")
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
			for i := 0; i < len(way.edit); i += 2 {
				if strings.Count(way.command, way.edit[i]) != 1 {
					t.Fatalf("%q is not once in %q", way.edit[i], way.command)
				}
			}
			edit := append([]string{"rdmaperf mesh", options}, way.edit...)
			cmd := exec.Command("sh", "-c", strings.NewReplacer(edit...).Replace(way.command))
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "OMPI_ALLOW_RUN_AS_ROOT=1",
				"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
			if way.name == "hosts" {
				cmd.Env = append(cmd.Env, "RDMAPERF_TOKEN=0123456789abcdef")
			}
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
