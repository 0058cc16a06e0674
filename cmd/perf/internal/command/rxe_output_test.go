package command

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// outputRow is a command line that is run with perftest at both ends, with rdmaperf as the client, and with rdmaperf as
// the server.
type outputRow struct {
	verb, metric string
	args         string
	quick        bool // also in a short run
}

func (r outputRow) String() string { return "ib_" + r.verb + "_" + r.metric + " " + r.args }

// outputRows lists them: each program with one size, all sizes and a duration, by each way to meet, in one direction
// and in both; and options that change what is printed.
func outputRows() (rows []outputRow) {
	add := func(verb, metric, args string, quick ...bool) {
		rows = append(rows, outputRow{verb, metric, args, len(quick) > 0})
	}
	for _, verb := range []string{"write", "read", "send", "atomic"} {
		modes := []string{"-F", "-F -b"}
		for _, metric := range []string{"bw", "lat"} {
			for _, mode := range modes {
				add(verb, metric, "-n 50 "+mode)
				add(verb, metric, "-D 1 "+mode)
				if verb != "atomic" {
					add(verb, metric, "-a -n 5 "+mode)
				}
			}
			add(verb, metric, "-n 50 -F -R")
			add(verb, metric, "-D 1 -F -R")
			add(verb, metric, "-n 50")
			modes = modes[:1]
		}
		add(verb, "bw", "-n 50 -F -b -R")
	}
	add("write", "bw", "-n 50 -F -s 8192", true)
	add("send", "lat", "-D 1 -F -s 64", true)
	add("read", "lat", "-n 20 -F -U", true)
	add("send", "bw", "-n 50 -F -s 8192 --report_gbits -q 2", true)
	add("write", "lat", "-n 20 -F -U")
	add("send", "lat", "-n 20 -F -H")
	add("read", "lat", "-n 20 -F --output=latency")
	add("write", "lat", "-D 1 -F --output=latency")
	add("read", "bw", "-n 50 -F --output=bandwidth")
	add("write", "bw", "-n 50 -F --output=message_rate")
	add("write", "bw", "-n 48 -F -l 4")
	add("send", "bw", "-n 48 -F -b -l 4")
	add("send", "bw", "-D 1 -F --cpu_util -N")
	add("write", "bw", "-n 50 -F -c UC -s 16384 -Q 5 -t 16")
	add("write", "bw", "-n 50 -F -W counters/port_xmit_data,hw_counters/out_of_buffer")
	add("send", "lat", "-n 50 -F -c UD")
	add("send", "bw", "-n 50 -F -c UD -r 64 -s 512")
	add("send", "bw", "-n 50 -F -b --report-both")
	add("write", "bw", "-n 50 -F -c XRC -b -q 2")
	add("write", "lat", "-n 50 -F -c XRC")
	add("send", "lat", "-n 50 -F -c DC")
	add("read", "bw", "-n 50 -F -c DC")
	add("send", "bw", "-n 50 -F -e -s 1024")
	return rows
}

// A difference is what rdmaperf prints other than a release of perftest, with the reason. In a full run each is needed.
// The expressions are of all lines of an output, after shape.
type difference struct {
	releases string
	stock    string // what perftest has
	ours     string // is changed to this, in the way of Regexp.Expand
	extra    string // what rdmaperf alone has, up to a group that stays
	neither  string // what is left out of both
	rows     string // the command lines that have it; "": all
	reason   string
}

