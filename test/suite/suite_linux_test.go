//go:build linux && amd64 && !race

package suite

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// limit bounds a run of the suite, which takes three minutes on a quiet machine.
const limit = 25 * time.Minute

// link is what the device's port speaks. All tests run on both.
type link struct{ name, device, gid string }

var links = []link{{"Ethernet", "mlx5_0,lag=2", "3"}, {"InfiniBand", "mlx5_0,link=ib", "0"}}

var (
	//go:embed testdata/driver.py
	driver string
	//go:embed testdata/known
	knownList string
)

// result is how a test of the suite ended: ok, skipped, failed or error, or run if it did not end.
type result struct{ status, why string }

// listed is the status of a test that does not pass, as testdata/known says.
const listed = "listed"

func (r result) bad() bool { return r.status != "ok" && r.status != "skipped" }

// known is a line of testdata/known.
type known struct {
	releases []string
	link     string         // "" for both
	what     *regexp.Regexp // the name of a test, or "strict RULE"
	reason   string
	used     bool
}

// covers reports whether the line is about a release and a link layer.
func (k *known) covers(release string, l link) bool {
	return slices.Contains(k.releases, release) && (k.link == "" || k.link == l.name)
}

func readKnown() ([]*known, error) {
	var list []*known
	for line := range strings.Lines(knownList) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		f := strings.SplitN(line, " ", 3)
		if len(f) < 3 {
			return nil, fmt.Errorf("known: %q is not RELEASES[@LINK] TEST REASON", line)
		}
		releases, at, _ := strings.Cut(f[0], "@")
		re, err := regexp.Compile("^(" + strings.ReplaceAll(f[1], "strict:", "strict ") + ")$")
		if err != nil {
			return nil, err
		}
		list = append(list, &known{strings.Split(releases, ","), at, re, f[2], false})
	}
	return list, nil
}

// TestEmuSuite runs the suite of each release on both link layers, plain and in strict mode. It fails if a test fails
// that testdata/known does not list, if one passes that it lists, or if fewer pass than did.
func TestEmuSuite(t *testing.T) {
	testutil.NeedEmu(t)
	if !testutil.Full() {
		t.Skip("a full run downloads Python and rdma-core's tests")
	}
	for _, r := range []struct {
		release string
		ok      [2]int // tests that pass on each of links, at least
		all     int    // different ones
	}{{"bookworm", [2]int{211, 179}, 215}, {"trixie", [2]int{233, 192}, 237}, {"sid", [2]int{282, 237}, 286}} {
		for _, strict := range []bool{false, true} {
			name := r.release + " plain"
			if strict {
				name = r.release + " strict"
			}
			t.Run(name, func(t *testing.T) {
				list, err := readKnown()
				if err != nil {
					t.Fatal(err)
				}
				passed := map[string]bool{}
				for i, l := range links {
					results, broken := runSuite(t, l, r.release, strict)
					check(t, l, r.release, strict, list, results, broken)
					for name, x := range results {
						passed[name] = passed[name] || x.status == "ok"
					}
					if n := count(results)["ok"]; n < r.ok[i] {
						t.Errorf("%s: %d tests pass, at least %d should", l.name, n, r.ok[i])
					}
				}
				all := slices.Collect(maps.Keys(passed))
				n := len(slices.DeleteFunc(all, func(s string) bool { return !passed[s] }))
				if t.Logf("%d different tests pass", n); n < r.all {
					t.Errorf("%d different tests pass, at least %d should", n, r.all)
				}
			})
		}
	}
}

