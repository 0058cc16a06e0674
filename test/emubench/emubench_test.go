//go:build linux && amd64 && !race

package emubench

import (
	"bytes"
	"context"
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
	roleEnv = "PUREVERBS_EMUBENCH"      // set below the emulator: the path of rdmaperf
	cpuEnv  = "PUREVERBS_EMUBENCH_CPUS" // and the processors of server and client, as "0 1"
	device  = "mlx5_0"
	gid     = "3" // RoCE v2, IPv4
)

// comparison is one figure: a test, a size, and the part of its result that is compared.
type comparison struct {
	figure string
	ours   []string // arguments of rdmaperf that choose the test
	stock  string   // the program of perftest
	size   int
	iters  int
	args   []string // of both
	column int      // of the stock table, where the value stands
	key    string   // of our JSON, for the same value
	unit   string   // of the stock value
	scale  float64  // of ours to that unit
	raw    string   // figure of the stock value alone, "" for none
	rawBy  float64  // what it is multiplied by
	rawTo  string   // and its unit then
}

const (
	bwKey  = "bandwidth_bits_per_second"
	latKey = "latency_p50_ns"
)

// MB/s in perftest's table are 2^20 bytes, Mpps are 10^6 messages.
var comparisons = []comparison{
	{figure: "write_bw_ratio_8", ours: []string{"write", "bw"}, stock: "ib_write_bw", size: 8, iters: 100_000,
		column: 3, key: bwKey, unit: "MiB/s", scale: 8 << 20},
	{figure: "write_bw_ratio_4096", ours: []string{"write", "bw"}, stock: "ib_write_bw", size: 4096, iters: 50_000,
		column: 3, key: bwKey, unit: "MiB/s", scale: 8 << 20},
	{
		figure: "write_bw_ratio_65536", ours: []string{"write", "bw"},
		stock: "ib_write_bw", size: 65536, iters: 10_000, column: 3, key: bwKey, unit: "MiB/s", scale: 8 << 20,
		raw: "ib_write_bw_65536_GBps", rawBy: (1 << 20) / 1e9, rawTo: "GB/s",
	},
	{figure: "send_lat_ratio_8", ours: []string{"send", "lat"}, stock: "ib_send_lat", size: 8, iters: 10_000,
		column: 4, key: latKey, unit: "us", scale: 1000},
	{
		figure: "write_lat_ratio_8", ours: []string{"write", "lat"},
		stock: "ib_write_lat", size: 8, iters: 10_000, column: 4, key: latKey, unit: "us", scale: 1000,
		raw: "ib_write_lat_8_us", rawBy: 1, rawTo: "us",
	},
	{
		figure: "write_mrate_ratio_l16", ours: []string{"write", "bw"},
		stock: "ib_write_bw", size: 8, iters: 200_000, args: []string{"-l", "16"}, column: 4,
		key: bwKey, unit: "Mpps", scale: 8 * 8 * 1e6, raw: "ib_write_mrate_8_l16", rawBy: 1, rawTo: "Mpps",
	},
	{figure: "read_bw_ratio_65536", ours: []string{"read", "bw"}, stock: "ib_read_bw", size: 65536, iters: 10_000,
		column: 3, key: bwKey, unit: "MiB/s", scale: 8 << 20},
	{figure: "atomic_mrate_ratio", ours: []string{"atomic", "bw"}, stock: "ib_atomic_bw", size: 8, iters: 50_000,
		column: 4, key: bwKey, unit: "Mpps", scale: 8 * 8 * 1e6},
	{figure: "ud_send_mrate_ratio", ours: []string{"send", "bw"}, stock: "ib_send_bw", size: 64, iters: 50_000,
		args: []string{"-c", "UD"}, column: 4, key: bwKey, unit: "Mpps", scale: 64 * 8 * 1e6},
	{figure: "write_bw_ratio_65536_q8_t2", ours: []string{"write", "bw", "--threads", "2"}, stock: "ib_write_bw",
		size: 65536, iters: 2_000, args: []string{"-q", "8"}, column: 3, key: bwKey, unit: "MiB/s", scale: 8 << 20},
}

func TestMain(m *testing.M) {
	perf := os.Getenv(roleEnv)
	if perf == "" {
		os.Exit(m.Run())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 13*time.Minute)
	defer cancel()
	var p compare.Processors
	_, err := fmt.Sscan(os.Getenv(cpuEnv), &p.Server, &p.Client)
	if err == nil {
		err = drive(ctx, os.Stdout, perf, p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "emubench:", err)
		os.Exit(1)
	}
}

