package command

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// A page is Markdown by section: the text below each heading.
type page map[string]string

// The pages of this program.
const (
	twoHosts      = "../../../../docs/rdmaperf/two-hosts.md"
	limitsPage    = "../../../../docs/rdmaperf/limits.md"
	meshPage      = "../../../../docs/rdmaperf/mesh.md"
	perftestPage  = "../../../../docs/rdmaperf/perftest.md"
	doctorPage    = "../../../../docs/doctor.md"
	ownPages      = twoHosts + " " + limitsPage + " " + meshPage + " " + perftestPage
	pagesWithFlag = ownPages + " " + doctorPage
)

// readPage reads pages by their names.
func readPage(t *testing.T, names string) page {
	t.Helper()
	p := page{}
	for name := range strings.FieldsSeq(names) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		title, fenced := "", false
		for line := range strings.Lines(string(b)) {
			fenced = fenced != strings.HasPrefix(line, "```")
			if strings.HasPrefix(line, "#") && !fenced {
				title = strings.TrimSpace(strings.Trim(line, "#\n"))
			}
			p[title] += line
		}
	}
	return p
}

// table returns the rows of the table in a section that begins with a heading.
func (p page) table(t *testing.T, section, heading string) (rows [][]string) {
	t.Helper()
	_, rest, ok := strings.Cut(p[section], heading+"\n|---")
	if !ok {
		t.Fatalf("section %q has no table %q", section, heading)
	}
	rest, _, _ = strings.Cut(rest, "\n\n")
	for _, line := range strings.Split(rest, "\n")[1:] {
		cells := strings.Split(strings.Trim(line, "| \n"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

var (
	fences = regexp.MustCompile("(?s)```.*?\n(.*?)```")
	spans  = regexp.MustCompile("(?s)`([^`]+)`")
	others = regexp.MustCompile(`'[^']*'|\bsrun .*rdmaperf|\bsrun .*`) // commands of other programs
	ends   = regexp.MustCompile(`[;&|"()\n]|#.*`)
)

// code returns the command lines and the words of code in a text.
func code(text string) (lines []string) {
	for _, m := range fences.FindAllStringSubmatch(text, -1) {
		lines = append(lines, ends.Split(strings.ReplaceAll(m[1], "\\\n", " "), -1)...)
	}
	for line := range strings.Lines(fences.ReplaceAllString(text, "")) {
		if strings.HasPrefix(line, "    ") {
			lines = append(lines, line)
		}
	}
	for _, m := range spans.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
		lines = append(lines, ends.Split(strings.ReplaceAll(m[1], "\n", " "), -1)...)
	}
	return lines
}

// mentioned is a flag in a line of code.
type mentioned struct {
	command string // of rdmaperf; empty for a flag without a command
	flag    string // with its dashes
}

// mentions returns the flags in a line of code: after rdmaperf, or alone.
func mentions(line string) (out []mentioned) {
	w := strings.Fields(strings.TrimPrefix(strings.TrimSpace(others.ReplaceAllString(line, "")), "$ "))
	at := slices.IndexFunc(w, func(s string) bool { return s == "rdmaperf" })
	if at < 0 && (len(w) == 0 || !strings.HasPrefix(w[0], "-")) {
		return nil // of another program
	}
	command := ""
	for _, s := range w[at+1:] {
		switch {
		case s == "--":
		case strings.HasPrefix(s, "-") && len(s) > 1 && (s[1] == '-' || s[1] < '0' || s[1] > '9'):
			flag, _, _ := strings.Cut(s, "=")
			out = append(out, mentioned{command, strings.TrimRight(flag, ",.:")})
		case command == "" && at >= 0:
			command = s
		}
	}
	return out
}

// commandFlags returns the flags of each command, those of tests by the empty name also.
func commandFlags() map[string]*pflag.FlagSet {
	root := (&invocation{}).root()
	all := map[string]*pflag.FlagSet{"": root.Flags()}
	for _, c := range root.Commands() {
		all[c.Name()] = c.Flags()
	}
	return all
}

// has reports whether there is a flag --name or -l, or each of -abc.
func has(f *pflag.FlagSet, flag string) bool {
	if name, long := strings.CutPrefix(flag, "--"); long {
		return f.Lookup(name) != nil
	}
	for _, letter := range strings.Split(flag[1:], "") {
		if f.ShorthandLookup(letter) == nil {
			return false
		}
	}
	return true
}

// about are the commands that a section of a page describes: its flags alone are theirs.
var about = map[string][]string{
	"Compare": {"compare"}, "A peer of perftest": {"serve"}, "Tested with perftest": {"serve"}, "Ports": {"serve"},
	"rdmaperf: all pairs of many hosts": {"mesh"}, "Standing agents": {"mesh", "serve"},
	"Agents that a launcher starts": {"mesh", "serve"}, "Hosts without figures": {"mesh"}, "Several NICs": {"mesh"},
	"Large clusters": {"mesh"}, "Which NICs are slow": {"mesh"}, "Ports and security": {"mesh", "serve"},
	"rdmaperf doctor": {"doctor"}, "In schedulers": {"doctor"}, "Details": {"doctor"},
}

// TestPagesFlags: each flag that a page names is one of its command.
func TestPagesFlags(t *testing.T) {
	flags := commandFlags()
	all := 0
	for name := range strings.FieldsSeq(pagesWithFlag) {
		found := 0
		for section, text := range readPage(t, name) {
			for _, line := range code(text) {
				for _, m := range mentions(line) {
					found++
					f, ok := flags[m.command]
					if !ok {
						f = flags[""]
					}
					good := has(f, m.flag)
					for _, c := range about[section] {
						good = good || m.command == "" && has(flags[c], m.flag)
					}
					if !good {
						t.Errorf("%s, %q: %q: rdmaperf %s has no %s", name, section, line, m.command, m.flag)
					}
				}
			}
		}
		if all += found; found < 10 {
			t.Errorf("%s: %d flags", name, found)
		}
	}
	if all < 260 {
		t.Errorf("%d flags", all)
	}
}

// TestHelpProse: each flag that the text of a command names is one of rdmaperf.
func TestHelpProse(t *testing.T) {
	root, flags := (&invocation{}).root(), commandFlags()
	for _, c := range append(root.Commands(), root) {
		if c.Name() == "completion" || c.Name() == "help" {
			continue
		}
		texts := []string{c.Long}
		c.Flags().VisitAll(func(f *pflag.Flag) { texts = append(texts, f.Usage) })
		for _, m := range regexp.MustCompile(`(?:^|[ (])(--?[A-Za-z][A-Za-z0-9-]*)`).FindAllStringSubmatch(
			others.ReplaceAllString(strings.Join(texts, "\n"), ""), -1) {
			good := c.Name() == "man" && m[1] == "-l" // of man
			for _, f := range flags {
				good = good || has(f, m[1])
			}
			if !good {
				t.Errorf("rdmaperf %s --help names %s, which is not there", c.Name(), m[1])
			}
		}
	}
}

// named returns which flags of tests a text names, by long name.
func named(text string) map[string]bool {
	f, out := flagSet(&options{}), map[string]bool{}
	for _, line := range code(text) {
		for _, m := range mentions(line) {
			if name, long := strings.CutPrefix(m.flag, "--"); long {
				if fl := f.Lookup(name); fl != nil {
					out[fl.Name] = true
				}
				continue
			}
			for _, letter := range strings.Split(m.flag[1:], "") {
				if fl := f.ShorthandLookup(letter); fl != nil {
					out[fl.Name] = true
				}
			}
		}
	}
	return out
}

// rowsOf returns the rows of sections of the table of flags.
func rowsOf(titles ...string) (rows []flagRow) {
	for _, s := range table(&options{}) {
		if slices.Contains(titles, s.title) {
			rows = append(rows, s.flags...)
		}
	}
	return rows
}

// TestReadmeComplete: the lists that claim to be complete are. Each option of perftest is in the list, in a part that
// the list refers to, or in that of the options without effect or of those that are refused.
func TestReadmeComplete(t *testing.T) {
	readme := readPage(t, ownPages)
	f := flagSet(&options{})
	said := named(readme["perftest's options"] + readme["Memory and CPUs"] + readme["Raw Ethernet"] +
		readme["Threads and rails"])
	idle, refused := named(readme["Options without effect"]), named(readme["Options that are refused"])
	rows := map[string]flagRow{}
	for _, row := range perftestFlags() {
		rows[row.name()] = row
	}
	for name := range strings.FieldsSeq(perftestNames) {
		fl := f.Lookup(name)
		switch row := rows[fl.Name]; {
		case row.idle != "":
			if !idle[fl.Name] {
				t.Errorf("perftest's --%s is not in the table of options without effect", name)
			}
		case row.refused != "":
			if !refused[fl.Name] {
				t.Errorf("perftest's --%s is not in the table of options that are refused", name)
			}
		case !said[fl.Name]:
			t.Errorf("perftest's --%s is accepted, but not in the table of perftest's options", name)
		}
	}

	memory := named(readme["Memory and CPUs"])
	for _, row := range rowsOf("Memory and CPUs") {
		if !memory[row.name()] && row.name() != "mr-per-qp" { // in the table of perftest's options
			t.Errorf("Memory and CPUs has no --%s", row.name())
		}
	}
	frames := named(readme["Raw Ethernet"])
	for _, row := range rowsOf("Raw Ethernet (send -c RawEth)") {
		if !frames[row.name()] {
			t.Errorf("Raw Ethernet has no --%s", row.name())
		}
	}
}

// TestReadmeLimits: the table of limits has the flags whose text names exit status 3, for the tests that take them.
func TestReadmeLimits(t *testing.T) {
	have, want := map[string]string{}, map[string]string{}
	const heading = "| option | fails below or above | tests |"
	for _, row := range readPage(t, limitsPage).table(t, "Limits and CI", heading) {
		for name := range named(row[0]) {
			have[name] = row[2]
		}
	}
	for _, s := range table(&options{}) {
		for _, row := range s.flags {
			if strings.Contains(row.text, "exit status 3") {
				want[row.name()] = row.tests
				if letter, name, _ := row.words(); !strings.Contains(testStatus, "--"+name) &&
					(letter == "" || !strings.Contains(testStatus, "-"+letter)) {
					t.Errorf("the exit statuses in --help have no --%s", name)
				}
			}
		}
	}
	if !maps.Equal(have, want) {
		t.Errorf("the page has %v, the table of flags %v", have, want)
	}
}

var status = regexp.MustCompile(`(?s)Exit status:(.*?)\n\n|Exit status:(.*)`)

// statuses returns the exit statuses that the help of a command lists.
func statuses(c *cobra.Command) (list []string) {
	m := status.FindStringSubmatch(c.Long)
	if m == nil {
		return nil
	}
	text := " " + strings.Join(strings.Fields(m[1]+m[2]), " ")
	for _, n := range regexp.MustCompile(`(?:^|[,;] )\s*(\d) `).FindAllStringSubmatch(text, -1) {
		list = append(list, n[1])
	}
	return list
}

// TestPagesStatuses: the pages list the exit statuses that --help lists.
func TestPagesStatuses(t *testing.T) {
	commands := map[string]*cobra.Command{}
	root := (&invocation{}).root()
	for _, c := range append(root.Commands(), root) {
		commands[c.Name()] = c
	}
	for _, tc := range []struct{ page, section, command string }{
		{limitsPage, "Limits and CI", "rdmaperf"},
		{limitsPage, "Limits and CI", "write"},
		{limitsPage, "Compare", "compare"},
		{doctorPage, "rdmaperf doctor", "doctor"},
	} {
		want := statuses(commands[tc.command])
		if tc.command == "compare" {
			want = slices.DeleteFunc(want, func(s string) bool { return s == "2" }) // of all commands: in Limits and CI
		}
		var have []string
		for _, row := range readPage(t, tc.page).table(t, tc.section, "| exit status | |") {
			have = append(have, row[0])
		}
		if !slices.Equal(have, want) || len(want) < 3 {
			t.Errorf("%s, %q lists the exit statuses %v, rdmaperf %s --help %v", tc.page, tc.section, have, tc.command,
				want)
		}
	}
}

// TestPagesOfCommands: the page of a command names each of its flags.
func TestPagesOfCommands(t *testing.T) {
	flags := commandFlags()
	for command, name := range map[string]string{"doctor": doctorPage, "selftest": "../../../../docs/hardware.md"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		flags[command].VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" || f.Name == "version" {
				return
			}
			letter := f.Shorthand != "" && regexp.MustCompile("(?m)[` ]-"+f.Shorthand+"\\b").Match(b)
			if !letter && !regexp.MustCompile("[` ]--"+f.Name+"\\b").Match(b) {
				t.Errorf("%s has no --%s", name, f.Name)
			}
		})
	}
}

