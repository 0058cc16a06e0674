// Package rxebench compares our rdmaperf with the stock perftest in one VM, in alternating runs. Both ends of a run are
// the same program, each on a CPU of its own: if two ends that spin share a CPU, a run measures only the guest's time
// slices.
package rxebench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/test/compare"
)

// comparison is one figure: a test, a size, and the part of its result that is compared.
type comparison struct {
	figure string
	ours   []string // arguments of rdmaperf that choose the test
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

// TestRXERatios measures each comparison and prints the median of the ratios ours/stock. Without PUREVERBS_FIGURES it
// runs one short round, which shows that the comparison works. It asserts no speeds, since the CPUs are emulated.
func TestRXERatios(t *testing.T) {
	vm := testutil.NeedRXE(t)
	perf := testutil.NeedProgram(t, "rdmaperf")
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
				return []string{"-x", strconv.Itoa(vm.GID), "-s", strconv.Itoa(c.size), "-n",
					strconv.Itoa(c.iters / divide), "-p", strconv.Itoa(port)}
			}
			runOurs := func() (float64, error) {
				out, err := pair(t.Context(), vm, perf, append(append(slices.Clone(c.ours), "--json"), args()...))
				if err != nil {
					return 0, err
				}
				v, err := compare.FromJSON(out, c.key)
				return v / c.scale, err
			}
			runStock := func() (float64, error) {
				out, err := pair(t.Context(), vm, stock, append(args(), "-F"))
				if err != nil {
					return 0, err
				}
				return compare.FromTable(out, c.size, c.column)
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
			fmt.Printf("figure rxe_%s %.3f ratio\n", c.figure, compare.Median(ratios))
			name := strings.Replace(c.figure, "_ratio", "", 1)
			fmt.Printf("figure rxe_%s_ours %.2f %s\n", name, compare.Median(oursAll), c.unit)
			fmt.Printf("figure rxe_%s_stock %.2f %s\n", name, compare.Median(stockAll), c.unit)
			fmt.Printf("figure rxe_%s_spread %.3f max/min\n", c.figure, slices.Max(ratios)/slices.Min(ratios))
		})
	}
}

func try(t *testing.T, who string, measure func() (float64, error)) float64 {
	t.Helper()
	v, err := compare.Try(measure)
	if err != nil {
		t.Fatalf("%s: %v", who, err)
	}
	return v
}

// pair runs a server on the first device and its client on the second, and returns what the client printed.
func pair(ctx context.Context, vm testutil.RXE, program string, args []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, testutil.Patience)
	defer cancel()
	var serverOut, out, diag bytes.Buffer
	server := exec.CommandContext(ctx, "taskset", slices.Concat([]string{"1", program}, args,
		[]string{"-d", vm.Dev[0]})...)
	server.Stdout, server.Stderr = &serverOut, &serverOut
	if err := server.Start(); err != nil {
		return nil, err
	}
	if err := compare.WaitListen(ctx, args); err != nil {
		cancel()
		return nil, errors.Join(err, server.Wait(), errors.New(serverOut.String()))
	}
	client := exec.CommandContext(ctx, "taskset", slices.Concat([]string{"2", program}, args,
		[]string{"-d", vm.Dev[1], vm.IP[0]})...)
	client.Stdout, client.Stderr = &out, &diag
	if err := client.Run(); err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("%s %v: %w\n%s%s", program, args, err, out.String(), diag.String()),
			server.Wait(), errors.New(serverOut.String()))
	}
	if err := server.Wait(); err != nil {
		return nil, fmt.Errorf("%s, server: %w\n%s", program, err, serverOut.String())
	}
	return out.Bytes(), nil
}
