package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// nextPort hands out a TCP port per run: the one of the run before may linger.
var nextPort atomic.Int32

func freshPort() string { return strconv.Itoa(int(22000 + nextPort.Add(1))) }

// proc is a program under test.
type proc struct {
	*exec.Cmd
	out, diag lockedBuffer
	done      chan struct{}
	err       error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func start(t *testing.T, program string, args ...string) *proc {
	t.Helper()
	p := &proc{Cmd: exec.Command(testutil.NeedProgram(t, program), args...), done: make(chan struct{})}
	p.Stdout, p.Stderr = &p.out, &p.diag
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.Cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.Process.Kill()
		<-p.done
	})
	return p
}

// wait returns the exit code.
func (p *proc) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(testutil.Patience):
		t.Fatalf("%v is not done after %v\n%s", p.Args, testutil.Patience, p.output())
	}
	return p.ProcessState.ExitCode()
}

func (p *proc) output() string { return p.out.String() + p.diag.String() }

// listening waits until a server listens on a TCP port, without connecting. A server that ends before fails the test
// at once.
func listening(t *testing.T, p *proc, port string) {
	t.Helper()
	n, _ := strconv.Atoi(port)
	want := fmt.Sprintf(":%04X ", n)
	testutil.Eventually(t, p.Args[0]+" listens on port "+port, func() bool {
		for _, f := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(b)) {
				if i := strings.Index(line, want); i > 0 && strings.Contains(line[i:], ":0000 0A ") {
					return true
				}
			}
		}
		return over(t, p)
	})
}

// pause stops a program until it gets SIGCONT: on a busy machine it would be over before what is to happen beside it.
func pause(t *testing.T, p *proc) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatalf("%v: %v\n%s", p.Args, err, p.output())
	}
}

// turns divides the long lists of rows among the places: each row runs at one of them, and everywhere in a full run.
// The VM, where a row takes three times as long, has few, and the emulated device has a third of its rows at a time.
var turns = [...]int{0, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2}

// here reports whether row n of a list runs here.
func here(vm testutil.RXE, n int) bool {
	place := placeOf(vm)
	return testutil.Full() || vm.Hardware || turns[n%len(turns)] == place && (place == 0 || testutil.Turn(n, 3))
}

// placeOf is the number of this place.
func placeOf(vm testutil.RXE) int {
	switch {
	case !vm.Emulated:
		return 0
	case os.Getenv("PUREVERBS_DATAPATH") == "ops":
		return 2
	}
	return 1
}

// needOnce is testutil.NeedLogic for what is also the same on both data paths: only a full run has it on libmlx5's.
func needOnce(t *testing.T) testutil.RXE {
	t.Helper()
	vm := testutil.NeedLogic(t)
	if !testutil.Full() && placeOf(vm) == 2 {
		t.Skip("tells nothing of the data path: on libmlx5's only make test-full runs it")
	}
	return vm
}

// needDirect is testutil.NeedRXE for what needs one place alone: the emulated device's direct data path, with this
// machine's libraries and programs.
func needDirect(t *testing.T) testutil.RXE {
	t.Helper()
	vm := testutil.NeedRXE(t)
	if placeOf(vm) != 1 || testutil.Libraries() != "" {
		t.Skip("runs on the emulated device only, on the direct data path and with this machine's libraries")
	}
	return vm
}

// runPair runs a server on the first device and a client on the second, and
// wants both to exit with 0.
func runPair(t *testing.T, vm testutil.RXE, server, client []string) (srv, cli *proc) {
	t.Helper()
	port := freshPort()
	srv = start(t, server[0], append(slices.Clone(server[1:]), "-d", vm.Dev[0], "-p", port)...)
	listening(t, srv, port)
	cli = start(t, client[0], append(slices.Clone(client[1:]), "-d", vm.Dev[1], "-p", port, vm.Host[0])...)
	if rc := cli.wait(t); rc != 0 {
		srv.Process.Kill()
		<-srv.done
		t.Fatalf("client %v: exit code %d\n%s\nserver %v:\n%s", cli.Args, rc, cli.output(), srv.Args, srv.output())
	}
	if rc := srv.wait(t); rc != 0 {
		t.Fatalf("server %v: exit code %d\n%s", srv.Args, rc, srv.output())
	}
	return srv, cli
}

