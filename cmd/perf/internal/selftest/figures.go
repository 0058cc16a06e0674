package selftest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// figure is a measurement that rdmaperf and a program of perftest both make.
type figure struct {
	name  string
	perf  []string // words before the options
	stock string
	args  []string // of both
	most  uint64   // messages
	unit  string
}

// measurements are those of step 11.
var measurements = []figure{
	{"latency, write, 8 bytes", []string{"write", "lat"}, "ib_write_lat", []string{"-s", "8"}, 100_000, "p50_us"},
	{"latency, send, 8 bytes", []string{"send", "lat"}, "ib_send_lat", []string{"-s", "8"}, 100_000, "p50_us"},
	{"rate, write, 8 bytes", []string{"write", "bw"}, "ib_write_bw", []string{"-s", "8"}, 1_000_000, "mpps"},
	{"bandwidth, write, 64 KiB", []string{"write", "bw"}, "ib_write_bw", []string{"-s", "65536"}, 100_000, "gbps"},
	{"rate, send into an SRQ, 8 bytes, 4 QPs", []string{"send", "bw"}, "ib_send_bw",
		[]string{"-s", "8", "-q", "4", "--use-srq"}, 1_000_000, "mpps"},
}

// figureStep is step 11. It compares on this host, over the ends of the test: both programs have the same conditions.
func figureStep(s *stage) {
	for _, f := range measurements {
		s.check(f.name, func(b *box) { measure(b, &f) })
	}
}

func measure(b *box, f *figure) {
	self := must(os.Executable())(b)
	n := strconv.FormatUint(min(max(b.opt.Posts/100, 1000), f.most), 10)
	ours := must(both(b.ctx, self, append(f.perf, "--json"), b.options(f.args, n)))(b)
	mine, err := readPerf(ours, f.unit)
	b.ok(err)
	b.figure("perf_"+f.unit, mine)
	stock, err := exec.LookPath(f.stock)
	if err != nil {
		b.note("%s is not installed: nothing to compare with", f.stock)
		return
	}
	words := []string{"-F"}
	if f.unit != "p50_us" {
		words = append(words, "--report_gbits")
	}
	err = errNoClock
	for try := 0; try < 5 && errors.Is(err, errNoClock); try++ {
		var theirs []byte
		if theirs, err = both(b.ctx, stock, words, b.options(f.args, n)); err != nil {
			break
		}
		var v float64
		if v, err = readStock(theirs, f.unit); err == nil && v > 0 && mine > 0 {
			b.figure("perftest_"+f.unit, v)
			b.figure("ratio", mine/v)
		}
	}
	if err != nil {
		b.note("%s: %v", f.stock, err)
	}
}

// options returns those of each end, 0 the client's.
func (b *box) options(args []string, n string) (list [2][]string) {
	for i, e := range b.at {
		list[i] = append([]string{"-d", e.Device, "-i", strconv.Itoa(e.Port), "-n", n}, args...)
		if b.needsGRH() {
			list[i] = append(list[i], "-x", strconv.Itoa(e.GIDIndex))
		}
	}
	return list
}

// needsGRH reports whether the ends must address each other by GIDs.
func (b *box) needsGRH() bool { return b.at[0].GRH || b.at[1].GRH }

// both runs the server and the client of a program, and returns what the client has printed.
func both(ctx context.Context, program string, words []string, options [2][]string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	args := func(i int) []string {
		return append(append(append([]string{}, words...), options[i]...), "-p", port)
	}
	var served bytes.Buffer
	server := exec.CommandContext(ctx, program, args(1)...)
	server.Stdout, server.Stderr = &served, &served
	if err := server.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	for {
		// perftest's client tries to connect once, and the server may not listen yet.
		var out, diag bytes.Buffer
		client := exec.CommandContext(ctx, program, append(args(0), "127.0.0.1")...)
		client.Stdout, client.Stderr = &out, &diag
		err := client.Run()
		said := func() string { return tail(diag.String()+out.String(), 2000) }
		stop := func() ([]byte, error) {
			cancel()
			<-ended
			return nil, fmt.Errorf("client: %w: %s", err, said())
		}
		if err == nil {
			if err := <-ended; err != nil {
				return nil, fmt.Errorf("server: %w: %s", err, tail(served.String(), 2000))
			}
			return out.Bytes(), nil
		}
		select {
		case e := <-ended:
			return nil, fmt.Errorf("server: %v: %s; client: %w: %s", e, tail(served.String(), 2000), err, said())
		case <-ctx.Done():
			return stop()
		case <-time.After(100 * time.Millisecond):
		}
		if !strings.Contains(diag.String()+out.String(), "connect") {
			return stop()
		}
	}
}

// readPerf returns a figure of rdmaperf's JSON object.
func readPerf(text []byte, unit string) (float64, error) {
	var r struct {
		Results []struct {
			Bits  float64 `json:"bandwidth_bits_per_second"`
			Rate  float64 `json:"messages_per_second"`
			P50Ns float64 `json:"latency_p50_ns"`
		} `json:"results"`
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return 0, err
	}
	if len(r.Results) != 1 {
		return 0, fmt.Errorf("rdmaperf printed %d results, want 1", len(r.Results))
	}
	switch unit {
	case "p50_us":
		return r.Results[0].P50Ns / 1e3, nil
	case "mpps":
		return r.Results[0].Rate / 1e6, nil
	}
	return r.Results[0].Bits / 1e9, nil
}

// stockRow is a row of perftest's table: size, messages, and figures.
var stockRow = regexp.MustCompile(`(?m)^\s*(\d+)\s+(\d+)((?:\s+(?:[\d.]+|-?inf|-?nan))+)\s*$`)

// errNoClock is the reason for figures that are no numbers: perftest divides by a frequency of 0 if its measurements of
// the clock differ too much, as on a busy host (sample_get_cpu_mhz, src/get_clock.c).
var errNoClock = errors.New("could not measure the processor's clock: run it again when the host is less busy")

// readStock returns a figure of perftest's table. Bandwidth has the columns peak, average and rate; latency minimum,
// maximum, typical and more.
func readStock(text []byte, unit string) (float64, error) {
	m := stockRow.FindSubmatch(text)
	if m == nil {
		return 0, errors.New("no table")
	}
	columns := strings.Fields(string(m[3]))
	column := map[string]int{"p50_us": 2, "gbps": 1, "mpps": 2}[unit]
	if len(columns) <= column {
		return 0, fmt.Errorf("%d columns", len(columns))
	}
	v, err := strconv.ParseFloat(columns[column], 64)
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, errNoClock
	}
	return v, err
}
