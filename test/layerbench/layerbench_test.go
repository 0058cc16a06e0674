//go:build linux && amd64 && !race

package layerbench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/test/compare"
)

const (
	roleEnv = "PUREVERBS_LAYERBENCH"       // set below the emulator: the path of rdmaperf
	onlyEnv = "PUREVERBS_LAYERBENCH_NOSRQ" // the devices have no SRQ
	host    = "127.0.0.1"                  // of the emulated device, too
)

func TestMain(m *testing.M) {
	perf := os.Getenv(roleEnv)
	if perf == "" {
		os.Exit(m.Run())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 13*time.Minute)
	defer cancel()
	b := bench{ctx: ctx, out: os.Stdout, perf: perf, port: 31000, whole: os.Getenv("PUREVERBS_FIGURES") != ""}
	cpus, err := compare.Allowed()
	if err == nil {
		b.place = compare.Place(cpus)
		if os.Getenv(onlyEnv) != "" {
			err = b.idle("_without_srq", "none")
		} else {
			err = b.all()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "layerbench:", err)
		os.Exit(1)
	}
}

// TestEmuRatios prints the figures. Without PUREVERBS_FIGURES it runs each once and shortly, which shows that they can
// be had. It asserts no speeds, since the device is emulated.
func TestEmuRatios(t *testing.T) {
	testutil.NeedEmu(t)
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", dir+"/", "../../emu",
		"../../cmd/perf/rdmaperf")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	on := func(env string, flags ...string) {
		args := append(append([]string{"--device", "mlx5_0"}, flags...), "--", os.Args[0])
		c := exec.CommandContext(t.Context(), filepath.Join(dir, "emu"), args...)
		c.Env = append(os.Environ(), roleEnv+"="+filepath.Join(dir, "rdmaperf"), env)
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Run(); err != nil {
			t.Fatal(err)
		}
	}
	on(onlyEnv + "=")
	on(onlyEnv+"=1", "--limit", "max_srq=0")
}

// bench runs rdmaperf and prints figures.
type bench struct {
	ctx   context.Context
	out   io.Writer
	perf  string
	port  int
	whole bool
	apart bool // each end has a processor of its own
	place compare.Processors
}

// usage is what a run has cost one end.
type usage struct {
	CPU     float64 `json:"cpu_seconds"`
	Allocs  float64 `json:"allocations"`
	Frames  float64 `json:"frames_received"`
	Wakes   float64 `json:"wakes"`
	Copying float64 `json:"copying_seconds"`
}

// memory is what connections take an end.
type memory struct {
	Conns    float64 `json:"connections"`
	Resident float64 `json:"resident_bytes"`
	Heap     float64 `json:"heap_bytes"`
}

// result is a run, as rdmaperf's JSON has it.
type result struct {
	Over     string  `json:"over"`
	Messages float64 `json:"messages"`
	Round    int     `json:"round"`
	Rate     float64 `json:"messages_per_second"`
	Client   usage   `json:"client"`
	Server   usage   `json:"server"`
	Lat      struct {
		P50 float64 `json:"latency_p50_ns"`
	} `json:"latency"`
	ClientMemory memory `json:"client_memory"`
	ServerMemory memory `json:"server_memory"`
}

// rounds are results by what carried them.
type rounds map[string][]result

// messages shortens a run that is not for figures.
func (b *bench) messages(n int) string {
	if !b.whole {
		n = max(n/100, 20)
	}
	return strconv.Itoa(n)
}

// run runs rdmaperf and returns its results. args are both ends'.
func (b *bench) run(args ...string) (rounds, error) {
	ctx, cancel := context.WithTimeout(b.ctx, testutil.Patience)
	defer cancel()
	b.port += 2 // a fresh one, and the next for raw verbs, because the last may be in TIME_WAIT
	args = append(args, "-p", strconv.Itoa(b.port))
	var said, out, diag bytes.Buffer
	on := func(cpu int, args ...string) *exec.Cmd {
		if !b.apart {
			return exec.CommandContext(ctx, b.perf, args...)
		}
		return compare.On(ctx, cpu, b.perf, args...)
	}
	server := on(b.place.Server, args...)
	server.Stdout, server.Stderr = io.Discard, &said
	if err := server.Start(); err != nil {
		return nil, err
	}
	client := on(b.place.Client, append(slices.Clone(args), "--json", host)...)
	client.Stdout, client.Stderr = &out, &diag
	if err := client.Run(); err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("rdmaperf %v: %w\n%s", args, err, diag.String()), server.Wait(),
			errors.New(said.String()))
	}
	if err := server.Wait(); err != nil {
		return nil, fmt.Errorf("rdmaperf %v, server: %w\n%s", args, err, said.String())
	}
	var doc struct{ Results []result }
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		return nil, fmt.Errorf("%w in:\n%s", err, out.String())
	}
	by := rounds{}
	for _, r := range doc.Results {
		by[r.Over] = append(by[r.Over], r)
	}
	return by, nil
}

// turns runs rdmaperf in as many alternating rounds as a figure needs.
func (b *bench) turns(compare string, args ...string) (rounds, error) {
	n := "7"
	if !b.whole {
		n = "1"
	}
	return b.run(append(args, "--compare="+compare, "--rounds", n)...)
}

// median returns the median over rounds of what value makes of the runs of a round.
func (r rounds) median(over, than string, value func(a, b *result) float64) float64 {
	var list []float64
	for i := range r[over] {
		list = append(list, value(&r[over][i], &r[than][i]))
	}
	if len(list) == 0 {
		return 0
	}
	return compare.Median(list)
}

// cpu prints the median ratio of the processor time of a carrier to a value of another, for both ends together, and for
// each of them.
func (b *bench) cpu(figure, goal string, r rounds, over, than string, of func(*usage) float64) {
	value := func(u *usage) float64 { return u.CPU }
	both := func(x, y *result) float64 {
		return (value(&x.Client) + value(&x.Server)) / (of(&y.Client) + of(&y.Server))
	}
	sends := r.median(over, than, func(x, y *result) float64 { return value(&x.Client) / of(&y.Client) })
	receives := r.median(over, than, func(x, y *result) float64 { return value(&x.Server) / of(&y.Server) })
	b.figure(figure, "ratio", goal, r.median(over, than, both), fmt.Sprintf("sender %.3f, receiver %.3f", sends,
		receives))
}

func (b *bench) figure(name, unit, goal string, v float64, more string) {
	if more != "" {
		more = "; " + more
	}
	fmt.Fprintf(b.out, "figure layer_%s %.3f %s (emulated device; goal %s%s)\n", name, v, unit, goal, more)
}