// differences are those of the comparison.
var differences = []difference{
	{releases: "6.06 6.24 6.29", stock: `(?m)^( ibv_wr\* API     : |"?ibv_wr_API"?: "?)ON`, ours: "${1}OFF",
		reason: "rdmaperf posts without the functions ibv_wr_*"},
	{releases: "6.24", stock: `(?m)(Using DDP      : )ON$`, ours: "${1}OFF",
		reason: "rdmaperf leaves the order of packets to the device"},
	{releases: "6.29", stock: `(?m)Using Enhanced Reorder      : (ON|OFF)$`, ours: "Using DDP      : OFF",
		reason: "6.29 has another name for it"},
	{releases: "6.29", neither: `(?m)^( GID index       : |"GID_index": )[0-9]+`, rows: "-R",
		reason: "-R: 6.29 prints the first GID with the address, of RoCE v1; rdmaperf the one that is used"},
	{releases: "6.29", stock: `(?m)^Disabling dynamic polling\n`, reason: "only 6.29 says how it polls"},
	{releases: "6.29", stock: `(?m)^ NUMA node       : [0-9]+\n`,
		reason: "only 6.29 prints the node without --numa_node"},
	{releases: "6.29", stock: `(?m)^"Use_MUSA_memory": "OFF",\n`, reason: "only 6.29 has MUSA"},
	{releases: "6.29", stock: `(?m)^ CQE Poll Batch  : \w+\n`,
		reason: "only 6.29 prints how many completions it polls"},
	{releases: "6.24 6.29", stock: `(?m)^ WARNING: BW peak won't be measured in this run\.`,
		ours: " WARNING: the peak is not measured in this run.", reason: "own words: there is no peak"},
	{releases: "6.06 6.24 6.29", stock: `(?m)^ Please run the same command with the IB/RoCE interface IP`,
		ours: " Give the client an address of this device", reason: "own words: what the client needs"},
	{releases: "6.06 6.24 6.29", stock: `(?m)^Post List requested - CQ moderation will be the size of the post list`,
		ours:   "A completion for each list of messages (-l), because -Q is not given",
		reason: "own words: how -l moderates"},
	{releases: "6.06 6.24 6.29", stock: `(?m)^Warning: Large message requested and CQ moderation enabled\n.*`,
		ours: "Warning: few completions (-Q) of large messages\nWarning: the figures may be off", rows: "-Q",
		reason: "own words: -Q with large messages"},
	{releases: "6.06 6.24 6.29", stock: `(?m)^("(?:bw_avg|msgRate_avg)": F6),\n$`, ours: "$1",
		reason: "perftest's object with --output has a comma too many, which no parser of JSON takes"},
	{releases: "6.06 6.24 6.29", stock: `(?m)^19, F\n`, rows: "(write|send)_lat .*-U",
		reason: "-U: rdmaperf leaves out the first message, at which perftest measures its clock"},
	{releases: "6.06 6.24 6.29", extra: `(?m)^18, F\n(-)`, rows: "-H",
		reason: "-H: perftest leaves out the two largest samples, rdmaperf the first message"},
	{releases: "6.06", stock: `(?m)^ PCIe relax order: (ON|OFF)$`, ours: "${0}\t\tLock-free      : OFF",
		reason: "6.06 does not print whether CQs are without locks"},
	{releases: "6.06", stock: `(?m)^ ibv_wr\* API     : (ON|OFF)$`, ours: "${0}\t\tUsing DDP      : OFF",
		reason: "6.06 does not print the order of packets"},
	{releases: "6.06", neither: `(?m)"|,$`, reason: "6.06's object is no JSON: it has few quotes, and commas too many"},
	{releases: "6.06", stock: `(?m)^TX_depth :`, ours: "TX_depth:", reason: "6.06's object has a blank too many"},
	{releases: "6.06", extra: `(?m)^Use_ROCm_memory: OFF\n()`, reason: "6.06's object has no ROCm"},
	{releases: "6.06", extra: `(?m)^ WARNING: the peak is not measured in this run\.\n()`,
		reason: "6.06 does not say that there is no peak"},
	{releases: "6.06", stock: `\[MB/sec\]`, ours: "[MiB/sec]", reason: "6.06 has another name for the unit"},
	{releases: "6.06", stock: `(F2\t\t   )F6`, ours: "${1}  F6",
		reason: "6.06 has two blanks less before the message rate"},
}

// stock is a perftest to compare with: this system's, unless it is of another root or folder.
type stock struct {
	version string // as it calls itself
	debian  string // the root of a release of Debian
	folder  string // or a folder of its programs
}

// PerftestEnv names the environment variable with a folder of perftest's programs that somebody built.
const PerftestEnv = "PERFTEST"

// built returns the perftest of PerftestEnv, nil without it.
func built(t *testing.T) *stock {
	folder := os.Getenv(PerftestEnv)
	if folder == "" {
		return nil
	}
	out, err := exec.Command(filepath.Join(folder, "ib_write_bw"), "--version").CombinedOutput()
	version := regexp.MustCompile(`[0-9]+\.[0-9]+`).FindString(string(out))
	if version == "" {
		t.Fatalf("%s=%s: %v, %s", PerftestEnv, folder, err, out)
	}
	return &stock{version: version, folder: folder}
}

