package command

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// parts are the shares of a result that is a sum.
type parts struct {
	Results []struct {
		result
		Threads []result `json:"threads"`
		Rails   []struct {
			Name   string `json:"rail"`
			Error  string `json:"error"`
			Result result `json:"result"`
		} `json:"rails"`
	} `json:"results"`
}

func (p *proc) parts(t *testing.T) (o parts) {
	t.Helper()
	if err := json.Unmarshal([]byte(p.out.String()), &o); err != nil || len(o.Results) == 0 {
		t.Fatalf("%v: %v, %d results in\n%s", p.Args, err, len(o.Results), p.output())
	}
	return o
}

// TestRXE_LoopsStock has options that are ours alone, beside a stock peer that knows nothing of them.
func TestRXE_LoopsStock(t *testing.T) {
	vm := testutil.NeedLogic(t)
	n := 0
	for _, tc := range []struct {
		kind, size string
		args, own  []string // of both ends, of ours
	}{
		{"write bw", "1024", []string{"-q", "4", "-n", "50"}, []string{"--threads", "2"}},
		{"send bw", "1024", []string{"-q", "2", "-b", "-n", "50"}, []string{"--threads", "2"}},
		{"read bw", "4096", []string{"-q", "2", "-n", "50"}, []string{"--threads", "2"}},
		{"write bw", "2048", []string{"-q", "3", "-n", "50"}, []string{"--mr-per-qp"}},
		{"send bw", "2048", []string{"-q", "2", "-b", "-n", "50"},
			[]string{"--mr-per-qp", "--threads", "2", "--report-both"}},
	} {
		k := strings.Fields(tc.kind)
		both := append([]string{"-s", tc.size}, tc.args...)
		ours := slices.Concat([]string{"rdmaperf", k[0], k[1], "--json"}, both, tc.own)
		stock := append([]string{"ib_" + k[0] + "_" + k[1], "-F"}, both...)
		for _, serves := range []string{"we serve", "stock serves"} {
			if n++; !here(vm, n) {
				continue
			}
			t.Run(tc.kind+" "+strings.Join(tc.own, " ")+"/"+serves, func(t *testing.T) {
				server, client := ours, stock
				if serves == "stock serves" {
					server, client = stock, ours
				}
				srv, cli := runPair(t, vm, server, client)
				perf, other := srv, cli
				if serves == "stock serves" {
					perf, other = cli, srv
				}
				stockRow(t, other, tc.size)
				o := perf.parts(t).Results[0]
				if o.ByPeer {
					return
				}
				if slices.Contains(tc.own, "--threads") && len(o.Threads) != 2 {
					t.Errorf("%d threads, want 2\n%s", len(o.Threads), perf.output())
				}
			})
		}
	}
}

// TestRXE_Threads: what threads do adds up, and the payload is right.
func TestRXE_Threads(t *testing.T) {
	vm := testutil.NeedLogic(t)
	n := 0
	for _, line := range []string{
		"write bw -q 4 --threads 2 -s 300 -n 100 --verify",
		"send bw -q 3 --threads 3 -s 5000 -n 50 -b --verify --mr-per-qp",
		"send bw -q 4 --threads 2 -s 64 -n 60 -l 4 -c UC",
		"read bw -q 2 --threads 2 -D 1 -s 4K",
		"write lat -q 2 --threads 2 -n 50 -s 8",
		"send lat -q 3 --threads 3 -n 50 -s 8 -e",
		"read lat -q 2 --threads 2 -n 50 -s 8",
	} {
		if n++; !here(vm, n) {
			continue
		}
		t.Run(line, func(t *testing.T) {
			args := append([]string{"rdmaperf", "--json"}, strings.Fields(line)...)
			_, cli := runPair(t, vm, args, args)
			o := cli.parts(t).Results[0]
			sum, samples := uint64(0), uint64(0)
			for _, part := range o.Threads {
				sum += part.Count
				samples += part.Samples
			}
			if len(o.Threads) < 2 || sum != o.Count || samples != o.Samples || o.Count == 0 {
				t.Errorf("%d messages, %d samples; of %d threads %d and %d", o.Count, o.Samples, len(o.Threads), sum,
					samples)
			}
		})
	}
	if !vm.Emulated {
		return
	}
	if !testutil.Full() {
		return
	}
	// A thread that fails ends the others, and is named.
	port := freshPort()
	args := []string{"write", "bw", "-q", "2", "--threads", "2", "-s", "4K", "-D", "100", "--timeout", "4", "-p", port}
	srv := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[0])...)
	listening(t, srv, port)
	vm.Fault(t, "cqe-lost:device="+vm.Dev[1]+",after=1,count=0")
	cli := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[1], vm.Host[0])...)
	if rc := cli.wait(t); rc != 1 || !strings.Contains(cli.diag.String(), " of 2: ") {
		t.Errorf("exit code %d, want 1 and the thread\n%s", rc, cli.output())
	}
}

