package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/mesh"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/loader"
)

func TestMeshUsage(t *testing.T) {
	for _, name := range []string{"SLURM_PROCID", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "JOB_COMPLETION_INDEX",
		"RDMAPERF_TOKEN", "RDMAPERF_JOIN"} {
		t.Setenv(name, "")
	}
	for line, want := range map[string]string{
		"serve x":                                              "arguments too many",
		"serve -p 0":                                           "tcp port (-p) 0",
		"serve --max-clients 0":                                "--max-clients 0",
		"serve --test-ports 5":                                 `"5" is not a range`,
		"mesh --launch x --test-ports 9-5":                     `"9-5" is not a range`,
		"serve -d a,nonsense":                                  "is not there",
		"serve -d a,":                                          "number 2 has no name",
		"serve -d a:x":                                         "number of a port",
		"serve -d a,a":                                         "there twice",
		"serve --join a b":                                     "arguments too many",
		"serve a":                                              "arguments too many",
		"mesh --launch=":                                       "--launch has no command",
		"mesh --launch x --hosts a,b":                          "give one of --launch",
		"mesh --launch x --expect 1":                           "--expect 1",
		"mesh --lease x --hosts a,b":                           "--lease: only with --job-from",
		"mesh --lease-wait 1 --hosts a,b":                      "--lease-wait: only with --job-from",
		"mesh --job-from x --hosts a,b":                        "give one of --launch, --job-from",
		"mesh --job-from x":                                    "--expect 0 pods",
		"mesh --job-from x/y --expect 2":                       `--job-from "x/y"`,
		"mesh --job-from x --expect 2":                         "needs --token-file",
		"mesh --job-from x --expect 2 --token-file -":          "needs --token-file",
		"mesh --job-from x --expect 2 --lease a/b/c":           `--lease "a/b/c"`,
		"mesh --job-from x --expect 2 --lease=":                `--lease ""`,
		"mesh --job-from x --expect 2 --lease A":               `--lease "A"`,
		"mesh --job-from x --expect 2 --lease a.b":             `--lease "a.b"`,
		"mesh --job-from x --expect 2 --lease /a":              `--lease "/a"`,
		"mesh --job-from x --expect 2 --lease-wait -1":         "--lease-wait -1s",
		"mesh --job-from x --expect 2 --token-file f --port 0": "tcp port (-p) 0",
		"mesh --hosts a,b --rounds 0":                          "--rounds 0",
		"mesh --hosts a,b --rounds 1 --order all":              "--rounds 1 with --order all",
		"mesh --hosts a,b --hosts-form x":                      `--hosts-form "x"`,
		"mesh --launch x --heartbeat 0":                        "--heartbeat 0s",
		"mesh --launch x -d a,all":                             "not a part of a list",
		"mesh --launch x --rails x":                            `--rails "x"`,
		"mesh --launch x --reach -1":                           "--reach -1s",
		"mesh":                                                 "give one of --launch, --job-from, --hosts",
		"mesh --hosts a":                                       "at least 2",
		"mesh --hosts a,,b":                                    `host ""`,
		"mesh --hosts=":                                        "0 hosts",
		"mesh --hosts a,b --hostfile x":                        "give one of --launch, --job-from, --hosts",
		"mesh --hosts a,b x":                                   "arguments too many",
		"mesh --service x":                                     "--expect 0",
		"mesh --hosts a,b --order none":                        `--order "none"`,
		"mesh --hosts a,b --verb atomic":                       "--verb atomic",
		"mesh --hosts a,b --verb none":                         `verb "none"`,
		"mesh --hosts a,b -n 0":                                "0 messages",
		"mesh --hosts a,b -D -1":                               "-1s",
		"mesh --hosts a,b -D 0.1":                              "at least 1s",
		"mesh --hosts a,b -D 3600":                             "1h0m0s",
		"mesh --hosts a,b -q 0":                                "0 queue pairs",
		"mesh --hosts a,b -s 1G -q 2":                          "size 1073741824",
		"mesh --hosts a,b --deviations NaN":                    "--deviations NaN",
		"mesh --hosts a,b --slow 200%":                         "is not a share",
		"mesh --hosts a,b --until 0":                           "--until 0%",
		"mesh --hosts a,b --until 100%":                        "is not a share",
		"mesh --hosts a,b --until 9% --order all":              "--until 9% with --order all",
		"mesh --hosts a,b --until 9% --slow 10%":               "--slow 10% with --until 9%",
	} {
		var diag bytes.Buffer
		if rc := run(context.Background(), strings.Fields(line), io.Discard, &diag); rc != exitUsage ||
			!strings.Contains(diag.String(), want) {
			t.Errorf("rdmaperf %s: exit code %d, %q, want %q", line, rc, &diag, want)
		}
	}
	for line, want := range map[string]string{
		"serve": "no token", "mesh --hosts a,b": "no token",
		"mesh --hosts a,b --token-file /nowhere": "/nowhere",
		"write bw --agent 5 host":                "no token",
	} {
		var diag bytes.Buffer
		if rc := run(context.Background(), strings.Fields(line), io.Discard, &diag); rc != exitFailure ||
			!strings.Contains(diag.String(), want) {
			t.Errorf("rdmaperf %s: exit code %d, %q, want %q", line, rc, &diag, want)
		}
	}
	t.Setenv("RDMAPERF_TOKEN", "0123456789abcdef")
	// Without libibverbs the first device fails by that.
	none, first := "open", "device (-d) none: "
	if _, err := loader.Open(loader.IBVerbs); err == nil {
		none, first = "open device", first+"open device"
	}
	for line, want := range map[string]string{
		"serve -d none": none, "write bw -d none,more": first,
		"serve --join":                                   "RDMAPERF_JOIN is not set",
		"serve --join :1":                                "HOST:PORT",
		"mesh --launch x --json-file /nowhere/x":         "/nowhere",
		"mesh --launch x --listen nowhere":               "--listen",
		"mesh --hostfile /nowhere":                       "/nowhere",
		"mesh --hosts 127.0.0.1:1,127.0.0.1:2 --retry 0": "refused",
	} {
		var diag bytes.Buffer
		if rc := run(timeLimit(t), strings.Fields(line), io.Discard, &diag); rc != exitFailure ||
			!strings.Contains(diag.String(), want) {
			t.Errorf("rdmaperf %s: exit code %d, %q, want %q", line, rc, &diag, want)
		}
	}
}