// command returns the command that starts a program.
func (s *stock) command(t *testing.T, verb, metric string) []string {
	if s.folder != "" {
		return []string{filepath.Join(s.folder, "ib_"+verb+"_"+metric)}
	}
	c := stockOf(t, s.debian, verb, metric)
	return c[:len(c)-1] // without -F
}

func stockReleases(t *testing.T) []stock {
	list := []stock{{version: "6.06"}, {version: "6.24", debian: newer}}
	if s := built(t); s != nil {
		list = append(list, *s)
	}
	return list
}

// TestRXE_Output: under perftest's names rdmaperf prints what perftest prints, line by line, and exits with its status.
// The figures differ, but not their number, their places and their digits.
func TestRXE_Output(t *testing.T) {
	vm := needDirect(t)
	used := map[string]int{}
	for k, rel := range stockReleases(t) {
		lines, rows := map[string]int{}, 0
		for n, row := range outputRows() {
			if !testutil.Full() && (!row.quick || n%2 != k) ||
				rel.debian != "" && strings.Contains(row.args, "-W") { // its root has no counters
				continue
			}
			t.Run(rel.version+"/"+row.String(), func(t *testing.T) {
				rows++
				c := outputCase{row: row, rel: rel, vm: vm, used: used}
				stock, ok := c.run(t, false, false, testutil.Patience/8)
				if !ok { // with -R its server may wait for a client that it has missed
					t.Log("perftest does not end against itself; once more")
					stock, ok = c.run(t, false, false, testutil.Patience)
				}
				if !ok {
					t.Fatalf("perftest does not end against itself after %v", testutil.Patience)
				}
				for _, role := range []string{"client", "server"} {
					ours, ok := c.run(t, role == "server", role == "client", testutil.Patience)
					if !ok {
						t.Fatalf("rdmaperf is the %s: no end after %v", role, testutil.Patience)
					}
					for i, end := range []string{"client", "server"} {
						lines[end] += c.compare(t, "rdmaperf is the "+role+": the "+end, stock[i], ours[i], end == role)
					}
				}
			})
		}
		t.Logf("perftest %s: %d command lines, %d lines of clients and %d of servers compared", rel.version, rows,
			lines["client"], lines["server"])
	}
	if !testutil.Full() || strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		return
	}
	for _, d := range differences {
		if used[d.reason] == 0 && (d.releases != "6.29" || built(t) != nil) {
			t.Errorf("no line has the difference %q", d.reason)
		}
	}
}

// outputCase is a row with a release of perftest.
type outputCase struct {
	row  outputRow
	rel  stock
	vm   testutil.RXE
	used map[string]int
}

// printed is what an end has printed.
type printed struct {
	status int
	out    string
	object string // of --out_json
	diag   string
}

// run returns what the client and the server printed. It reports whether both ended within a time.
func (c *outputCase) run(t *testing.T, serve, call bool, limit time.Duration) (ends [2]printed, ok bool) {
	t.Helper()
	port, host := freshPort(), c.vm.Host[0]
	devices, cm := [2]string{c.vm.Dev[1], c.vm.Dev[0]}, strings.Contains(c.row.args, "-R")
	if cm {
		host = c.vm.IP[0]
		if c.rel.folder == "" { // before 6.29 perftest goes by the route to the address, whatever -d has
			devices[0] = c.vm.Dev[0]
		}
	}
	program := "ib_" + c.row.verb + "_" + c.row.metric
	launch := func(i int, ours bool, more ...string) (*proc, string) {
		file := filepath.Join(t.TempDir(), "out.json")
		named, command := file, []string{filepath.Join(t.TempDir(), program)}
		if ours {
			if err := os.Symlink(testutil.NeedProgram(t, "rdmaperf"), command[0]); err != nil {
				t.Fatal(err)
			}
		} else {
			command = c.rel.command(t, c.row.verb, c.row.metric)
			if c.rel.debian != "" { // a root of its own, whose /tmp the program sees
				named = fmt.Sprintf("/tmp/perftest-%d-%s-%d.json", os.Getpid(), port, i)
				file = filepath.Join("../../../../.build/debian", c.rel.debian, named)
				t.Cleanup(func() { os.Remove(file) })
			}
		}
		args := append(command[1:], "-d", devices[i], "-p", port, "--out_json", "--out_json_file="+named)
		args = append(append(args, strings.Fields(c.row.args)...), more...)
		return start(t, command[0], args...), file
	}
	srv, srvFile := launch(1, serve)
	if cm {
		listeningCM(t, srv, port)
	} else {
		listening(t, srv, port)
	}
	cli, cliFile := launch(0, call, host)
	late := time.After(limit)
	for i, p := range []*proc{cli, srv} {
		select {
		case <-p.done:
		case <-late:
			cli.Process.Kill()
			srv.Process.Kill()
			return ends, false
		}
		ends[i] = printed{status: p.wait(t), out: p.out.String(), diag: p.diag.String()}
	}
	for i, file := range []string{cliFile, srvFile} {
		b, err := os.ReadFile(file)
		if err == nil {
			ends[i].object = string(b)
		}
	}
	return ends, true
}