// TestRXE_Rails: several devices and several servers at once add up, and one that fails is named.
func TestRXE_Rails(t *testing.T) {
	vm := testutil.NeedRXE(t)
	ports := func() (string, string) { // two that follow each other
		a := freshPort()
		return a, freshPort()
	}
	n := 0
	devices := func(i int) string { return vm.Dev[i] + "," + vm.Dev[1-i] }
	check := func(t *testing.T, p *proc, each, all uint64) {
		t.Helper()
		o := p.parts(t).Results[0]
		if len(o.Rails) != 2 || o.Count != all || o.Rails[0].Result.Count != each || o.Rails[1].Result.Count != each {
			t.Errorf("%v: %+v, want two rails of %d, %d in all", p.Args, o, each, all)
		}
	}
	row := func(name string, f func(t *testing.T)) {
		if n++; here(vm, n) {
			t.Run(name, f)
		}
	}
	row("devices", func(t *testing.T) {
		port, second := ports()
		args := []string{"send", "bw", "-b", "-q", "2", "--threads", "2", "-s", "1K", "-n", "50", "--json", "-p", port,
			"--verify"}
		srv := start(t, "rdmaperf", append(slices.Clone(args), "-d", devices(0))...)
		listening(t, srv, port)
		listening(t, srv, second)
		cli := start(t, "rdmaperf", append(slices.Clone(args), "-d", devices(1), vm.Host[0])...)
		for _, p := range []*proc{cli, srv} {
			if rc := p.wait(t); rc != 0 {
				t.Fatalf("%v: exit code %d\n%s", p.Args, rc, p.output())
			}
			check(t, p, 100, 200)
			if !p.outcome(t).Verified {
				t.Errorf("%v: the payload was not checked", p.Args)
			}
		}
	})
	row("stock servers", func(t *testing.T) {
		port, second := ports()
		args := []string{"-s", "1024", "-n", "50"}
		for i, p := range []string{port, second} {
			srv := start(t, "ib_write_bw", append(slices.Clone(args), "-F", "-d", vm.Dev[i], "-p", p)...)
			listening(t, srv, p)
		}
		cli := start(t, "rdmaperf", append(args, "write", "bw", "--json", "-d", devices(1), "-p", port, vm.Host[0])...)
		if rc := cli.wait(t); rc != 0 {
			t.Fatalf("exit code %d\n%s", rc, cli.output())
		}
		check(t, cli, 50, 100)
	})
	row("one fails", func(t *testing.T) {
		port, second := ports()
		args := []string{"write", "bw", "-s", "1K", "-n", "50", "--retry", "0", "-p", port}
		srv := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[0])...)
		listening(t, srv, port)
		cli := start(t, "rdmaperf", append(slices.Clone(args), "--json", "-d", vm.Dev[1], vm.Host[0]+","+vm.Host[0])...)
		rc := cli.wait(t)
		o := cli.parts(t).Results[0]
		if want := vm.Host[0] + " port " + second; rc != 1 || !strings.Contains(cli.diag.String(), want) ||
			len(o.Rails) != 2 || o.Rails[0].Result.Count != 50 || o.Rails[1].Error == "" || o.Bits != 0 {
			t.Errorf("exit code %d, want 1, %q and a figure of the other one alone\n%s", rc, want, cli.output())
		}
	})
}