type result struct {
	Bytes   uint64  `json:"bytes"`
	Count   uint64  `json:"messages"`
	Lost    uint64  `json:"lost"`
	There   uint64  `json:"lost_at_peer"`
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"messages_per_second"`
	Bits    float64 `json:"bandwidth_bits_per_second"`
	P50     float64 `json:"latency_p50_ns"`
	Max     float64 `json:"latency_max_ns"`
	Samples uint64  `json:"samples"`
	Sent    *flow   `json:"sent"`
	Got     *flow   `json:"received"`
	ByPeer  bool    `json:"reported_by_peer"`
	Parts   []part  `json:"intervals"`
}

// flow is one direction of a result.
type flow struct {
	Count uint64  `json:"messages"`
	Bits  float64 `json:"bandwidth_bits_per_second"`
	Rate  float64 `json:"messages_per_second"`
}

type part struct {
	Seconds float64 `json:"seconds"`
	Margin  bool    `json:"margin"`
	Count   uint64  `json:"messages"`
	Sent    *flow   `json:"sent"`
	Got     *flow   `json:"received"`
}

type outcome struct {
	Schema   string   `json:"schema"`
	Version  int      `json:"version"`
	Results  []result `json:"results"`
	Verified bool     `json:"payload_verified"`
	Notes    []string `json:"notes"`
	Error    string   `json:"error"`
	Posted   []string `json:"posted_around_error"`
	Test     struct {
		RDMACM     bool   `json:"rdma_cm"`
		CMExchange bool   `json:"exchange_by_rdma_cm"`
		Memory     string `json:"memory"`
		QPs        int    `json:"queue_pairs"`
	} `json:"test"`
	Peer struct {
		Version string `json:"perftest_version"`
		Ours    bool   `json:"pureverbs"`
		GID     string `json:"gid"`
	} `json:"peer"`
	Local struct {
		Device string `json:"device"`
		GID    string `json:"gid"`
		Inline int    `json:"inline_bytes"`
	} `json:"local"`
}

func (p *proc) outcome(t *testing.T) outcome {
	t.Helper()
	var o outcome
	if err := json.Unmarshal([]byte(p.out.String()), &o); err != nil {
		t.Fatalf("%v: %v in\n%s", p.Args, err, p.output())
	}
	return o
}

var kinds = []struct{ verb, metric string }{
	{"write", "bw"}, {"write", "lat"}, {"read", "bw"}, {"read", "lat"}, {"send", "bw"}, {"send", "lat"},
}

// withImm is write with immediate data, by --write-with-imm.
const withImm = "write_imm"

var immKinds = []struct{ verb, metric string }{{withImm, "bw"}, {withImm, "lat"}}

var atomicKinds = []struct{ verb, metric string }{{"atomic", "bw"}, {"atomic", "lat"}}

// transcript forwards a stock exchange and notes the length of each message.
func transcript(t *testing.T, from, to string) (lens func() string) {
	ln, err := net.Listen("tcp", ":"+from)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var log []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		a, err := ln.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp", "127.0.0.1:"+to)
		if err != nil {
			a.Close()
			return
		}
		var wg sync.WaitGroup
		pipe := func(dst, src net.Conn, who string) {
			buf := make([]byte, 4096)
			for {
				n, err := src.Read(buf)
				if n > 0 {
					mu.Lock()
					log = append(log, who+strconv.Itoa(n))
					mu.Unlock()
					dst.Write(buf[:n])
				}
				if err != nil {
					dst.(*net.TCPConn).CloseWrite()
					return
				}
			}
		}
		wg.Go(func() { pipe(b, a, "c") })
		wg.Go(func() { pipe(a, b, "s") })
		wg.Wait()
		a.Close()
		b.Close()
	}()
	return func() string {
		ln.Close()
		<-done
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(log, " ")
	}
}

// TestRXE_StockTranscript records what two stock ends say to each other, and
// two of ours: the messages and their lengths must be the same, but for the
// step that is between two of ours only, and for goodbyes.
func TestRXE_StockTranscript(t *testing.T) {
	vm := testutil.NeedLogic(t)
	record := func(t *testing.T, program string, args ...string) string {
		front, back := freshPort(), freshPort()
		lens := transcript(t, front, back)
		srv := start(t, program, append(slices.Clone(args), "-d", vm.Dev[0], "-p", back)...)
		listening(t, srv, back)
		cli := start(t, program, append(slices.Clone(args), "-d", vm.Dev[1], "-p", front, "127.0.0.1")...)
		if rc := cli.wait(t); rc != 0 {
			t.Fatalf("client: exit code %d\n%s", rc, cli.output())
		}
		srv.wait(t)
		return lens()
	}
	// What the forwarder may read in one piece, or in another order.
	plain := func(s string) string {
		s = strings.ReplaceAll(s, "s113", "s108 s5")
		s = strings.ReplaceAll(s, "c113", "c108 c5")
		var out []string
		for f := range strings.FieldsSeq(s) {
			if f != "s5" && f != "c5" && f != "s1" && f != "c1" { // the one byte is a heartbeat, on a busy machine
				out = append(out, f)
			}
		}
		return strings.Join(out, " ")
	}
	n := 0
	for _, k := range kinds {
		for _, extra := range [][]string{nil, {"-b", "-q", "2"}} {
			if extra != nil && (k.metric == "lat" || k.verb == "read") {
				continue
			}
			if n++; !here(vm, n) {
				continue
			}
			t.Run(strings.Join(append([]string{k.verb, k.metric}, extra...), " "), func(t *testing.T) {
				stock := plain(record(t, "ib_"+k.verb+"_"+k.metric, append([]string{"-n", "20", "-F"}, extra...)...))
				ours := plain(record(t, "rdmaperf", append([]string{k.verb, k.metric, "-n", "20"}, extra...)...))
				if strings.Count(ours, "c128 s128 ") != 1 {
					t.Errorf("no own step in %s", ours)
				}
				ours = strings.Replace(ours, "c128 s128 ", "", 1)
				if k.verb == "write" && k.metric == "lat" {
					stock += " c108 s108" // stock ends just leave
				}
				if ours != stock {
					t.Errorf("ours  %s\nstock %s", ours, stock)
				}
			})
		}
	}
}

// stockRow finds the row of a size in a stock table.
func stockRow(t *testing.T, p *proc, size string) []string {
	t.Helper()
	for line := range strings.Lines(p.out.String()) {
		if f := strings.Fields(line); len(f) > 3 && f[0] == size {
			return f
		}
	}
	t.Fatalf("no row of %s bytes in the output of %v\n%s", size, p.Args, p.output())
	return nil
}

// TestRXE_InteropStock runs each of perftest's programs against ours, in both
// roles, with the options that change the exchange or the traffic.
func TestRXE_InteropStock(t *testing.T) {
	vm := testutil.NeedRXE(t)
	if vm.Emulated && os.Getenv("PUREVERBS_DATAPATH") == "ops" && !testutil.Full() {
		t.Skip("the VM runs it through the ops table")
	}
	const (
		all = "write bw, write lat, read bw, read lat, send bw, send lat"
		imm = "write_imm bw, write_imm lat"
	)
	variants := []struct {
		name  string
		args  []string
		kinds string
		size  string // of a row that must be there; "": the default
	}{
		{"default size", []string{"-n", "30"}, all + ", atomic bw, atomic lat", ""},
		{"two queue pairs", []string{"-q", "2", "-s", "1024", "-n", "50"}, "write bw, send bw", "1024"},
		{"both directions", []string{"-b", "-s", "1024", "-n", "50"}, "write bw, read bw, send bw", "1024"},
		{"post list", []string{"-l", "4", "-s", "1024", "-n", "60"}, "write bw", "1024"},
		{"moderation", []string{"-Q", "7", "-t", "16", "-s", "256", "-n", "101"}, "read bw", "256"},
		{"all sizes", []string{"-a", "-n", "5"}, "write bw, send bw", "8388608"},
		{"inline", []string{"-I", "64", "-s", "33", "-n", "50"}, "write lat", "33"},
		{"events", []string{"-e", "-s", "256", "-n", "50"}, "send lat", "256"},
		{"UC", []string{"-c", "UC", "-s", "1024", "-n", "50"}, "write bw, write lat, send bw, send lat", "1024"},
		{"UD", []string{"-c", "UD", "-s", "1024", "-n", "50"}, "send bw, send lat", "1024"},
		{"UD both directions", []string{"-c", "UD", "-b", "-q", "2", "-s", "512", "-n", "50"}, "send bw", "512"},
		{"XRC", []string{"-c", "XRC", "-s", "1024", "-n", "50"}, all, "1024"},
		{"XRC atomics", []string{"-c", "XRC", "-n", "50"}, "atomic bw, atomic lat", "8"},
		{"XRC both directions", []string{"-c", "XRC", "-b", "-q", "2", "-s", "1024", "-n", "50"},
			"write bw, read bw, send bw", "1024"},
		{"DC", []string{"-c", "DC", "-s", "1024", "-n", "50"}, all, "1024"},
		{"DC atomics", []string{"-c", "DC", "-n", "50"}, "atomic bw, atomic lat", "8"},
		{"DC both directions", []string{"-c", "DC", "-b", "-q", "2", "-s", "1024", "-n", "50"},
			"write bw, read bw, send bw", "1024"},
		{"immediate", []string{"-s", "1024", "-n", "50"}, imm, "1024"},
		{"immediate, UC", []string{"-c", "UC", "-s", "1024", "-n", "50"}, imm, "1024"},
		{"immediate, XRC", []string{"-c", "XRC", "-s", "1024", "-n", "50"}, imm, "1024"},
		{"immediate, DC", []string{"-c", "DC", "-s", "1024", "-n", "50"}, imm, "1024"},
		{"immediate, both directions", []string{"-b", "-q", "2", "-s", "64", "-n", "50"}, "write_imm bw", "64"},
		// More than a poll takes: of five messages a server that looks late knows no time.
		{"immediate, all sizes", []string{"-a", "-n", "20"}, "write_imm bw", "8388608"},
		{"multicast", []string{"-c", "UD", "-g", "-x", "0", "-s", "512", "-n", "50"}, "send bw, send lat", "512"},
		{"shared receives", []string{"--use-srq", "-q", "2", "-r", "64", "-s", "1024", "-n", "300"}, "send bw",
			"1024"},
		{"shared receives, UD", []string{"--use-srq", "-c", "UD", "-s", "512", "-n", "50"}, "send bw, send lat", "512"},
		{"compare and swap", []string{"-A", "CMP_AND_SWAP", "-n", "50"}, "atomic bw, atomic lat", "8"},
		{"atomics both directions", []string{"-b", "-q", "2", "-n", "50"}, "atomic bw", "8"},
		// With completions moderated stock waits for ever, against itself, too.
		{"warm-up", []string{"--perform_warm_up", "-b", "-q", "2", "-Q", "1", "-t", "16", "-s", "1024", "-n", "60"},
			"write bw, read bw", "1024"},
		{"reversed", []string{"--reversed", "-s", "1024", "-n", "50"}, "write bw, write lat, read bw, send bw", "1024"},
		{"gap", []string{"--latency_gap=50", "-s", "64", "-n", "50"}, "read lat, send lat", "64"},
		{"gigabits", []string{"--report_gbits", "-m", "1024", "-s", "8192", "-n", "50"}, "write bw", "8192"},
		{"GID of IPv6", []string{"--ipv6", "-s", "1024", "-n", "50"}, "send bw, read lat", "1024"},
	}
	tab := interop{}
	n := 0
	for _, k := range interopKinds() {
		kind := k.verb + " " + k.metric
		for _, v := range variants {
			if !strings.Contains(v.kinds, kind) {
				continue
			}
			n++
			rare := slices.Contains(v.args, "DC") || k.verb == withImm || v.name == "multicast"
			if v.name != "default size" && !here(vm, n) {
				continue
			}
			if v.name == "all sizes" && k.verb == "send" && !vm.Emulated && !testutil.Full() {
				continue // 8 s on SoftRoCE
			}
			if (rare || slices.Contains(v.args, "XRC")) && !vm.Emulated && !vm.Hardware {
				continue // SoftRoCE has none, or the stock program is of another release
			}
			size := v.size
			if size == "" {
				size = map[string]string{"bw": "65536", "lat": "2"}[k.metric]
			}
			if k.verb == "atomic" {
				size = "8"
			}
			ours := append([]string{"rdmaperf", k.verb, k.metric, "--json"}, v.args...)
			check := func(t *testing.T, p *proc) result {
				o := p.outcome(t)
				if o.Error != "" || o.Schema != "pureverbs.perf" || o.Peer.Ours ||
					!perftestVersion.MatchString(o.Peer.Version) {
					t.Errorf("%+v", o)
				}
				if v.name == "GID of IPv6" && (mapped(o.Local.GID) || mapped(o.Peer.GID)) {
					t.Errorf("GIDs %s and %s, want those of IPv6", o.Local.GID, o.Peer.GID)
				}
				if len(o.Results) == 0 {
					if p.Args[len(p.Args)-1] == vm.Host[0] || kind != "read lat" && kind != "atomic lat" {
						t.Fatal("no results")
					}
					return result{} // the server of these measures nothing
				}
				notes := []string{map[bool]string{true: "emulated", false: "SoftRoCE"}[vm.Emulated]}
				if k.metric == "lat" && k.verb != "read" && k.verb != "atomic" {
					notes = append(notes, "the first message of each size is not in the latencies")
				}
				for i, note := range notes {
					if len(o.Notes) != len(notes) || !strings.Contains(o.Notes[i], note) {
						t.Errorf("notes %q, want those about %s", o.Notes, notes)
					}
				}
				last := o.Results[len(o.Results)-1]
				if strconv.FormatUint(last.Bytes, 10) != size {
					t.Errorf("last size %d, want %s", last.Bytes, size)
				}
				moved := last.Bits
				if last.Sent != nil {
					moved = last.Sent.Bits // the sum needs the peer's part, which it may not know
				}
				if k.metric == "bw" && !last.ByPeer && !(moved > 0) || k.metric == "lat" &&
					!(last.P50 > 0 && last.Max >= last.P50) {
					t.Errorf("figures %+v", last)
				}
				return last
			}
			// The end that only waits prints what the other one reported.
			oneWay := k.metric == "bw" && k.verb != "send" && k.verb != withImm && !slices.Contains(v.args, "-b")
			unit := float64(8 << 20)
			if v.name == "gigabits" {
				unit = 1e9
			}
			same := func(t *testing.T, row []string, bits float64) {
				avg, err := strconv.ParseFloat(row[3], 64)
				if err == nil && (math.IsInf(avg, 0) || math.IsNaN(avg) || avg == 0) {
					t.Logf("under emulation stock could not tell the rate of its clock: %v", row)
					return
				}
				// Stock prints two digits, and rates of its own clock.
				if mine := bits / unit; err != nil || math.Abs(avg-mine) > 0.02*avg+0.02 {
					t.Errorf("stock printed %v, we %.3f", row, mine)
				}
			}
			// Of what each end does alike in both roles, a short run has one.
			serve, connect := true, v.name != "immediate, all sizes"
			if !testutil.Full() && (rare || strings.Contains(v.name, "XRC") || strings.Contains(v.name, "shared") ||
				v.name == "default size" && !vm.Hardware) {
				serve = (n+placeOf(vm))%2 == 0
				connect = connect && !serve
			}
			if v.name == "all sizes" && k.verb == "send" { // it is symmetric, and long
				serve = false
			}
			for _, release := range interopReleases(vm, k.verb, n) {
				if release == newer && v.name == "shared receives, UD" {
					continue // its server fails against itself, too: its receives end beyond its memory
				}
				stock := stockName(release, k.verb, k.metric)
				theirs := append(stockOf(t, release, k.verb, k.metric), v.args...)
				if serve {
					t.Run(stock+"/"+v.name+"/we serve", func(t *testing.T) {
						tab.note(t, stock, v.args, "we serve")
						testutil.NeedControl(t)
						srv, cli := runPair(t, vm, ours, theirs)
						row := stockRow(t, cli, size)
						if last := check(t, srv); oneWay {
							same(t, row, last.Bits)
						}
					})
				}
				if connect {
					t.Run(stock+"/"+v.name+"/stock serves", func(t *testing.T) {
						tab.note(t, stock, v.args, "stock serves")
						testutil.NeedControl(t)
						srv, cli := runPair(t, vm, theirs, ours)
						if last := check(t, cli); oneWay {
							same(t, stockRow(t, srv, size), last.Bits)
						}
					})
				}
			}
		}
	}
	tab.print(t, vm, interopKinds(), "RC", "UC", "UD", "XRC", "DC", "SRD")
}

// mapped reports whether a GID is that of an address of IPv4.
func mapped(gid string) bool { return strings.HasPrefix(gid, "::ffff:") }

// TestRXE_InteropOurs runs both ends of ours and checks every payload byte.
func TestRXE_InteropOurs(t *testing.T) {
	vm := testutil.NeedRXE(t)
	n := 0
	for _, k := range kinds {
		variants := [][]string{
			{"-n", "20"},
			{"-s", "1", "-n", "50"},
			{"-s", "100", "-n", "300"},
			{"-s", "64", "-n", "50", "-I", "64"},
		}
		if k.metric == "bw" {
			variants = append(variants,
				[]string{"-a", "-s", "64K", "-n", "8"},
				[]string{"-b", "-q", "2", "-s", "300", "-n", "100"},
				[]string{"-q", "3", "-l", "4", "-s", "5000", "-n", "40"},
				[]string{"-t", "5", "-Q", "5", "-s", "300", "-n", "203"},
				[]string{"-N", "-D", "1", "-s", "4K"},
				[]string{"--rounds", "3", "-s", "300", "-n", "100"},
			)
		} else {
			variants = append(variants,
				[]string{"--lat-def", "cqe", "-n", "50"},
				[]string{"-D", "1", "-H"},
				[]string{"-a", "-s", "16K", "-n", "10"},
			)
		}
		switch {
		case k.verb == "send":
			variants = append(variants, []string{"-r", "7", "-s", "300", "-n", "100"}, []string{"-e", "-n", "20"})
		case k.verb == "read":
			variants = append(variants, []string{"-o", "2", "-n", "20"}, []string{"-e", "-n", "20"})
		}
		for _, v := range variants {
			if k.verb == "read" && slices.Contains(v, "-I") {
				continue
			}
			if n++; !here(vm, n) {
				continue
			}
			t.Run(k.verb+" "+k.metric+" "+strings.Join(v, " "), func(t *testing.T) {
				args := append([]string{"rdmaperf", k.verb, k.metric, "--json", "--verify"}, v...)
				srv, cli := runPair(t, vm, args, args)
				so, co := srv.outcome(t), cli.outcome(t)
				if !so.Peer.Ours || !co.Peer.Ours {
					t.Error("they did not recognise each other")
				}
				// Of one direction, only the end where the payload arrives can check it.
				both := slices.Contains(v, "-b") || k.metric == "lat" && k.verb != "read"
				if wantS := both || k.verb != "read"; so.Verified != wantS {
					t.Errorf("server: payload checked %v, want %v", so.Verified, wantS)
				}
				if wantC := both || k.verb == "read"; co.Verified != wantC {
					t.Errorf("client: payload checked %v, want %v", co.Verified, wantC)
				}
				sizes := 1
				if slices.Contains(v, "-a") {
					sizes = map[string]int{"64K": 16, "16K": 14}[v[2]]
				}
				if slices.Contains(v, "--rounds") {
					sizes = 3
				}
				if len(co.Results) != sizes {
					t.Errorf("%d results, want %d", len(co.Results), sizes)
				}
				for _, r := range co.Results {
					if k.metric == "bw" && !(r.Bits > 0) || k.metric == "lat" && !(r.P50 > 0) || r.Count == 0 {
						t.Errorf("figures %+v", r)
					}
					if slices.Contains(v, "-b") && (r.Sent == nil || !(r.Sent.Bits > 0) || r.Sent.Bits >= r.Bits) {
						t.Errorf("both directions: %+v", r)
					}
				}
			})
		}
	}
}

// TestRXE_Transports runs what InteropOurs leaves out: it has no payload that can be checked.
// SoftRoCE loses messages of several packets where both ends run out of receives, between stock programs too.
func TestRXE_Transports(t *testing.T) {
	vm := testutil.NeedRXE(t)
	for n, line := range []string{
		"atomic bw -A CMP_AND_SWAP -b -q 2 -n 40", "atomic lat -n 40", "atomic bw -D 1", "write lat -c UC -n 40",
		"write bw -c UC -D 1", "send bw -c UD -b -q 2 -n 40", "send bw -c UD -D 1", "send lat -c UD -n 40",
		"send bw -c XRC -b -q 2 -n 40",
		"send bw --use-srq -q 3 -r 10 -b -s 512 -n 90", "send lat -c XRC --verify -n 40",
	} {
		if !here(vm, n) {
			continue
		}
		t.Run(line, func(t *testing.T) {
			args := append([]string{"rdmaperf", "--json"}, strings.Fields(line)...)
			if strings.Contains(line, "XRC") && !vm.Emulated && !vm.Hardware {
				p := start(t, "rdmaperf", append(args[1:], "-d", vm.Dev[0], "-p", freshPort())...)
				if rc := p.wait(t); rc != 1 || !strings.Contains(p.output(), "use RC QPs") {
					t.Errorf("exit code %d\n%s", rc, p.output())
				}
				return // SoftRoCE has none
			}
			_, cli := runPair(t, vm, args, args)
			if r := cli.outcome(t).Results; len(r) != 1 || !(r[0].Bits > 0 || r[0].P50 > 0) {
				t.Errorf("results %+v", r)
			}
		})
	}
}

// TestRXE_Lost: a receiver of datagrams counts those that were lost, and does not wait for them.
func TestRXE_Lost(t *testing.T) {
	vm := testutil.NeedRXE(t)
	args := []string{"rdmaperf", "--json", "send", "bw", "-c", "UD", "-r", "8", "-n", "3000"}
	srv, cli := runPair(t, vm, args, args)
	if r := srv.outcome(t).Results; len(r) != 1 || r[0].Count+r[0].Lost != 3000 {
		t.Errorf("server: %+v, want 3000 in all", r)
	} else {
		t.Logf("%d of 3000 were lost", r[0].Lost)
	}
	lost := srv.outcome(t).Results[0].Lost
	if r := cli.outcome(t).Results; len(r) != 1 || r[0].Count != 3000 || r[0].Lost != 0 || r[0].There != lost {
		t.Errorf("client: %+v, want %d lost at the peer", r, lost)
	}
}

// TestRXE_PeerDies kills one end in the middle of a run. The other one has to
// say so within its time, and to leave.
func TestRXE_PeerDies(t *testing.T) {
	vm := testutil.NeedLogic(t)
	n := 0
	for _, k := range kinds {
		if k.verb == "read" || k.verb == "send" && k.metric == "lat" {
			continue // as the others
		}
		for _, dies := range []string{"client", "server"} {
			if n++; !here(vm, n) {
				continue
			}
			t.Run(k.verb+" "+k.metric+"/"+dies, func(t *testing.T) {
				port := freshPort()
				args := []string{k.verb, k.metric, "-D", "100", "--timeout", "10", "-p", port}
				if k.metric == "bw" {
					args = append(args, "-s", "4K")
				}
				srv := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[0])...)
				listening(t, srv, port)
				cli := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[1], vm.Host[0])...)
				begun(t, cli)
				begun(t, srv)
				time.Sleep(500 * time.Millisecond) // some messages
				victim, survivor := cli, srv
				if dies == "server" {
					victim, survivor = srv, cli
				}
				select {
				case <-survivor.done:
					t.Fatalf("it ended before its peer died\n%s", survivor.output())
				default:
				}
				victim.Process.Kill()
				<-victim.done
				if rc := survivor.wait(t); rc != 1 {
					t.Errorf("exit code %d, want 1\n%s", rc, survivor.output())
				}
				diag := survivor.diag.String()
				if !strings.Contains(diag, "closed the connection") && !strings.Contains(diag, "retry") {
					t.Errorf("the reason is not in %q", diag)
				}
				if strings.Contains(diag, "panic") || strings.Contains(diag, "live") {
					t.Errorf("something was left open, or worse: %q", diag)
				}
			})
		}
	}
}

// TestRXE_ByTimeFails: a run by time whose device dies, or loses completions, is a failure and shows no figure.
func TestRXE_ByTimeFails(t *testing.T) {
	if !testutil.NeedRXE(t).Emulated {
		t.Skip("faults: runs on the emulated device only (make test-emu)")
	}
	vm := needOnce(t)
	for _, tc := range []struct{ fault, verb, metric, want string }{
		{"cqe-lost:device=%s,after=1,count=0", "write", "bw", "no completion"},
		{"cqe-lost:device=%s,after=1,count=0", "send", "lat", "no completion"},
		{"remote-access:device=%s,after=300", "write", "bw", "RemAccessErr"},
	} {
		t.Run(tc.fault[:strings.Index(tc.fault, ":")]+" "+tc.verb+" "+tc.metric, func(t *testing.T) {
			failsByTime(t, vm, fmt.Sprintf(tc.fault, vm.Dev[1]), tc.verb, tc.metric, tc.want)
		})
	}
}

// failsByTime is a run by time with a fault on the client's device: the client says what is wrong and shows no figure.
func failsByTime(t *testing.T, vm testutil.RXE, fault, verb, metric, want string) {
	t.Helper()
	port := freshPort()
	args := []string{verb, metric, "-D", "1", "--timeout", "2", "-p", port}
	srv := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[0])...)
	listening(t, srv, port)
	vm.Fault(t, fault)
	cli := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[1], "--json", vm.Host[0])...)
	if rc := cli.wait(t); rc != 1 || !strings.Contains(cli.diag.String(), want) {
		t.Fatalf("client: exit code %d, want 1 and %q\n%s", rc, want, cli.output())
	}
	o := cli.outcome(t)
	if len(o.Results) != 0 || o.Error == "" {
		t.Errorf("client shows %+v, error %q", o.Results, o.Error)
	}
	if rc := srv.wait(t); rc != 1 {
		t.Errorf("server: exit code %d, want 1\n%s", rc, srv.output())
	}
	if want != "RemAccessErr" || os.Getenv("PUREVERBS_DATAPATH") == "ops" {
		return
	}
	// What was posted around it: in the text, and in the object.
	failed := slices.IndexFunc(o.Posted, func(l string) bool {
		return strings.HasPrefix(l, "send ") && strings.Contains(l, "FAILED with RemAccessErr") &&
			strings.Contains(l, ": Write ") && strings.Contains(l, "65536 bytes, remote 0x")
	})
	if failed < 0 || len(o.Posted) < 3 || !strings.Contains(cli.diag.String(), "rdmaperf:   "+o.Posted[failed]) {
		t.Errorf("around the failure stands %q\n%s", o.Posted, cli.diag.String())
	}
}

// TestRXE_Limits: a limit that is missed is a failure of its own; the figures are there nevertheless.
func TestRXE_Limits(t *testing.T) {
	vm := testutil.NeedRXE(t)
	port, file := freshPort(), filepath.Join(t.TempDir(), "out.json")
	args := []string{"write", "bw", "-n", "50", "-s", "1K", "-p", port}
	srv := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[0], "--min-bw", "1e-6")...)
	listening(t, srv, port)
	cli := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[1], "--min-bw", "1e9", "--csv", "--json-file",
		file, vm.Host[0])...)
	if rc := cli.wait(t); rc != exitLimit || !strings.Contains(cli.diag.String(), "1024 bytes: bandwidth is") {
		t.Errorf("client: exit code %d, want %d\n%s", rc, exitLimit, cli.output())
	}
	if lines := strings.Split(cli.out.String(), "\n"); len(lines) != 3 || !strings.HasPrefix(lines[1], "1024,50,") {
		t.Errorf("the lines are %q", lines)
	}
	if rc := srv.wait(t); rc != exitOK {
		t.Errorf("server: exit code %d, want 0\n%s", rc, srv.output())
	}
	if rc := run(t.Context(), []string{"compare", "--tolerance=3%", file, file}, io.Discard, io.Discard); rc != exitOK {
		t.Errorf("compare: exit code %d", rc)
	}
}

// TestRXE_LinkDown: what fails because this end's link went down says so.
func TestRXE_LinkDown(t *testing.T) {
	vm := needOnce(t)
	port := freshPort()
	args := []string{"write", "bw", "-D", "100", "-s", "4K", "--timeout", "10", "-u", "10", "-p", port}
	srv := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[0])...)
	listening(t, srv, port)
	cli := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[1], vm.Host[0])...)
	begun(t, cli)
	vm.SetLink(t, 1, false)
	want := vm.Dev[1] + " port 1 of this end is Down"
	if rc := cli.wait(t); rc != 1 || !strings.Contains(cli.diag.String(), want) {
		t.Errorf("client: exit code %d, want 1 and %q\n%s", rc, want, cli.output())
	}
}

// TestRXE_StoppedPeer: --timeout bounds the last meeting, too.
func TestRXE_StoppedPeer(t *testing.T) {
	vm := needOnce(t)
	port := freshPort()
	args := []string{"write", "bw", "-D", "1", "-f", "0", "-s", "4K", "-p", port}
	srv := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[0])...)
	listening(t, srv, port)
	cli := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[1], "--timeout", "2", vm.Host[0])...)
	begun(t, cli)
	begun(t, srv)
	pause(t, srv)
	if rc := cli.wait(t); rc != 1 || !strings.Contains(cli.diag.String(), "and was not stopped") {
		t.Errorf("exit code %d, want 1 and the stopped peer\n%s", rc, cli.output())
	}
}

// TestRXE_ServerChecks: a server says what its device refuses before a client comes, and a client before it connects.
func TestRXE_ServerChecks(t *testing.T) {
	vm := needOnce(t)
	for _, a := range [][]string{{"-I", "60000"}, {"-q", "16384", "-t", "15000"}, {"-x", "200"},
		{"-x", "4000"}, {"--pkey-index", "60000"}} {
		srv := start(t, "rdmaperf", append([]string{"write", "bw", "-d", vm.Dev[0], "-p", freshPort()}, a...)...)
		if rc := srv.wait(t); rc != 1 || strings.Contains(srv.diag.String(), "waiting") {
			t.Errorf("%v: exit code %d\n%s", a, rc, srv.output())
		}
	}
	for _, a := range [][]string{{"-I", "99999"}, {"-I", "99999", "-R"}, {"-I", "99999", "-z"}, {"-x", "200"},
		{"-x", "200", "-R"}} {
		cli := start(t, "rdmaperf", append([]string{"write", "bw", "-d", vm.Dev[0], "-p", freshPort(), "--retry", "0",
			vm.IP[0]}, a...)...)
		if rc := cli.wait(t); rc != 1 || !strings.Contains(cli.diag.String(), a[1]) ||
			strings.Contains(cli.diag.String(), "connect") {
			t.Errorf("%v: exit code %d\n%s", a, rc, cli.output())
		}
	}
}

// TestRXE_Interrupt: both ends leave in order when one gets a signal.
func TestRXE_Interrupt(t *testing.T) {
	vm := needOnce(t)
	port := freshPort()
	args := []string{"send", "bw", "-D", "100", "--timeout", "10", "-p", port}
	srv := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[0])...)
	listening(t, srv, port)
	cli := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[1], vm.Host[0])...)
	begun(t, cli)
	cli.Process.Signal(syscall.SIGINT)
	if rc := cli.wait(t); rc != 1 || !strings.Contains(cli.diag.String(), "interrupted") {
		t.Errorf("exit code %d\n%s", rc, cli.output())
	}
	if rc := srv.wait(t); rc != 1 {
		t.Errorf("server: exit code %d\n%s", rc, srv.output())
	}
	// A server without a client, too.
	port = freshPort()
	srv = start(t, "rdmaperf", "write", "bw", "-d", vm.Dev[0], "-p", port)
	listening(t, srv, port)
	srv.Process.Signal(syscall.SIGTERM)
	if rc := srv.wait(t); rc != 1 || !strings.Contains(srv.diag.String(), "interrupted") {
		t.Errorf("waiting server: exit code %d\n%s", rc, srv.output())
	}
}

// TestRXE_InterruptPartial: a run that a signal ends tells what it did until then, and that this is not all.
func TestRXE_InterruptPartial(t *testing.T) {
	vm := needOnce(t)
	for n, args := range [][]string{
		{"write", "bw", "-D", "1000"},
		{"send", "bw", "-D", "1000", "-f", "0", "--threads", "2", "-q", "2"},
		{"read", "lat", "-D", "1000"},
		{"send", "lat", "-n", "4000000", "-s", "8"},
	} {
		if !here(vm, n+1) {
			continue
		}
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			for wait := 100 * time.Millisecond; ; wait *= 2 { // until something has moved
				port, file := freshPort(), filepath.Join(t.TempDir(), "out.json")
				args := append(slices.Clone(args), "--timeout", "10", "-p", port)
				srv := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[0])...)
				listening(t, srv, port)
				cli := start(t, "rdmaperf", append(args, "-d", vm.Dev[1], "--json-file", file, vm.Host[0])...)
				begun(t, cli)
				time.Sleep(wait)
				cli.Process.Signal(syscall.SIGINT)
				if rc := cli.wait(t); rc != 1 || !strings.Contains(cli.diag.String(), "interrupted") {
					t.Errorf("exit code %d\n%s", rc, cli.output())
				}
				srv.wait(t)
				var d struct {
					Error   string
					Results []struct{}
					Partial *struct {
						Messages  uint64
						Rate, P50 float64
					} `json:"partial_result"`
				}
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				for key, as := range map[string]string{"messages_per_second": "rate", "latency_p50_ns": "p50"} {
					text = bytes.ReplaceAll(text, []byte(key), []byte(as))
				}
				if err := json.Unmarshal(text, &d); err != nil {
					t.Fatalf("%v in %s", err, text)
				}
				if len(d.Results) > 0 || !strings.Contains(d.Error, "interrupt") {
					t.Errorf("%d results, error %q", len(d.Results), d.Error)
				}
				if said := strings.Contains(cli.out.String(), "partial: "); said != (d.Partial != nil) {
					t.Errorf("the object has a partial result: %v\n%s", d.Partial != nil, cli.output())
				}
				if p := d.Partial; p != nil {
					if p.Messages == 0 || p.Rate <= 0 && p.P50 <= 0 ||
						!strings.Contains(cli.out.String(), fmt.Sprintf(" %d ", p.Messages)) {
						t.Errorf("%+v\n%s", *p, cli.output())
					}
					return
				}
				if wait > testutil.Patience {
					t.Fatalf("nothing moved in %v\n%s", wait, cli.output())
				}
			}
		})
	}
}

// TestRXE_InterruptedSweep: the JSON object of a run that a signal ends has the sizes before.
func TestRXE_InterruptedSweep(t *testing.T) {
	vm := needOnce(t)
	port, file := freshPort(), filepath.Join(t.TempDir(), "out.json")
	args := []string{"write", "bw", "-a", "-n", "5000", "--timeout", "10", "-p", port}
	srv := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[0])...)
	listening(t, srv, port)
	cli := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[1], "--json-file", file, vm.Host[0])...)
	testutil.Eventually(t, "a size is done", func() bool {
		return strings.Contains(cli.out.String(), "\n         2 ") || over(t, cli)
	})
	cli.Process.Signal(syscall.SIGINT)
	if rc := cli.wait(t); rc != 1 {
		t.Errorf("exit code %d\n%s", rc, cli.output())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Error   string
		Results []struct {
			Bytes uint64
			Rate  float64 `json:"messages_per_second"`
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	n := len(d.Results)
	if n < 1 || n > 22 || d.Results[0].Bytes != 2 || d.Results[0].Rate <= 0 || !strings.Contains(d.Error, "interrupt") {
		t.Errorf("%d sizes, error %q\n%s", n, d.Error, text)
	}
	// The table has the same sizes.
	if lines := strings.Count(cli.out.String(), " 5000 "); lines != n {
		t.Errorf("the table has %d sizes, the object %d\n%s", lines, n, cli.output())
	}
	// And a report shows them.
	page := start(t, "rdmaperf", "report", "-o", "-", file)
	if rc := page.wait(t); rc != 0 || strings.Count(page.out.String(), `class="mark"`) != 2*n ||
		!strings.Contains(page.out.String(), "the run failed:") {
		t.Errorf("report: exit code %d\n%s", rc, page.diag.String())
	}
}

// TestRXE_Endless: an endless run shows figures, and ends well by a signal. The server of write goes with it.
func TestRXE_Endless(t *testing.T) {
	vm := needOnce(t)
	port := freshPort()
	args := []string{"write", "bw", "--run-infinitely", "--report-interval", "0.1", "-s", "4096", "-p", port}
	srv := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[0])...)
	listening(t, srv, port)
	cli := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[1], "--counters", vm.Host[0])...)
	for deadline := time.Now().Add(testutil.Patience); strings.Count(cli.out.String(), " in 0.") < 3; {
		select {
		case <-cli.done:
			t.Fatalf("it ended by itself\n%s", cli.output())
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("no figures after %v\n%s", testutil.Patience, cli.output())
		}
	}
	cli.Process.Signal(syscall.SIGINT)
	if rc := cli.wait(t); rc != 0 || !strings.Contains(cli.out.String(), "counters that rose") {
		t.Errorf("exit code %d\n%s", rc, cli.output())
	}
	if rc := srv.wait(t); rc != 0 {
		t.Errorf("server: exit code %d\n%s", rc, srv.output())
	}
}

// TestRXE_EndlessStock: a signal to the client ends an endless run well also at a server of perftest, which gets an end
// of the exchange: the meeting, the report and the last meeting. 6.29 fails without them.
func TestRXE_EndlessStock(t *testing.T) {
	vm := needOnce(t)
	if !vm.Emulated || testutil.Libraries() != "" {
		t.Skip("as everywhere: runs on the emulated device only, with this machine's libraries")
	}
	type row struct {
		verb string
		stock
	}
	rows := []row{{"write", stock{debian: newer}}, {"read", stock{}}}
	if r := built(t); r != nil {
		rows = append(rows, row{"write", *r}, row{"read", *r})
	}
	for _, tc := range rows {
		t.Run(tc.verb+" "+tc.debian+tc.version, func(t *testing.T) {
			front, back := freshPort(), freshPort()
			lens := transcript(t, front, back)
			args := []string{"--run_infinitely", "-s", "4096", "-D", "1", "-p"}
			server := append(tc.command(t, tc.verb, "bw"), append(args, back, "-d", vm.Dev[0])...)
			srv := start(t, server[0], server[1:]...)
			listening(t, srv, back)
			client := append([]string{tc.verb, "bw"}, args...)
			cli := start(t, "rdmaperf", append(client, front, "-d", vm.Dev[1], "127.0.0.1")...)
			testutil.Eventually(t, "figures", func() bool {
				return strings.Contains(cli.out.String(), " in 1.") || over(t, cli)
			})
			cli.Process.Signal(syscall.SIGINT)
			if rc := cli.wait(t); rc != 0 {
				t.Errorf("exit code %d\n%s", rc, cli.output())
			}
			if rc := srv.wait(t); rc != 0 {
				t.Errorf("server: exit code %d\n%s", rc, srv.output())
			}
			const want = "c108 s108 c8 s8 c8 s8 c8 s8 c8 s8 c8 s8 c108 s108"
			got := strings.ReplaceAll(lens(), "s113", "s108 s5") // read in one piece
			if !strings.Contains(got, want) {
				t.Errorf("the exchange is %s, want at its end %s", got, want)
			}
		})
	}
}

// TestRXE_TwoClients: the second client is turned away, the first is served.
func TestRXE_TwoClients(t *testing.T) {
	vm := needOnce(t)
	port := freshPort()
	args := []string{"write", "bw", "-D", "4", "-s", "4K", "-p", port}
	srv := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[0])...)
	listening(t, srv, port)
	first := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[1], vm.Host[0])...)
	begun(t, first)
	pause(t, first)
	second := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[1], vm.Host[0])...)
	if rc := second.wait(t); rc != 1 || !strings.Contains(second.diag.String(), "busy with another client") {
		t.Errorf("second client: exit code %d\n%s", rc, second.output())
	}
	stock := start(t, "ib_write_bw", "-d", vm.Dev[1], "-F", "-p", port, vm.Host[0])
	if rc := stock.wait(t); rc == 0 {
		t.Errorf("a stock client was served\n%s", stock.output())
	}
	first.Process.Signal(syscall.SIGCONT)
	if rc := first.wait(t); rc != 0 {
		t.Errorf("first client: exit code %d\n%s", rc, first.output())
	}
	if rc := srv.wait(t); rc != 0 {
		t.Errorf("server: exit code %d\n%s", rc, srv.output())
	}
}

// TestRXE_Strangers: what is no client does not end a server, which then serves its client. It says once what came.
func TestRXE_Strangers(t *testing.T) {
	vm := needOnce(t)
	port := freshPort()
	srv := start(t, "rdmaperf", "write", "bw", "-d", vm.Dev[0], "-p", port, "--timeout", "10")
	listening(t, srv, port)
	for _, say := range []string{"", "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "6.06\x00"} {
		c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close() // those that wait for a reply are still there
		io.WriteString(c, say)
	}
	says(t, srv, "does not speak perftest's protocol")
	cli := start(t, "ib_write_bw", "-F", "-n", "50", "-d", vm.Dev[1], "-p", port, vm.Host[0])
	if rc := cli.wait(t); rc != 0 {
		t.Errorf("client: exit code %d\n%s", rc, cli.output())
	}
	if rc := srv.wait(t); rc != 0 || strings.Count(srv.diag.String(), "is no client") != 1 {
		t.Errorf("exit code %d\n%s", rc, srv.output())
	}
}

// TestRXE_Mismatch: ends that were started differently say in what.
func TestRXE_Mismatch(t *testing.T) {
	vm := needOnce(t)
	for _, tc := range []struct {
		name           string
		server, client []string
		want           string
	}{
		{"size", []string{"send", "bw", "-s", "4K"}, []string{"send", "bw", "-s", "8K"}, "size (-s) is"},
		{"test", []string{"write", "bw"}, []string{"read", "lat"}, "read lat"},
		{"gid", []string{"write", "bw", "-x", "0"}, []string{"write", "bw", "-x", strconv.Itoa(vm.GID)}, "one is IPv4"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			port := freshPort()
			srv := start(t, "rdmaperf", append(slices.Clone(tc.server), "-d", vm.Dev[0], "-p", port)...)
			listening(t, srv, port)
			cli := start(t, "rdmaperf", append(slices.Clone(tc.client), "-d", vm.Dev[1], "-p", port, vm.Host[0])...)
			for _, p := range []*proc{cli, srv} {
				if rc := p.wait(t); rc != 1 || !strings.Contains(p.diag.String(), tc.want) {
					t.Errorf("%v: exit code %d, want 1 and %q\n%s", p.Args, rc, tc.want, p.output())
				}
			}
		})
	}
	t.Run("the client decides", func(t *testing.T) { // where the server only waits, as in perftest
		port := freshPort()
		srv := start(t, "rdmaperf", "read", "bw", "-d", vm.Dev[0], "-p", port)
		listening(t, srv, port)
		cli := start(t, "rdmaperf", "read", "bw", "-d", vm.Dev[1], "-p", port, "-n", "20", "-s", "4K", vm.Host[0])
		for _, p := range []*proc{cli, srv} {
			if rc := p.wait(t); rc != 0 || !strings.Contains(p.out.String(), "      4096           20 ") {
				t.Errorf("%v: exit code %d\n%s", p.Args, rc, p.output())
			}
		}
	})
	t.Run("device limits", func(t *testing.T) {
		testutil.NeedControl(t)
		for _, tc := range []struct {
			args []string
			want string
		}{
			{[]string{"write", "bw", "-d", "nothere"}, "nothere"},
			{[]string{"write", "bw", "-d", vm.Dev[0], "-i", "9"}, "port"},
			{[]string{"write", "bw", "-d", vm.Dev[0], "-o", "1"}, "only for read"},
			{[]string{"send", "lat", "-d", vm.Dev[0], "-c", "SRD"}, "libefa"},
			{[]string{"read", "bw", "-d", vm.Dev[0], "-o", "200"},
				map[bool]string{true: "200 > 16", false: "200 > 128"}[vm.Emulated]},
		} {
			p := start(t, "rdmaperf", append(tc.args, "-p", freshPort())...)
			if rc := p.wait(t); rc == 0 || !strings.Contains(p.diag.String(), tc.want) {
				t.Errorf("%v: exit code %d, want a complaint about %q\n%s", tc.args, rc, tc.want, p.output())
			}
		}
		if vm.Emulated || vm.Hardware {
			return
		}
		p := start(t, "rdmaperf", "send", "lat", "-d", vm.Dev[0], "-c", "DC", "-p", freshPort())
		if rc := p.wait(t); rc != 1 || !strings.Contains(p.diag.String(), "connection type (-c) DC") {
			t.Errorf("DC: exit code %d, want a refusal\n%s", rc, p.output())
		}
	})
}