// compare compares what two ends printed, and returns the number of lines. mixed: one of them is rdmaperf.
func (c *outputCase) compare(t *testing.T, who string, stock, ours printed, mixed bool) (n int) {
	t.Helper()
	if stock.status != ours.status {
		t.Errorf("%s: status %d, perftest %d\n%s%s", who, ours.status, stock.status, ours.out, ours.diag)
	}
	for _, part := range []struct{ name, stock, ours string }{
		{"standard output", stock.out, ours.out}, {"JSON object", stock.object, ours.object},
	} {
		a, b := c.shape(part.stock), c.shape(part.ours)
		if mixed {
			a, b = c.excuse(a, b)
		}
		n += strings.Count(b, "\n")
		if bad := infinite.FindString(part.ours); mixed && bad != "" { // perftest prints them without a clock
			t.Errorf("%s: rdmaperf printed %q", who, bad)
		}
		if d := cmp.Diff(strings.Split(a, "\n"), strings.Split(b, "\n")); d != "" {
			t.Errorf("%s: %s differs (-perftest +rdmaperf):\n%s\n%s\nperftest:\n%s", who, part.name, d, part.ours,
				part.stock)
		}
	}
	return n
}

// excuse applies the differences that are listed.
func (c *outputCase) excuse(a, b string) (stock, ours string) {
	apply := func(d difference, text, find, with string) string {
		re := regexp.MustCompile(find)
		if find == "" || !re.MatchString(text) {
			return text
		}
		c.used[d.reason]++
		return re.ReplaceAllString(text, with)
	}
	for _, d := range differences {
		if strings.Contains(d.releases, c.rel.version) && regexp.MustCompile(d.rows).MatchString(c.row.String()) {
			a, b = apply(d, a, d.stock, d.ours), apply(d, b, d.extra, "$1")
			a, b = apply(d, a, d.neither, ""), apply(d, b, d.neither, "")
		}
	}
	return a, b
}

var (
	ownNumbers = regexp.MustCompile(`(QPN|PSN|RKey|VAddr|SRQn) (0x[0-9a-f]+|0+)\b`)
	sample     = regexp.MustCompile(`^([0-9]+), ([0-9.e+-]+|-?nan|-?inf)$`)
	infinite   = regexp.MustCompile(`(?m)^.*\b(inf|nan)\b.*$`)
	figureLine = regexp.MustCompile(`^("?(?:BW_peak|BW_average|MsgRate|t_[a-z]+|tps_average|percentile_[0-9.]+|` +
		`CPU_util|bw_avg|msgRate_avg|avg_lat)"?: )(\S+?)(,?)$`)
	onlyFigure   = regexp.MustCompile(`^(-?[0-9]+\.[0-9]+|-?nan|-?inf)$`)
	sixDigits    = regexp.MustCompile(`MsgRate|bw_avg|msgRate|avg_lat`)
	counterLine  = regexp.MustCompile(`^(\t[^=]+=)[0-9]+$`)
	countByTime  = regexp.MustCompile(`^("?n_iterations"?: )([0-9]+)(,?)$`)
	figureColumn = regexp.MustCompile(`(\S+)(\s*)`)
)