// TestRXE_BothEnds: --report-both tells both directions, in a run by time, too, if both ends are asked for it; and what
// an end refuses.
func TestRXE_BothEnds(t *testing.T) {
	vm := testutil.NeedLogic(t)
	n := 0
	args := []string{"send", "bw", "-b", "-D", "1", "-s", "1K", "--report-both", "--mr-per-qp", "-q", "2"}
	if here(vm, 1) {
		// Each end sends at most 1000 messages a second, and counts them when they complete: on a busy machine all that
		// the send queues hold may complete late, and be received late.
		const queued = 2 * 128
		both := append([]string{"rdmaperf", "--json", "--rate-limit", "1000", "--rate-units", "p",
			"--report-interval", "0.1"}, args...)
		srv, cli := runPair(t, vm, both, both)
		var sent, got [2]uint64 // in all parts, with the margins
		for end, p := range []*proc{srv, cli} {
			r := p.outcome(t).Results[0]
			if r.Sent == nil || r.Got == nil || r.Sent.Rate <= 0 || float64(r.Sent.Count) > 1100*r.Seconds+queued ||
				math.Abs(r.Sent.Rate+r.Got.Rate-r.Rate) > 1e-6*r.Rate {
				t.Errorf("both directions are %+v, sent %+v, received %+v", r, r.Sent, r.Got)
				continue
			}
			count, seconds := uint64(0), 0.0
			for _, i := range r.Parts {
				if !i.Margin {
					count, seconds = count+i.Count, seconds+i.Seconds
				}
				if i.Got != nil {
					sent[end], got[end] = sent[end]+i.Sent.Count, got[end]+i.Got.Count
				}
			}
			if count != r.Count || r.Count != r.Sent.Count || math.Abs(seconds-r.Seconds) > 1e-6 {
				t.Errorf("the intervals have %d messages in %v s, the run %d in %v s", count, seconds, r.Count,
					r.Seconds)
			}
		}
		for end := range got {
			if there := sent[1-end]; got[end] == 0 || got[end] > there+queued {
				t.Errorf("one end received %d messages, of %d that the other one sent", got[end], there)
			}
		}
	}
	fails := func(server, client []string, want string) {
		t.Helper()
		if n++; !here(vm, n) {
			return
		}
		port := freshPort()
		srv := start(t, server[0], append(slices.Clone(server[1:]), "-d", vm.Dev[0], "-p", port)...)
		listening(t, srv, port)
		cli := start(t, client[0], append(slices.Clone(client[1:]), "-d", vm.Dev[1], "-p", port, vm.Host[0])...)
		if rc := cli.wait(t); rc != 1 || !strings.Contains(cli.diag.String(), want) {
			t.Errorf("%v: exit code %d, want 1 and %q\n%s", client, rc, want, cli.output())
		}
	}
	fails([]string{"rdmaperf", "write", "bw", "-e"}, []string{"rdmaperf", "write", "bw", "-e", "-X", "100000"},
		"comp_vector")
	fails([]string{"rdmaperf", "send", "bw", "-b", "-D", "1", "-s", "1K", "-q", "2"}, append([]string{"rdmaperf"},
		args...),
		"(--report-both) is true here, false at the peer")
	fails([]string{"ib_send_bw", "-F", "-b", "-D", "1", "-s", "1024", "-q", "2"}, append([]string{"rdmaperf"}, args...),
		"reports no send by time")
	fails([]string{"rdmaperf", "write", "bw"},
		[]string{"rdmaperf", "write", "bw", "--rate-limit", "5", "--rate-limit-type", "HW"}, "let the software do it")
	fails([]string{"rdmaperf", "write", "bw"}, []string{"rdmaperf", "write", "bw", "--bind-source-ip", "192.0.2.1"},
		"connect to")
}
