package selftest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/sysfs"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

const bin = "../../../../.build/bin/"

// shapes are the ways in which the ends of a test can be. Some of them have each value; the others are for a full run.
var shapes = []struct {
	name, link string
	devices    []string // of the emulator; not the names that the driver gives, as on most hosts
	two, full  bool
}{
	{"roce-one", "Ethernet", []string{"rocep1s0f0"}, false, false},
	{"roce-two", "Ethernet", []string{"rocep1s0f0", "rocep1s0f1"}, true, true},
	{"ib-one", sysfs.LinkInfiniBand, []string{"ibp1s0f0,link=ib"}, false, true},
	{"ib-two", sysfs.LinkInfiniBand, []string{"ibp1s0f0,link=ib", "ibp1s0f1,link=ib"}, true, true},
	{"ib-vf", sysfs.LinkInfiniBand, []string{"ibp1s0f0v0,link=ib,grh=required"}, false, true},
	{"ib-to-vf", sysfs.LinkInfiniBand, []string{"ibp1s0f0,link=ib", "ibp1s0f0v0,link=ib,grh=required"}, true, false},
}

// emulated runs rdmaperf selftest below the emulator, in strict mode.
func emulated(t *testing.T, devices, faults []string, path, lost string, args ...string) (*Result, int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	// Step 5 overruns CQs, and programs of perftest do not destroy all that they have made.
	line := []string{"--strict-ignore=cq-overrun,leak"}
	for _, d := range devices {
		line = append(line, "--device", d)
	}
	for _, f := range faults {
		line = append(line, "--fault", f)
	}
	perf, err := filepath.Abs(bin + "rdmaperf")
	if err != nil {
		t.Fatal(err)
	}
	line = append(append(line, "--", perf, "selftest", "--json", "--posts", "1e5", "--wakeups", "2000",
		"--lost", lost), args...)
	c := exec.CommandContext(ctx, bin+"emu", line...)
	c.Env = append(os.Environ(), "PATH="+path)
	var out, diag bytes.Buffer
	c.Stdout, c.Stderr = &out, &diag
	err = c.Run()
	code := 0
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		code = e.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	r := &Result{}
	d := json.NewDecoder(&out)
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, &diag)
	}
	return r, code, diag.String()
}

// TestEmuSelftest runs all steps in each shape. No adapter is there, so it shows that the steps work, and what they
// find in libraries.
func TestEmuSelftest(t *testing.T) {
	testutil.NeedEmu(t)
	for _, shape := range shapes {
		if shape.full && !testutil.Full() {
			continue
		}
		t.Run(shape.name, func(t *testing.T) {
			path := t.TempDir()
			var args []string
			if shape.two {
				var names []string
				for _, d := range shape.devices {
					name, _, _ := strings.Cut(d, ",")
					names = append(names, name)
				}
				args = []string{"-d", strings.Join(names, ",")}
			}
			if testutil.Full() {
				path = os.Getenv("PATH")
			} else if stock, err := exec.LookPath("ib_write_lat"); err == nil && !shape.two {
				// One program, and not all, because each takes seconds.
				if err := os.Symlink(stock, filepath.Join(path, "ib_write_lat")); err != nil {
					t.Fatal(err)
				}
			}
			r, code, diag := emulated(t, shape.devices, nil, path, "240", args...)
			if diag != "" {
				t.Errorf("exit code %d, %s", code, diag)
			}
			if !r.Ends[0].Emulated || !r.Ends[1].Emulated {
				t.Error("the result does not say that the device is emulated")
			}
			two := r.Ends[0].Device != r.Ends[1].Device
			if r.Link != shape.link || len(r.Steps) != StepCount || two != shape.two {
				t.Errorf("%s, %d steps, %+v", r.Link, len(r.Steps), r.Ends)
			}
			for _, s := range r.Steps {
				for _, c := range s.Checks {
					if c.Outcome == Failed {
						t.Errorf("step %d: %s: %s", s.Number, c.Name, c.Reason)
					}
					if c.Wanted != 0 {
						t.Errorf("step %d: %s: %d of %d", s.Number, c.Name, c.Count, c.Wanted)
					}
				}
				if s.Outcome == Failed || s.Outcome == Skipped && s.Number != 12 || s.Output != "" {
					t.Errorf("step %d, %s: %s %s %s", s.Number, s.Name, s.Outcome, s.Reason, s.Output)
				}
			}
			if r.Failed != 0 || code != 0 {
				t.Errorf("exit code %d, %d checks failed", code, r.Failed)
			}
			_, stock := r.Steps[10].Checks[0].Figures["perftest_p50_us"]
			if _, err := os.Stat(filepath.Join(path, "ib_write_lat")); err == nil && !stock {
				t.Errorf("nothing of perftest: %+v", r.Steps[10].Checks[0])
			}
			if soak := r.Steps[2].Checks[0]; soak.Count != 100_000 || !strings.HasPrefix(soak.DataPath, "Direct") {
				t.Errorf("soak: %+v", soak)
			}
		})
	}
}

// TestEmuSelftestLimit has a soak for which its step has not the time: it ends early, without an error.
func TestEmuSelftestLimit(t *testing.T) {
	testutil.NeedEmu(t)
	r, code, diag := emulated(t, []string{"rocep1s0f0"}, nil, os.Getenv("PATH"), "1", "--steps", "3", "--limit", "2",
		"--posts", "1e9")
	if code != 0 || diag != "" || len(r.Steps) != 1 || len(r.Steps[0].Checks) != 3 {
		t.Fatalf("exit code %d, %s%+v", code, diag, r)
	}
	soak, next := r.Steps[0].Checks[0], r.Steps[0].Checks[1]
	if soak.Outcome != Passed || soak.Wanted != 1e9 || soak.Count >= soak.Wanted || next.Outcome != Skipped {
		t.Errorf("%+v, then %+v", soak, next)
	}
}

// TestEmuSelftestFinds injects faults that the steps must find.
func TestEmuSelftestFinds(t *testing.T) {
	testutil.NeedEmu(t)
	for _, tc := range []struct {
		name, fault, step string
		check, reason     string
	}{
		{"a bit of a transfer", "bit-flip:opcode=8,after=20", "2", "Write, Ops", "byte"},
		{"a bit of the soak", "bit-flip:after=5000", "3", "8 goroutines, 64 QPs, thread domains, direct", "arrived as"},
		{"a completion", "cqe-lost:after=150", "6", "two goroutines", "a wake-up was lost"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, code, _ := emulated(t, []string{"rocep1s0f0"}, []string{tc.fault}, os.Getenv("PATH"), "1", "--steps",
				tc.step)
			if code != 4 || len(r.Steps) != 1 || r.Steps[0].Outcome != Failed || r.Failed == 0 {
				t.Fatalf("exit code %d, %+v", code, r)
			}
			found := false
			for _, c := range r.Steps[0].Checks {
				found = found || c.Outcome == Failed && strings.HasPrefix(c.Name, tc.check) &&
					strings.Contains(c.Reason, tc.reason)
			}
			if !found {
				t.Errorf("%+v", r.Steps[0].Checks)
			}
		})
	}
}