// shape returns the lines of an output, with marks in the place of figures and of numbers that the host chooses. A mark
// has the digits behind the point, and the spaces behind it are those beyond the column.
func (c *outputCase) shape(text string) string {
	var columns []int // width of each; negative: not a figure; 0: as wide as it is
	var b strings.Builder
	timed := strings.Contains(c.row.args, "-D")
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, " #bytes     #iterations"):
			columns = []int{-7, -10, 7, 7, 7}
			if timed {
				columns[1] = 10
			}
			if strings.Contains(line, "CPU_Util") {
				columns = append(columns, 3)
			}
		case strings.HasPrefix(line, " #bytes #iterations"):
			columns = []int{-7, -1, 7, 7, 7, 7, 7, 7, 7}
		case strings.HasPrefix(line, " #bytes        #iterations"):
			columns = []int{-7, 0, 7, 7}
		case columns != nil && strings.HasPrefix(line, " ") && strings.Count(strings.TrimSpace(line), " ") > 1:
			line = figures(line, columns)
		}
		line = ownNumbers.ReplaceAllString(line, "$1 H")
		line = sample.ReplaceAllString(line, "$1, F")
		line = counterLine.ReplaceAllString(line, "${1}F")
		if m := figureLine.FindStringSubmatch(line); m != nil {
			usual := 2
			if sixDigits.MatchString(m[1]) {
				usual = 6
			}
			line = m[1] + digits(m[2], usual) + m[3]
		}
		if timed {
			line = countByTime.ReplaceAllString(line, "${1}F$3")
		}
		if onlyFigure.MatchString(line) {
			line = digits(line, 6)
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// figures replaces the figures of a line of the table.
func figures(line string, columns []int) string {
	cells := figureColumn.FindAllStringSubmatch(line, -1)
	if len(cells) != len(columns) {
		return line
	}
	b := strings.Builder{}
	b.WriteString(line[:len(line)-len(strings.TrimLeft(line, " \t"))])
	for i, c := range cells {
		width, mark := columns[i], c[1]
		switch {
		case width < 0:
		case i == 1:
			mark = "N"
		case i == 4 && len(cells) < 7:
			mark = digits(c[1], 6)
		default:
			mark = digits(c[1], 2)
		}
		pad := max(max(width, -width)-len(c[1]), 0)
		rest, ok := strings.CutPrefix(c[2], strings.Repeat(" ", pad))
		if !ok {
			return line
		}
		b.WriteString(mark + rest)
	}
	return b.String()
}

// digits is the mark of a figure: how many digits are behind its point. Where perftest divides by zero it is as many as
// there would be.
func digits(figure string, usual int) string {
	if strings.Contains(figure, "nan") || strings.Contains(figure, "inf") {
		return fmt.Sprintf("F%d", usual)
	}
	_, behind, _ := strings.Cut(figure, ".")
	return fmt.Sprintf("F%d", len(behind))
}

// listeningCM is listening for a port of rdma_cm.
func listeningCM(t *testing.T, p *proc, port string) {
	t.Helper()
	testutil.Eventually(t, p.Args[0]+" listens on rdma_cm port "+port, func() bool {
		out, err := exec.Command("emu", "control", "listeners").Output()
		return err == nil && strings.Contains(string(out), port) || over(t, p)
	})
}

// TestOutputShape: a perftest that could not measure its clock prints inf in the place of every time. Its lines have
// the shape of any other's.
func TestOutputShape(t *testing.T) {
	c := outputCase{row: outputRow{verb: "read", metric: "lat", args: "-n 20 -F -U"}}
	const head = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    " +
		"t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n"
	usual := c.shape("#, usec\n1, 342.654\n2, 1e+06\n" + head +
		" 2       20          12.04          342.65       14.05    	       " +
		"42.65       	76.09  		342.65  		342.65 \n")
	none := c.shape("#, usec\n1, inf\n2, -nan\n" + head +
		" 2       20          inf            inf          inf      	       " +
		"inf         	-nan   		inf     		inf    \n")
	if usual != none || !strings.Contains(usual, "1, F\n2, F\n") {
		t.Errorf("with a clock:\n%s\nwithout:\n%s", usual, none)
	}
	if infinite.FindString("2, inf") == "" || infinite.FindString("information") != "" {
		t.Error("infinite figures are not found")
	}
}
