//go:build linux

package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// A script is how a public repository runs perftest and reads its results: the command lines and the expressions, as
// they are there. Durations and sizes are shorter here, GID index 0 is one that the device has, numactl and GPUs are
// left out. In the lines, PORT, DEV, GID, SERVER, SOURCE and FILE are replaced.
type script struct {
	from           string // repository and file
	program        string // of perftest
	release        string // of Debian, whose perftest has the options
	server, client string
	read           string // with OUT, the client's standard output, and FILE
	want           *regexp.Regexp
	unit           float64 // of what is read, in bits per second or nanoseconds
	runs           bool    // also in a short run, with rdmaperf as the client of perftest
}

// ngcBandwidth reads the object of --out_json. get_min_channels and others of the script need hosts.
const ngcBandwidth = `awk -F'[:,]' '/BW_average/{print $2}' FILE | cut -d. -f1 | xargs`

// azureBandwidth is the loop that takes the first line with the size.
const azureBandwidth = `IFS=$'\n'; lines=( $OUT ); IFS=$' \t\n'
for ((i=0; i<${#lines[*]}; i++)); do
	if [[ "${lines[$i]//SIZE}" != "${lines[$i]}" ]]; then LINE=( ${lines[$i]} ); echo ${LINE[3]}; break; fi
done`

// lnstBandwidth is RDMABandwidthBase.run: the one line that is not empty and no warning.
const lnstBandwidth = `lines=$(printf '%s\n' "$OUT" | grep -v 'WARNING:' | grep '[^[:space:]]')
[ "$(printf '%s\n' "$lines" | wc -l)" = 1 ] && echo $lines`

