//go:build linux && amd64 && !race

package emu

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestEmuMeshLaunch has agents that a script starts. One stands still in the middle, as on a host without power, one has
// no device, and one does not come: each is named, and the other pairs have figures. Most agents read the token from
// standard input.
func TestEmuMeshLaunch(t *testing.T) {
	testutil.NeedEmu(t)
	if !inside(t, "--device", "mlx5_0", "--device", "mlx5_1", "--device", "mlx5_2", "--device", "mlx5_3") {
		return
	}
	dir := t.TempDir()
	file, pid := filepath.Join(dir, "mesh.json"), filepath.Join(dir, "pid")
	script := `token=$RDMAPERF_TOKEN; unset RDMAPERF_TOKEN
	for i in 0 1 2 3; do
		printf %s $token | OMPI_COMM_WORLD_RANK=$i OMPI_COMM_WORLD_SIZE=6 NODE_NAME=n$i "$@" -d mlx5_$i --token-file - &
		echo $! >` + dir + `/$i
	done
	export RDMAPERF_TOKEN=$token
	OMPI_COMM_WORLD_RANK=4 OMPI_COMM_WORLD_SIZE=6 NODE_NAME=n4 "$@" -d mlx5_9 &
	mv ` + dir + `/2 ` + pid + `; wait`
	m := exec.Command(filepath.Join(root, ".build/bin/rdmaperf"), "mesh", "--launch", script, "--json-file", file,
		"--retry", "3", "--heartbeat", "0.5", "--slow", "99%", "-n", "100", "--size", "64", "--isolate")
	var out, diag strings.Builder
	m.Stdout, m.Stderr = &out, &diag
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { m.Wait(); close(ended) }()
	t.Cleanup(func() { m.Process.Kill(); <-ended })
	still := 0
	testutil.Eventually(t, "the third agent runs tests", func() bool {
		b, _ := os.ReadFile(pid)
		still, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		return still > 0 && hasChild(still)
	})
	if err := syscall.Kill(still, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(still, syscall.SIGKILL)
	testutil.Eventually(t, "the mesh ends", func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
	var r meshResult
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if rc := m.ProcessState.ExitCode(); rc != 1 || err != nil {
		t.Fatalf("exit code %d, want 1; %v\n%s", rc, err, &diag)
	}
	var lost []string
	for _, l := range r.LostHosts {
		lost = append(lost, l.Kind+" "+l.Host)
	}
	slices.Sort(lost)
	if want := []string{"absent rank 5", "left out n4", "lost n2"}; !slices.Equal(lost, want) {
		t.Errorf("lost: %q, want %q\n%s", lost, want, &diag)
	}
	for _, p := range r.Pairs {
		named := func(h string) bool { return h != "n0" && h != "n1" && h != "n3" }
		if good := p.Error == "" && p.Bits > 0 && p.P50 > 0; !named(p.From) && !named(p.To) && !good {
			t.Errorf("%+v\n%s", p, &diag)
		}
	}
	for _, want := range []string{"n4: it cannot run tests: ", "launcher: rdmaperf: it cannot run tests", "mlx5_9"} {
		if !strings.Contains(diag.String(), want) {
			t.Errorf("no %q in\n%s", want, &diag)
		}
	}
	if !strings.Contains(out.String(), "lost host n2: no heartbeat for 1.5s") {
		t.Errorf("no word of the lost host in\n%s", &out)
	}
}

// hasChild reports whether any thread of a process has started another one.
func hasChild(pid int) bool {
	threads, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	return slices.ContainsFunc(threads, func(name string) bool {
		b, _ := os.ReadFile(name)
		return len(b) > 0
	})
}