// TestEmuRatios measures each comparison and prints the median of the ratios ours/stock. Without PUREVERBS_FIGURES it
// runs one short round, which shows that the comparison works. It asserts no speeds, since the device is emulated.
func TestEmuRatios(t *testing.T) {
	testutil.NeedEmu(t)
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", dir+"/", "../../emu",
		"../../cmd/perf/rdmaperf")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	cpus, err := compare.Allowed()
	if err != nil {
		t.Fatal(err)
	}
	p := compare.Place(cpus)
	c := exec.CommandContext(t.Context(), "taskset", "-c", p.Emulator,
		filepath.Join(dir, "emu"), "--device", device, "--", os.Args[0])
	c.Env = append(os.Environ(), roleEnv+"="+filepath.Join(dir, "rdmaperf"),
		fmt.Sprintf("%s=%d %d", cpuEnv, p.Server, p.Client))
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
}

func drive(ctx context.Context, w io.Writer, perf string, p compare.Processors) error {
	rounds, runs, divide := 1, 1, 20
	if os.Getenv("PUREVERBS_FIGURES") != "" {
		rounds, runs, divide = 7, 3, 1
	}
	fmt.Fprintln(w, "# emulated device: its speed says nothing about a NIC's; a ratio is ours/stock on the same device")
	port := 30000
	for _, c := range comparisons {
		var ratios, oursAll, stockAll []float64
		args := func() []string {
			port++ // a fresh one, because the last may be in TIME_WAIT
			a := []string{"-d", device, "-x", gid, "-s", strconv.Itoa(c.size), "-n", strconv.Itoa(c.iters / divide),
				"-p", strconv.Itoa(port)}
			return append(a, c.args...)
		}
		ours := func() (float64, error) {
			out, err := pair(ctx, p, perf, append(append(slices.Clone(c.ours), "--json"), args()...))
			if err != nil {
				return 0, err
			}
			v, err := compare.FromJSON(out, c.key)
			return v / c.scale, err
		}
		stock := func() (float64, error) {
			out, err := pair(ctx, p, c.stock, append(args(), "-F"))
			if err != nil {
				return 0, err
			}
			return compare.FromTable(out, c.size, c.column)
		}
		for i := range rounds {
			// The order alternates, so that neither side always finds the warmer machine.
			turn := []func() (float64, error){ours, stock}
			var got [2]float64
			for k := range turn {
				which := k ^ i&1
				// The best of several runs, because the programs, the device and other processes share few CPUs.
				for range runs {
					v, err := compare.Try(turn[which])
					if err != nil {
						return fmt.Errorf("%s: %w", c.figure, err)
					}
					if got[which] == 0 || (v < got[which]) == (c.key == latKey) {
						got[which] = v
					}
				}
			}
			oursAll, stockAll, ratios = append(oursAll, got[0]), append(stockAll, got[1]), append(ratios, got[0]/got[1])
		}
		fmt.Fprintf(w, "figure emu_%s %.3f ratio (ours %.3f, stock %.3f %s, spread of ratios %.2f)\n",
			c.figure, compare.Median(ratios), compare.Median(oursAll), compare.Median(stockAll), c.unit,
			slices.Max(ratios)/slices.Min(ratios))
		if c.raw != "" {
			fmt.Fprintf(w, "figure emu_%s %.3f %s (emulated device)\n", c.raw, compare.Median(stockAll)*c.rawBy,
				c.rawTo)
		}
	}
	return nil
}

// pair runs a server and its client, each on its processor, and returns what the client printed.
func pair(ctx context.Context, p compare.Processors, program string, args []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, testutil.Patience)
	defer cancel()
	var serverOut, out, diag bytes.Buffer
	server := compare.On(ctx, p.Server, program, args...)
	server.Stdout, server.Stderr = &serverOut, &serverOut
	if err := server.Start(); err != nil {
		return nil, err
	}
	if err := compare.WaitListen(ctx, args); err != nil {
		cancel()
		return nil, errors.Join(err, server.Wait(), errors.New(serverOut.String()))
	}
	client := compare.On(ctx, p.Client, program, append(slices.Clone(args), "127.0.0.1")...)
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