var (
	integer = regexp.MustCompile(`^[0-9]+$`)            // check_if_number of the script
	decimal = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`) // for bc, and Python's float
)

func scripts() (list []script) {
	ngc := func(program, extra string, bidirectional, runs bool) {
		both := " "
		if bidirectional {
			both = " -b "
		}
		s := script{from: "Mellanox/ngc_multinode_perf common.sh", program: program, release: newer, runs: runs,
			server: "taskset -c FIRST " + program + " -d DEV -s 65536 -D 1 -p PORT -F " + extra + " --report_gbit" +
				both + "-q 4 --output=bandwidth",
			client: "taskset -c LAST " + program + " -d DEV -D 1 SERVER -s 65536 -p PORT -F " + extra +
				" --report_gbit" + both + "-q 4  --out_json --out_json_file=FILE",
			read: ngcBandwidth, want: integer, unit: 1e9}
		if strings.HasSuffix(program, "_lat") {
			s.server = "taskset -c FIRST " + program + " -d DEV -s 32 -D 1 -p PORT -F " + extra + " --output=latency"
			s.client = "taskset -c LAST " + program + " -d DEV -D 1 SERVER -s 32 -p PORT -F " + extra +
				"  --out_json --out_json_file=FILE"
			s.read, s.want, s.unit = `jq '.results.t_avg' FILE`, decimal, 1e3 // the script reads nothing of latencies
		}
		list = append(list, s)
	}
	ngc("ib_write_bw", "", true, true)
	ngc("ib_read_bw", "", true, false)
	ngc("ib_send_bw", "-c XRC", false, false)
	ngc("ib_write_bw", "-c UC", false, false)
	ngc("ib_write_lat", "", false, false)
	ngc("ib_read_lat", "", false, false)
	ngc("ib_send_lat", "-c DC", false, false)

	azure := func(file, size, args string, runs bool) {
		list = append(list, script{from: "Azure/azurehpc-health-checks " + file, program: "ib_write_bw", runs: runs,
			server: "ib_write_bw " + args, client: "ib_write_bw " + args + " SERVER",
			read: strings.ReplaceAll(azureBandwidth, "SIZE", size), want: decimal, unit: 1e9})
	}
	azure("azure_ib_write_bw_gdr.nhc", "8388608",
		"-p PORT -s 8388608 -x GID -F --report_gbits  --perform_warm_up -n 20 -d DEV",
		false)
	azure("azure_ib_write_bw_non_gdr.nhc", "1048576",
		"-s 1048576 -D 1 -x GID -F --report_gbits --perform_warm_up -d DEV -q 2 -p PORT", true)
	azure("azure_ib_write_bw.nhc", "1048576", "-s 1048576 -D 1 -x GID -F --report_gbits -d DEV -p PORT", false)

	list = append(list, script{from: "LNST-project/lnst RDMABandwidth.py", program: "ib_send_bw", runs: true,
		server: "ib_send_bw --output bandwidth --rdma_cm --ib-dev DEV --size 65536 --duration 1 --port PORT",
		client: "ib_send_bw SERVER --source_ip SOURCE --output bandwidth --rdma_cm --ib-dev DEV --size 65536 " +
			"--duration 1 --port PORT --perform_warm_up", read: lnstBandwidth, want: decimal, unit: 8 << 20})
	return list
}

// command returns a command line of a script, with perftest's program or ours, which is a link of that name.
func (s *script) command(t *testing.T, line string, ours bool) []string {
	words := strings.Fields(line)
	at := slices.Index(words, s.program)
	program := []string{filepath.Join(t.TempDir(), s.program)}
	if verb, metric, _ := strings.Cut(strings.TrimPrefix(s.program, "ib_"), "_"); ours {
		if err := os.Symlink(testutil.NeedProgram(t, "rdmaperf"), program[0]); err != nil {
			t.Fatal(err)
		}
	} else {
		program = stockOf(t, s.release, verb, metric)
		program = program[:len(program)-1] // without -F: the script says it
	}
	return slices.Concat(words[:at], program, words[at+1:])
}

// TestNamed: under the name of one of perftest's programs rdmaperf is that test, and its help has the connection types
// where ngc_multinode_perf looks for them. The awk program is that of get_perftest_connect_options in its
// ngc_rdma_test.sh.
func TestNamed(t *testing.T) {
	awk, err := exec.LookPath("awk")
	if err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]struct{ types, usage string }{
		"ib_write_bw":     {"RC XRC UC DC ", "rdmaperf write"},
		"ib_write_lat":    {"RC XRC UC DC ", "rdmaperf write"},
		"ib_send_bw":      {"RC XRC UC UD DC ", "rdmaperf send"},
		"ib_send_lat":     {"RC XRC UC UD DC ", "rdmaperf send"},
		"ib_read_bw":      {"RC XRC DC ", "rdmaperf read"},
		"ib_atomic_lat":   {"RC XRC DC", "rdmaperf atomic"},
		"raw_ethernet_bw": {"", "rdmaperf send"},
		"rdmaperf":        {"", "rdmaperf measures"},
		"ib_write_bws":    {"", "rdmaperf measures"},
	} {
		var out, diag strings.Builder
		if rc := runAs(t.Context(), "/opt/"+program, []string{"--help"}, &out, &diag); rc != exitOK ||
			!strings.Contains(out.String(), want.usage) {
			t.Errorf("%s --help: exit code %d, want %q\n%s%s", program, rc, want.usage, &out, &diag)
		}
		c := exec.Command(awk, "-F[<>]", `/--connection=/{gsub(/\//," ");gsub(/SRD/,"");print $2}`)
		c.Stdin = strings.NewReader(out.String())
		types, err := c.Output()
		if got := strings.TrimSuffix(string(types), "\n"); err != nil || got != want.types {
			t.Errorf("%s has the connection types %q, %v, want %q", program, got, err, want.types)
		}
	}
	o, err := parse(append(perftestWords("raw_ethernet_lat"), "-B", "02:00:00:00:00:01", "-E", "02:00:00:00:00:02",
		"--client"))
	if err != nil || o.plan.Transport != wire.RawEth || o.plan.Metric != wire.Latency {
		t.Errorf("raw_ethernet_lat is %+v, %v", o, err)
	}
}

// TestRXE_Scripts: what public scripts read of perftest's output they read of rdmaperf's, at the same place: with
// perftest at both ends, with rdmaperf at both, and with rdmaperf as a client of perftest. What they read of rdmaperf
// is the figure of rdmaperf's own JSON object.
func TestRXE_Scripts(t *testing.T) {
	vm := needDirect(t) // the VM has no bash, other releases no jq
	for _, s := range scripts() {
		if !s.runs && !testutil.Full() {
			continue
		}
		t.Run(s.from+" "+s.program, func(t *testing.T) {
			var table strings.Builder
			for _, ends := range []struct{ server, client string }{
				{"perftest", "rdmaperf"}, {"perftest", "perftest"}, {"rdmaperf", "rdmaperf"}, {"rdmaperf", "perftest"},
			} {
				if ends.server+ends.client != "perftestperf" && !testutil.Full() {
					continue
				}
				var r reading
				for try := range 3 { // a busy machine moves nothing in the time that is measured
					if r = s.run(t, vm, ends.server == "rdmaperf",
						ends.client == "rdmaperf"); s.want.MatchString(r.value) {
						break
					}
					t.Logf("%d: the script reads %q", try, r.value)
				}
				fmt.Fprintf(&table, "\n%-8s serves %-8s: %s", ends.server, ends.client, r.value)
				if !s.want.MatchString(r.value) {
					t.Errorf("%s serves %s: the script reads %q, want %v; of\n%s", ends.server, ends.client, r.value,
						s.want, r.output)
				} else if ends.client == "rdmaperf" {
					s.compare(t, r)
				}
			}
			t.Log(table.String())
		})
	}
}

// reading is what a script reads, of what, and what rdmaperf's own object has.
type reading struct {
	value, output string
	own           float64
}

// compare compares what a script reads with what rdmaperf's object has.
func (s *script) compare(t *testing.T, r reading) {
	t.Helper()
	got, err := strconv.ParseFloat(r.value, 64)
	if err != nil {
		t.Fatal(err)
	}
	want, most := r.own/s.unit, 0.0051 // two decimals
	if s.want == integer {
		want, most = math.Floor(math.Round(want*100)/100), 0
	}
	if !(want >= 0) || math.Abs(got-want) > most+want/1e4 {
		t.Errorf("the script reads %v, rdmaperf's object has %v", got, want)
	}
}

// run runs a server and a client.
func (s *script) run(t *testing.T, vm testutil.RXE, serve, call bool) (r reading) {
	t.Helper()
	cpus := allowed(t)
	host, cm := vm.Host[0], strings.Contains(s.server, "--rdma_cm")
	if cm {
		host = vm.IP[0]
	}
	dir, port := t.TempDir(), freshPort()
	file := filepath.Join(dir, "perftest.json")
	named := file
	if !call && s.release != "" { // a root of its own, whose /tmp the program sees
		named = "/tmp/perftest-" + port + ".json"
		file = filepath.Join("../../../../.build/debian", s.release, named)
		t.Cleanup(func() { os.Remove(file) })
	}
	first, last := strconv.Itoa(cpus[0]), strconv.Itoa(cpus[len(cpus)-1])
	fill := func(line, dev string) string {
		return strings.NewReplacer("PORT", port, "DEV", dev, "GID", fmt.Sprint(vm.GID), "SERVER", host,
			"SOURCE", vm.IP[1], "FILE", named, "FIRST", first, "LAST", last).Replace(line)
	}
	server := s.command(t, fill(s.server, vm.Dev[0]), serve)
	srv := start(t, server[0], server[1:]...)
	if cm {
		listeningCM(t, srv, port)
	} else {
		listening(t, srv, port)
	}
	client, own := s.command(t, fill(s.client, vm.Dev[1]), call), filepath.Join(dir, "own.json")
	if call {
		client = append(client, "--json-file", own)
	}
	cli := start(t, client[0], client[1:]...)
	if rc := cli.wait(t); rc != 0 {
		t.Fatalf("%v: exit code %d\n%s\nserver:\n%s", client, rc, cli.output(), srv.output())
	}
	if rc := srv.wait(t); rc != 0 {
		t.Errorf("%v: exit code %d\n%s", server, rc, srv.output())
	}
	if call {
		r.own = ownFigure(t, own)
	}
	read := exec.Command("bash", "-c", strings.ReplaceAll(s.read, "FILE", file))
	read.Env = append(read.Environ(), "OUT="+cli.out.String())
	var diag bytes.Buffer
	read.Stderr = &diag
	out, err := read.Output()
	if err != nil {
		t.Errorf("%v, %s; of\n%s", err, &diag, cli.output())
	}
	r.value, r.output = strings.TrimSpace(string(out)), cli.output()
	return r
}

// ownFigure returns bandwidth or mean latency of a saved object.
func ownFigure(t *testing.T, name string) float64 {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var o struct {
		Results []struct {
			Bits *float64 `json:"bandwidth_bits_per_second"`
			Mean *float64 `json:"latency_mean_ns"`
		}
	}
	if err := json.Unmarshal(b, &o); err != nil || len(o.Results) != 1 {
		t.Fatalf("%v\n%s", err, b)
	}
	if r := o.Results[0]; r.Bits != nil {
		return *r.Bits
	} else if r.Mean != nil {
		return *r.Mean
	}
	return math.NaN() // not known; the script reads no number then
}

// allowed lists the processors that this process may use.
func allowed(t *testing.T) (cpus []int) {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for i := 0; len(cpus) < set.Count(); i++ {
		if set.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	return cpus
}
