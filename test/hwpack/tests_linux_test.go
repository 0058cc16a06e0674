package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/sysfs"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// childEnv has the test binary behave as the tests of a package.
const childEnv = "HWPACK_CHILD"

func TestMain(m *testing.M) {
	switch how := os.Getenv(childEnv); how {
	case "":
		os.Exit(m.Run())
	case "crash", "hang":
		skip := ""
		for _, a := range os.Args {
			if v, ok := strings.CutPrefix(a, "-test.skip="); ok {
				skip = v
			}
		}
		say := func(lines string) { _, _ = os.Stdout.WriteString(lines) }
		if !strings.Contains(skip, "TestA") {
			say("=== RUN   TestA\n    a_test.go:1: fine\n--- PASS: TestA (0.00s)\n")
			say("=== RUN   TestB\n    b_test.go:1: begun\n")
			if how == "hang" {
				time.Sleep(time.Hour)
			}
			say("fatal error: fault\n")
			os.Exit(2)
		}
		say("=== RUN   TestC\n    c_test.go:2: needs two ports\n--- SKIP: TestC (0.00s)\nPASS\n")
	}
}

// TestCrash has a test crash, and another one hang: those behind it still run, and it has failed with what it printed.
func TestCrash(t *testing.T) {
	for how, want := range map[string]string{"crash": "fatal error: fault", "hang": "printed nothing"} {
		p := newPackage("a", "direct")
		o := &options{run: "^Test", quiet: time.Minute}
		if how == "hang" {
			o.quiet = 500 * time.Millisecond
		}
		o.test(t.Context(), os.Args[0], t.TempDir(), append(os.Environ(), childEnv+"="+how), &p)
		if strings.Join(p.Passed, " ") != "TestA" || len(p.Failed) != 1 || len(p.Skipped) != 1 || p.End == "" {
			t.Fatalf("%s: %+v", how, p)
		}
		if f := p.Failed[0]; f.Name != "TestB" || !strings.Contains(f.Output, "begun") ||
			!strings.Contains(f.Output, want) {
			t.Errorf("%s: %+v", how, f)
		}
		if s := p.Skipped[0]; s.Name != "TestC" || !strings.Contains(s.Output, "two ports") {
			t.Errorf("%s: %+v", how, s)
		}
	}
}

// TestParser reads the output of tests with subtests and with parallel tests.
func TestParser(t *testing.T) {
	pkg := newPackage("a", "ops")
	p := newParser(&pkg)
	for line := range strings.Lines(`=== RUN   TestA
=== RUN   TestA/one
    a_test.go:7: wrong
    --- FAIL: TestA/one (0.00s)
--- FAIL: TestA (0.00s)
=== RUN   TestB
=== PAUSE TestB
=== RUN   TestC
=== PAUSE TestC
=== CONT  TestB
=== CONT  TestC
    c_test.go:1: of C
=== NAME  TestB
    b_test.go:1: of B
--- FAIL: TestB (0.10s)
--- FAIL: TestC (0.10s)
`) {
		p.line(strings.TrimSuffix(line, "\n"))
	}
	if len(pkg.Failed) != 3 || !strings.Contains(pkg.Failed[0].Output, "wrong") ||
		!strings.Contains(pkg.Failed[1].Output, "of B") || !strings.Contains(pkg.Failed[2].Output, "of C") {
		t.Errorf("%+v", pkg.Failed)
	}
}

// selftest has the keys of rdmaperf selftest that a reader of results needs.
type selftest struct {
	Tool string
	Link string
	Ends [2]struct {
		Device, Driver, Firmware string
		Emulated                 bool
	}
	Steps []struct {
		Step    int
		Outcome string
		Host    struct{ Doctor struct{ Hostname string } }
		Checks  []struct {
			Check, Outcome, Reason string
			Count                  uint64
			Figures                map[string]float64
			Syndromes              []struct {
				Cause, Status, Expected string
				Vendor                  uint32 `json:"vendor_syndrome"`
			}
		}
	}
}

// shapes are those in which results are kept, with their devices for the emulator.
var shapes = []struct {
	name, link string
	emu, args  []string
}{ // the devices of roce-two are idle, so its result also has -frames
	{"roce-one", "Ethernet", []string{"--device", "rocep1s0f0"}, nil},
	{"roce-two", "Ethernet", []string{"--device", "rocep1s0f0", "--device", "rocep1s0f1"},
		[]string{"-d", "rocep1s0f0,rocep1s0f1"}},
	{"ib-one", "InfiniBand", []string{"--device", "ibp1s0f0,link=ib"}, nil},
	{"ib-two", "InfiniBand", []string{"--device", "ibp1s0f0,link=ib", "--device", "ibp1s0f1,link=ib"},
		[]string{"-d", "ibp1s0f0,ibp1s0f1"}},
}