// TestMeshLists: the exit status and the files tell good, bad and unknown hosts.
func TestMeshLists(t *testing.T) {
	no := false
	for _, tt := range []struct {
		name               string
		change             func(*mesh.Result)
		good, bad, unknown string
		failSlow           bool
		want               int
	}{
		{"not measured", func(*mesh.Result) {}, "", "", "a\nb\nc\n", true, exitUnknown},
		{"nobody asked", func(*mesh.Result) {}, "", "", "a\nb\nc\n", false, exitOK},
		{"slow", func(r *mesh.Result) { r.SlowHosts = []mesh.SlowHost{{Host: "b"}} }, "", "b\n", "a\nc\n", true,
			exitLimit},
		{"not confirmed", func(r *mesh.Result) {
			r.SlowHosts = []mesh.SlowHost{{Host: "b", Again: mesh.Again{Confirmed: &no}}}
		}, "", "", "b\na\nc\n", true, exitUnknown},
		{"lost", func(r *mesh.Result) { r.LostHosts = []mesh.LostHost{{Host: "c", Kind: mesh.Lost}} }, "", "c\n",
			"a\nb\n", true, exitFailure},
	} {
		dir := t.TempDir()
		m := meshOptions{out: meshOutput{form: "plain", failSlow: tt.failSlow, json: true}}
		m.out.good, m.out.bad, m.out.unknown = filepath.Join(dir, "g"), filepath.Join(dir, "b"), filepath.Join(dir, "u")
		res := &mesh.Result{Hosts: []string{"a", "b", "c"}}
		tt.change(res)
		var out bytes.Buffer
		v := &invocation{stderr: io.Discard}
		if v.end(m.report(res, nil, nil, &out)); v.code != tt.want {
			t.Errorf("%s: exit code %d, want %d", tt.name, v.code, tt.want)
		}
		for file, want := range map[string]string{m.out.good: tt.good, m.out.bad: tt.bad, m.out.unknown: tt.unknown} {
			if got, err := os.ReadFile(file); err != nil || string(got) != want {
				t.Errorf("%s: %s has %q, want %q; %v", tt.name, filepath.Base(file), got, want, err)
			}
		}
		for _, key := range []string{`"good_hosts": []`, `"bad_hosts"`, `"unknown_hosts"`,
			`"why": "it was not measured"`} {
			if !strings.Contains(out.String(), key) {
				t.Errorf("%s: no %s in %s", tt.name, key, &out)
			}
		}
	}
}

// TestMeshLaunch: a command that cannot start agents is shown, with what it wrote, and nobody waits. The secret and
// where to dial are in its environment, and the file of a result that has none is there.
func TestMeshLaunch(t *testing.T) {
	t.Setenv("RDMAPERF_TOKEN", "")
	file := filepath.Join(t.TempDir(), "mesh.json")
	var out, diag bytes.Buffer
	rc := run(timeLimit(t), []string{"mesh", "--json-file", file, "--listen", "127.0.0.1:0", "-d", "mlx5_7",
		"--test-ports", "18600-18699", "--launch",
		`echo "token of ${#RDMAPERF_TOKEN}, at $RDMAPERF_JOIN"; shift; echo "$@"; exit 9`}, &out, &diag)
	for _, want := range []string{"launcher: token of 26, at 127.0.0.1:", "launcher: serve --join 127.0.0.1:",
		" -d mlx5_7 --test-ports 18600-18699",
		"launcher: exit status 9", "0 hosts are there"} {
		if !strings.Contains(diag.String(), want) {
			t.Errorf("no %q in\n%s", want, &diag)
		}
	}
	b, err := os.ReadFile(file)
	if rc != exitFailure || out.Len() > 0 || err != nil || !strings.Contains(string(b), `"lost_hosts": []`) {
		t.Errorf("exit code %d, %q, %v, %s", rc, &out, err, b)
	}
}