// TestReadmePorts: the table of ports has the ports that programs use.
func TestReadmePorts(t *testing.T) {
	var have []string
	for _, row := range readPage(t, twoHosts).table(t, "Ports", "| port | for |") {
		have = append(have, regexp.MustCompile(`\d+`).FindString(row[0]))
	}
	flags := commandFlags()
	want := []string{flags[""].Lookup("port").Value.String(), flags["serve"].Lookup("port").Value.String(),
		flags["doctor"].Lookup("port").Value.String(), "4791"}
	if !slices.Equal(have, want) {
		t.Errorf("the page has %v, the flags %v", have, want)
	}
}

// TestReadmeAgentLimits: an agent takes a test at each limit of the page's table, and refuses one that is beyond it.
func TestReadmeAgentLimits(t *testing.T) {
	list := func(n int) string {
		sizes := make([]string, n)
		for i := range sizes {
			sizes[i] = strconv.Itoa(i + 1)
		}
		return "[" + strings.Join(sizes, " ") + "]"
	}
	rows := readPage(t, meshPage).table(t, "Ports and security", "| limit of a test in an agent | |")
	for i, set := range []func(p *wire.Params, v int){
		func(p *wire.Params, v int) { p.QPs = v },
		func(p *wire.Params, v int) { p.QPs, p.Size = 2, uint64(v)<<30/2 },
		func(p *wire.Params, v int) { p.Iters = uint64(v) },
		func(p *wire.Params, v int) { p.Iters, p.Duration = 0, time.Duration(v)*time.Minute },
		func(p *wire.Params, v int) { p.Sizes, p.Size = list(v), uint64(v) },
	} {
		if i >= len(rows) {
			t.Fatalf("%d rows", len(rows))
		}
		most, err := strconv.Atoi(strings.ReplaceAll(strings.Fields(rows[i][1])[0], ",", ""))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []int{most, most + 1} {
			p := wire.Params{Verb: wire.Write, Metric: wire.Latency, QPs: 1, Size: 1, Iters: 1}
			set(&p, v)
			if err := agent.CheckTest(p); (err == nil) != (v == most) {
				t.Errorf("%s: %d: %v", rows[i][0], v, err)
			}
		}
	}
	if len(rows) != 5 {
		t.Errorf("%d rows", len(rows))
	}
}
