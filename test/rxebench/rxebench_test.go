// Package rxebench compares our perf with the stock perftest, in one VM, in
// alternating runs, both ends of a run from the same side, each end on a CPU of
// its own: when the guest puts two that spin on one CPU, its time slices are
// all that one measures.
package rxebench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// comparison is one figure: a test, a size, and what of its result counts.
type comparison struct {
	figure string
	ours   []string // arguments of perf that choose the test
	stock  string   // the program of perftest
	size   int
	iters  int
	column int    // of the stock table, where the value stands
	key    string // of our JSON, for the same value
	unit   string // of the stock value
	scale  float64
}

// bandwidth: MB/s in perftest's table are 2^20 bytes.
var comparisons = []comparison{
	{"write_bw_ratio_64k", []string{"write", "bw"}, "ib_write_bw", 65536, 1000, 3, bwKey, "MiB/s", 8 << 20},
	{"send_bw_ratio_64k", []string{"send", "bw"}, "ib_send_bw", 65536, 1000, 3, bwKey, "MiB/s", 8 << 20},
	{"read_bw_ratio_64k", []string{"read", "bw"}, "ib_read_bw", 65536, 1000, 3, bwKey, "MiB/s", 8 << 20},
	{"send_lat_ratio_8", []string{"send", "lat"}, "ib_send_lat", 8, 3000, 4, latKey, "us", 1000},
	{"write_lat_ratio_8", []string{"write", "lat"}, "ib_write_lat", 8, 3000, 4, latKey, "us", 1000},
}

const (
	bwKey  = "bandwidth_bits_per_second"
	latKey = "latency_p50_ns"
)

// TestRXERatios measures each comparison and prints the median of the ratios
// ours/stock. Without PUREVERBS_FIGURES it makes one short round, which shows
// that the comparison works; speeds under emulation are nothing to assert on.
func TestRXERatios(t *testing.T) {
	vm := testutil.NeedRXE(t)
	perf := testutil.NeedProgram(t, "perf")
	rounds, divide := 1, 10
	if os.Getenv("PUREVERBS_FIGURES") != "" {
		rounds, divide = 9, 1
	}
	port := 20000
	for _, c := range comparisons {
		t.Run(c.figure, func(t *testing.T) {
			stock := testutil.NeedProgram(t, c.stock)
			var ratios, oursAll, stockAll []float64
			args := func() []string {
				port++ // a fresh one, because the last may be in TIME_WAIT
				return []string{"-x", strconv.Itoa(vm.GID), "-s", strconv.Itoa(c.size), "-n", strconv.Itoa(c.iters / divide), "-p", strconv.Itoa(port)}
			}
			runOurs := func() (float64, error) {
				out, err := pair(t.Context(), vm, perf, append(append(slices.Clone(c.ours), "--json"), args()...))
				if err != nil {
					return 0, err
				}
				v, err := fromJSON(out, c.key)
				return v / c.scale, err
			}
			runStock := func() (float64, error) {
				out, err := pair(t.Context(), vm, stock, append(args(), "-F"))
				if err != nil {
					return 0, err
				}
				return fromTable(out, c.size, c.column)
			}
			for i := range rounds {
				// The order alternates, so that neither side always finds the warmer machine.
				var a, b float64
				if i%2 == 0 {
					a, b = try(t, "ours", runOurs), try(t, "stock", runStock)
				} else {
					b, a = try(t, "stock", runStock), try(t, "ours", runOurs)
				}
				oursAll, stockAll, ratios = append(oursAll, a), append(stockAll, b), append(ratios, a/b)
			}
			if c.key == latKey { // scale turned ns into us already
				t.Logf("lower is better")
			}
			t.Logf("ours  %.1f %s", oursAll, c.unit)
			t.Logf("stock %.1f %s", stockAll, c.unit)
			fmt.Printf("figure rxe_%s %.3f ratio\n", c.figure, median(ratios))
			name := strings.Replace(c.figure, "_ratio", "", 1)
			fmt.Printf("figure rxe_%s_ours %.2f %s\n", name, median(oursAll), c.unit)
			fmt.Printf("figure rxe_%s_stock %.2f %s\n", name, median(stockAll), c.unit)
			fmt.Printf("figure rxe_%s_spread %.3f max/min\n", c.figure, slices.Max(ratios)/slices.Min(ratios))
		})
	}
}