// check compares results with the list, and prints them.
func check(t *testing.T, l link, release string, strict bool, list []*known, results map[string]result,
	broken map[string]string) {
	find := func(what string) bool {
		for _, k := range list {
			if k.covers(release, l) && k.what.MatchString(what) {
				k.used = true
				return true
			}
		}
		return false
	}
	var again []string
	for _, name := range slices.Sorted(maps.Keys(results)) {
		switch r := results[name]; {
		case r.bad() && find(name):
			results[name] = result{listed, r.why}
		case r.bad():
			again = append(again, name)
		}
	}
	// Once more alone: some wait seconds for what a busy machine does later.
	for _, name := range again {
		t.Logf("%s: %s: %s, once more: %s", l.name, name, results[name].status, results[name].why)
		one, rules := runSuite(t, l, release, strict, name)
		if r, ok := one[name]; ok {
			results[name] = r
		}
		maps.Copy(broken, rules)
		if r := results[name]; r.bad() {
			t.Errorf("%s: %s: %s: %s", l.name, name, r.status, r.why)
		}
	}
	for rule, line := range broken {
		if !find("strict " + rule) {
			t.Errorf("%s: strict mode: %s", l.name, line)
		}
	}
	for _, k := range list {
		if k.covers(release, l) && !k.used && (strict || !strings.Contains(k.what.String(), "strict ")) {
			t.Errorf("%s: known: nothing fails that matches %q", l.name, k.what)
		}
		k.used = false
	}
	n := count(results)
	t.Logf("%s, %s: %d tests: %d ok, %d failed, %d in error, %d skipped, %d as testdata/known lists them", t.Name(),
		l.name, len(results), n["ok"], n["failed"], n["error"]+n["run"], n["skipped"], n[listed])
	why := map[string]int{}
	for _, r := range results {
		if r.status == "skipped" {
			why[r.why]++
		}
	}
	for _, w := range slices.Sorted(maps.Keys(why)) {
		t.Logf("%s: %d skipped: %s", l.name, why[w], w)
	}
}

func count(results map[string]result) map[string]int {
	n := map[string]int{}
	for _, r := range results {
		n[r.status]++
	}
	return n
}

// runSuite runs tests of a release, all if none is named. It returns how they ended, and a line for each rule of strict
// mode that they broke.
func runSuite(t *testing.T, l link, release string, strict bool, names ...string) (map[string]result,
	map[string]string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, ".build/debian", release+"-suite/opt/tests")); err != nil {
		t.Fatalf("%v: run scripts/debian-root %s-suite", err, release)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	args := []string{"--device", l.device}
	if strict { // Python destroys objects when it likes
		args = append(args, "--strict-ignore=leak")
	}
	args = append(args, "--", filepath.Join(root, "scripts/in-debian"), release+"-suite", "python3", "-c", driver)
	c := exec.CommandContext(ctx, filepath.Join(root, ".build/bin/emu"), append(args, names...)...)
	c.Dir, c.Env = "/", append(os.Environ(), "SUITE_GID="+l.gid)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	c.WaitDelay = 10 * time.Second
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	err = c.Run()
	results, broken, ended := parse(out.Bytes())
	if !ended || ctx.Err() != nil || len(results) == 0 {
		t.Fatalf("the suite did not come to its end: %v %v\n%s", err, ctx.Err(), out.Bytes()[max(0, out.Len()-4000):])
	}
	return results, broken
}

var violation = regexp.MustCompile(`emu: strict: ([a-z-]+): .*`)

func parse(out []byte) (results map[string]result, broken map[string]string, ended bool) {
	results, broken = map[string]result{}, map[string]string{}
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		line := s.Text()
		if m := violation.FindStringSubmatch(line); m != nil {
			broken[m[1]] = m[0]
		}
		f := strings.SplitN(line, " ", 4)
		if len(f) < 2 || f[0] != "SUITE" {
			continue
		}
		if f[1] == "end" {
			ended = true
			continue
		}
		f = append(f, "", "")
		if old, ok := results[f[2]]; !ok || !old.bad() || old.status == "run" {
			results[f[2]] = result{f[1], strings.TrimSpace(f[3])}
		}
	}
	return results, broken, ended
}

// A test whose clean-up fails after an error counts once, and one that never ended is bad.
func TestParse(t *testing.T) {
	results, broken, ended := parse([]byte("SUITE run a.b\nSUITE error a.b E: why\nSUITE ok a.b\nx\nSUITE run c \n" +
		"emu: strict: cq-overrun: CQ 3\nSUITE run d\nSUITE skipped d not here\n\nSUITE end\n"))
	want := map[string]result{"a.b": {"error", "E: why"}, "c": {"run", ""}, "d": {"skipped", "not here"}}
	if !maps.Equal(results, want) || broken["cq-overrun"] == "" || !ended {
		t.Errorf("%v %v %v", results, broken, ended)
	}
	if !results["c"].bad() || results["d"].bad() {
		t.Error("what is bad is wrong")
	}
	if _, err := readKnown(); err != nil {
		t.Error(err)
	}
}
