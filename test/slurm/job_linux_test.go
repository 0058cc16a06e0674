package slurm

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// job is a job of Slurm. Its files are in a folder of its own.
type job struct {
	id, dir string
}

// submission is what a job is made of.
type submission struct {
	sbatch []string          // options of sbatch
	edit   map[string]string // changes to deploy/rdmaperf-mesh.sbatch
	env    []string
	args   []string // options of rdmaperf mesh
}

// submit submits deploy/rdmaperf-mesh.sbatch, as an ordinary user.
func (c *cluster) submit(t *testing.T, s submission) job {
	t.Helper()
	text, err := os.ReadFile("../../deploy/rdmaperf-mesh.sbatch")
	if err != nil {
		t.Fatal(err)
	}
	for old, with := range s.edit {
		if !bytes.Contains(text, []byte(old)) {
			t.Fatalf("the batch file has no %q", old)
		}
		text = bytes.ReplaceAll(text, []byte(old), []byte(with))
	}
	dir, err := os.MkdirTemp(c.dir+"/alice", "job")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/rdmaperf-mesh.sbatch", text, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{dir, dir + "/rdmaperf-mesh.sbatch"} {
		if err := os.Chown(f, user, user); err != nil {
			t.Fatal(err)
		}
	}
	args := slices.Concat([]string{"--parsable"}, s.sbatch, []string{"rdmaperf-mesh.sbatch"}, s.args)
	cmd := exec.Command("sbatch", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), append([]string{"HOME=" + dir, "USER=alice", "LOGNAME=alice"}, s.env...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("sbatch %q: %v\n%s", args, err, out)
	}
	return job{strings.TrimSpace(string(out)), dir}
}

var field = regexp.MustCompile(`(\w+)=(\S*)`)

// show returns what Slurm knows of the job.
func (j job) show(t *testing.T) map[string]string {
	t.Helper()
	out, err := exec.Command("scontrol", "-o", "show", "job", j.id).CombinedOutput()
	if err != nil {
		t.Fatalf("scontrol show job %s: %v\n%s", j.id, err, out)
	}
	all := map[string]string{}
	for _, m := range field.FindAllStringSubmatch(string(out), -1) {
		if _, ok := all[m[1]]; !ok {
			all[m[1]] = m[2]
		}
	}
	return all
}

// wait waits until the job has ended, and returns its state and its exit code.
func (j job) wait(t *testing.T) (state, code string) {
	t.Helper()
	testutil.Eventually(t, "job "+j.id+" ends", func() bool {
		all := j.show(t)
		state, code = all["JobState"], all["ExitCode"]
		return !slices.Contains([]string{"PENDING", "CONFIGURING", "RUNNING", "COMPLETING"}, state)
	})
	t.Logf("job %s: %s, exit code %s, %s", j.id, state, code, j.show(t)["RunTime"])
	return state, code
}

// output returns what the job has printed.
func (j job) output(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(j.dir, "slurm-"+j.id+".out"))
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

// result is the object of rdmaperf mesh.
type result struct {
	Hosts []string
	Pairs []struct {
		From, To, Error string
		Bits            float64 `json:"bandwidth_bits_per_second"`
		P50             float64 `json:"latency_p50_ns"`
	}
	Slow []struct {
		Host, NIC, Part, Figure string
		Value                   float64 `json:"median_of_host"`
		Confirmed               bool
	} `json:"slow_hosts"`
	Lost    []struct{ Host, Kind, Error, Program string } `json:"lost_hosts"`
	Stalled []struct {
		Host    string
		Seconds float64
	} `json:"stalled_hosts"`

	Error string
}

// result returns the job's result, which is in a file of its own.
func (j job) result(t *testing.T) (r result) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(j.dir, "rdmaperf-mesh-"+j.id+".json"))
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, j.output(t))
	}
	return r
}

// lost returns the names of the hosts that were lost.
func (r result) lost() (names []string) {
	for _, h := range r.Lost {
		names = append(names, h.Host)
	}
	return names
}

// measured counts the pairs that have figures, of those between other hosts than the named ones, and all of them.
func (r result) measured(without ...string) (n, of int) {
	for _, p := range r.Pairs {
		if slices.Contains(without, p.From) || slices.Contains(without, p.To) {
			continue
		}
		if of++; p.Error == "" && p.Bits > 0 && p.P50 > 0 {
			n++
		}
	}
	return n, of
}