// try measures once, and again where no value came out: under emulation perftest
// now and then prints inf.
func try(t *testing.T, who string, measure func() (float64, error)) float64 {
	t.Helper()
	var errs []error
	for range 3 {
		v, err := measure()
		if err == nil && v > 0 && !math.IsInf(v, 0) && !math.IsNaN(v) {
			return v
		}
		errs = append(errs, fmt.Errorf("value %v: %w", v, err))
	}
	t.Fatalf("%s: no value in three runs: %v", who, errors.Join(errs...))
	return 0
}

// pair runs a server on the first device and its client on the second, and returns what the client printed.
func pair(ctx context.Context, vm testutil.RXE, program string, args []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	var serverOut, out, diag bytes.Buffer
	server := exec.CommandContext(ctx, "taskset", slices.Concat([]string{"1", program}, args, []string{"-d", vm.Dev[0]})...)
	server.Stdout, server.Stderr = &serverOut, &serverOut
	if err := server.Start(); err != nil {
		return nil, err
	}
	if err := waitListen(ctx, args); err != nil {
		cancel()
		return nil, errors.Join(err, server.Wait(), errors.New(serverOut.String()))
	}
	client := exec.CommandContext(ctx, "taskset", slices.Concat([]string{"2", program}, args, []string{"-d", vm.Dev[1], vm.IP[0]})...)
	client.Stdout, client.Stderr = &out, &diag
	if err := client.Run(); err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("%s %v: %w\n%s%s", program, args, err, out.String(), diag.String()), server.Wait(), errors.New(serverOut.String()))
	}
	if err := server.Wait(); err != nil {
		return nil, fmt.Errorf("%s, server: %w\n%s", program, err, serverOut.String())
	}
	return out.Bytes(), nil
}

// waitListen waits until something listens on the port that follows -p. It looks
// in /proc, because a trial connection would be taken for a client.
func waitListen(ctx context.Context, args []string) error {
	port, err := strconv.Atoi(args[slices.Index(args, "-p")+1])
	if err != nil {
		return err
	}
	want := fmt.Sprintf(":%04X ", port)
	for ctx.Err() == nil {
		for _, f := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			b, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			for _, line := range strings.Split(string(b), "\n") {
				// local address, remote address, state 0A: listening
				if i := strings.Index(line, want); i > 0 && strings.Contains(line[i:], ":0000 0A ") {
					return nil
				}
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("nobody listens on port %d: %w", port, ctx.Err())
}

// fromTable finds the row of size in perftest's table and returns one column of it.
func fromTable(out []byte, size, column int) (float64, error) {
	for _, line := range strings.Split(string(out), "\n") {
		f := strings.Fields(line)
		if len(f) > column && f[0] == strconv.Itoa(size) {
			return strconv.ParseFloat(f[column], 64)
		}
	}
	return 0, fmt.Errorf("no row for %d bytes in:\n%s", size, out)
}

// fromJSON returns the number under key in the first result of our JSON.
func fromJSON(out []byte, key string) (float64, error) {
	var report struct {
		Results []map[string]any `json:"results"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return 0, fmt.Errorf("%w in:\n%s", err, out)
	}
	if len(report.Results) == 0 {
		return 0, fmt.Errorf("no results in:\n%s", out)
	}
	v, ok := report.Results[0][key].(float64)
	if !ok {
		return 0, fmt.Errorf("no number %s in:\n%s", key, out)
	}
	return v, nil
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}

func TestFromTable(t *testing.T) {
	const table = " #bytes     #iterations    BW peak[MB/sec]\n 65536      300              62.01              57.37  \t\t   0.000918\n"
	if v, err := fromTable([]byte(table), 65536, 3); err != nil || v != 57.37 {
		t.Errorf("have %v, %v, want 57.37", v, err)
	}
	if _, err := fromTable([]byte(table), 8, 3); err == nil {
		t.Error("found a row that is not there")
	}
}

func TestFromJSON(t *testing.T) {
	if v, err := fromJSON([]byte(`{"results":[{"size_bytes":8,"latency_p50_ns":1500.5}]}`), "latency_p50_ns"); err != nil || v != 1500.5 {
		t.Errorf("have %v, %v, want 1500.5", v, err)
	}
	for _, bad := range []string{``, `{}`, `{"results":[{}]}`, `{"results":[{"latency_p50_ns":"x"}]}`} {
		if v, err := fromJSON([]byte(bad), "latency_p50_ns"); err == nil {
			t.Errorf("%q gave %v", bad, v)
		}
	}
}

func TestMedian(t *testing.T) {
	if m := median([]float64{3, 1, 2}); m != 2 {
		t.Errorf("have %v, want 2", m)
	}
	if m := median([]float64{4, 1, 2, 3}); m != 2.5 {
		t.Errorf("have %v, want 2.5", m)
	}
}