// TestResults reads the results of whole packs, one for each shape. The emulator has made them: they show the format,
// and what the tests do in this shape.
func TestResults(t *testing.T) {
	for _, shape := range shapes {
		text, err := os.ReadFile(filepath.Join("testdata", shape.name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		r := decode(t, text)
		var s selftest
		if err := json.Unmarshal(r.Selftest, &s); err != nil {
			t.Fatal(err)
		}
		two := s.Ends[0].Device != s.Ends[1].Device
		if s.Tool != "rdmaperf selftest" || s.Link != shape.link || r.Link != shape.link || len(s.Steps) != 12 ||
			two != (len(r.Devices) == 2) || s.Ends[0].Driver != "mlx5_core" || s.Ends[0].Firmware == "" ||
			!s.Ends[0].Emulated {
			t.Errorf("%s: %+v", shape.name, s.Ends)
		}
		for i, step := range s.Steps {
			want := "passed"
			if step.Step == 12 && !r.Frames {
				want = "skipped"
			}
			if step.Step != i+1 || step.Outcome != want || len(step.Checks) == 0 {
				t.Errorf("%s: step %d of place %d has %d checks and %s", shape.name, step.Step, i+1, len(step.Checks),
					step.Outcome)
			}
		}
		if name := s.Steps[0].Host.Doctor.Hostname; name != "host" {
			t.Errorf("%s: the name of the host that made it, %q", shape.name, name)
		}
		var runs []string
		for _, p := range r.Packages {
			none := slices.Contains(byIP, p.Name) && r.Link != sysfs.LinkEthernet
			if (p.End != "") != none || (len(p.Passed) == 0) != none {
				t.Errorf("%s: %s %s: %d passed, end %q", shape.name, p.Name, p.DataPath, len(p.Passed), p.End)
			}
			runs = append(runs, p.Name+" "+p.DataPath)
		}
		const all = "ibv ops,ibv direct,mlx5dv ops,mlx5dv direct,rdma ops,rdma direct,rdmacm ops,rdmacm direct"
		if strings.Join(runs, ",") != all {
			t.Errorf("%s: packages %v", shape.name, runs)
		}
		syndromes := 0
		for _, c := range s.Steps[4].Checks {
			for _, y := range c.Syndromes {
				if syndromes++; y.Status != y.Expected || y.Vendor == 0 {
					t.Errorf("%s: %+v", shape.name, y)
				}
			}
		}
		soak := s.Steps[2].Checks[0]
		if syndromes < 20 || soak.Count != 100_000 || soak.Figures["posts_per_second"] <= 0 {
			t.Errorf("%s: %d syndromes, soak %+v", shape.name, syndromes, soak)
		}
		if r.Failed != 0 || r.Passed < 250 || r.Frames != (shape.name == "roce-two") {
			t.Errorf("%s: %d tests passed, %d failed, frames %t", shape.name, r.Passed, r.Failed, r.Frames)
		}
	}
}

// decode reads a result, which has no other keys than the type.
func decode(t *testing.T, text []byte) *Result {
	t.Helper()
	r := &Result{}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestEmuPack makes a pack, and runs a part of it in each shape. A full run runs all of what it has.
func TestEmuPack(t *testing.T) {
	testutil.NeedEmu(t)
	emu, err := filepath.Abs("../../.build/bin/emu")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := exec.CommandContext(t.Context(), "../../scripts/hw-pack", dir, "./ibv")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	packs, err := filepath.Glob(filepath.Join(dir, "pureverbs-hw-*", "run"))
	if err != nil || len(packs) != 1 {
		t.Fatalf("%v, %v", packs, err)
	}
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "result.json")
			args := append([]string{"--strict-ignore=leak,cq-overrun"}, shape.emu...)
			args = append(append(args, "--", packs[0], "-o", file), shape.args...)
			if testutil.Full() {
				args = append(args, "-posts", "1e5", "-wakeups", "2000")
			} else {
				args = append(args, "-no-selftest", "-run", "^TestRXE_(RCOpcodes|SRQ|RawNobody|Raw|Queries)$")
			}
			out, err := exec.CommandContext(t.Context(), emu, args...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r := decode(t, text)
			// Both data paths. Frames were not asked for, and InfiniBand has none.
			if r.Link != shape.link || len(r.Packages) != 2 || r.Failed != 0 || r.Passed < 6 || r.Skipped < 2 {
				t.Errorf("%+v\n%s", r, out)
			}
		})
	}
}