// TestMeshLaunchWaits: while the launcher waits, what it says is shown, and at an interrupt also the hosts that came.
func TestMeshLaunchWaits(t *testing.T) {
	t.Setenv("RDMAPERF_TOKEN", "")
	ctx, stop := context.WithCancel(timeLimit(t))
	r, w := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		defer w.Close()
		words := []string{"mesh", "--expect", "4", "--launch", "echo queued >&2; sleep 1000; :"}
		ended <- run(ctx, words, io.Discard, w)
	}()
	lines := bufio.NewScanner(r)
	if !lines.Scan() || lines.Text() != "rdmaperf: launcher: queued" {
		t.Errorf("the launcher waits, and rdmaperf mesh says %q", lines.Text())
	}
	stop()
	var rest []string
	for lines.Scan() {
		rest = append(rest, lines.Text())
	}
	if text := strings.Join(rest, "\n"); <-ended != exitFailure || !strings.Contains(text, "0 of 4 hosts have come") {
		t.Errorf("at an interrupt: %s", text)
	}
}

// TestMeshRanks: other ranks find rank 0 by a list, or say what is missing.
func TestMeshRanks(t *testing.T) {
	for _, tc := range []struct {
		line, nodes, ip, want string
	}{
		{"", "n[1-2]", "", "n1:18514"}, {"-p 7", "n[1-2]", "10.0.0.1", "n1:7 10.0.0.1:7"},
		{"--join r0", "n[1-2]", "", "r0:18514"}, {"--join r0:9,[fe::1]:8", "", "", "r0:9 [fe::1]:8"},
		{"", "", "", "also give --join"},
	} {
		t.Setenv("SLURM_LAUNCH_NODE_IPADDR", tc.ip)
		var m meshOptions
		f := pflag.NewFlagSet("rdmaperf mesh", pflag.ContinueOnError)
		m.flags(f)
		env := func(name string) string {
			return map[string]string{"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_JOB_NODELIST": tc.nodes}[name]
		}
		if err := errors.Join(f.Parse(strings.Fields(tc.line)), m.check(f, env)); err != nil || !m.from.ranked {
			t.Errorf("%s: %v, ranked %v", tc.line, err, m.from.ranked)
		}
		list, err := m.leaders()
		got := strings.Join(list, " ")
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tc.want) {
			t.Errorf("%s of %s: %s, want %s", tc.line, tc.nodes, got, tc.want)
		}
	}
}

// TestMeshOptionsWin: in a batch script, whose environment has a rank, an option says where the hosts are.
func TestMeshOptionsWin(t *testing.T) {
	for _, env := range []map[string]string{
		{"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]"},
		{"SLURM_PROCID": "7", "SLURM_NTASKS": "2"}, // nonsense, which nobody needs
		{"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, {"PMI_RANK": "1", "PMI_SIZE": "2"},
		{"JOB_COMPLETION_INDEX": "1"},
	} {
		for _, line := range []string{"--hosts a,b", "--hostfile f", "--service s --expect 2", "--launch x",
			"--job-from x --expect 2 --token-file f"} {
			if m, err := meshLine(strings.Fields(line), env); err != nil || m.from.ranked ||
				m.from.place != roster.Nowhere ||
				strings.HasPrefix(line, "--hosts") && m.config.Expect != 0 {
				t.Errorf("%s with %v: %v, ranked %v, expects %d", line, env, err, m.from.ranked, m.config.Expect)
			}
		}
	}
}

// timeLimit ends what should not have begun to wait.
func timeLimit(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	t.Cleanup(cancel)
	return ctx
}

// TestServerWithoutDevice: rdmaperf stream needs not wait for a client where no device is.
func TestServerWithoutDevice(t *testing.T) {
	if list, err := ibv.Devices(); err == nil && len(list) > 0 {
		t.Skip("an RDMA device is here: rdmaperf waits for a client")
	}
	var diag bytes.Buffer
	rc := run(timeLimit(t), []string{"stream", "bw"}, io.Discard, &diag)
	if rc != exitFailure || strings.Contains(diag.String(), "waiting") {
		t.Errorf("exit code %d, %q", rc, &diag)
	}
}
