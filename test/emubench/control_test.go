//go:build linux && amd64 && !race

package emubench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/test/compare"
)

// controls are the control paths that are compared: native ÷ library.
var controls = [2]string{"native", "library"}

// TestEmuRatios_Control compares the control paths on the emulated device. Each measurement is one run of emu, and the
// paths take turns. Without PUREVERBS_FIGURES it runs one short round. It asserts no speeds.
func TestEmuRatios_Control(t *testing.T) {
	testutil.NeedEmu(t)
	b := &controlBench{t: t, dir: t.TempDir(), ratios: make(map[string][]float64),
		values: make(map[string][2][]float64)}
	b.build("", "../../emu", "../emu/opening", "../../examples/cmtime")
	b.build("static", "../emu/opening")
	rounds, divide := 1, 20
	if os.Getenv("PUREVERBS_FIGURES") != "" {
		rounds, divide = 7, 1
	}
	cm := fmt.Sprintf(`C=%s/cmtime; $C & p=$!; until $C -s 10.88.0.1 -c %d; do sleep 0.1; done; kill $p; wait`, b.dir,
		1000/divide)
	for round := range rounds {
		b.turns(round, "once", "sh", "-c", `exec "$0" -first`, filepath.Join(b.dir, "opening"))
		b.turns(round, "open", "opening", "-opens", strconv.Itoa(100/divide))
		b.turns(round, "qp", "opening", "-qps", strconv.Itoa(1000/divide))
		b.turns(round, "touched", "opening", "-qps", strconv.Itoa(4096/divide), "-touch")
		b.turns(round, "cm", "sh", "-c", cm)
		if path, err := exec.LookPath("strace"); err == nil {
			b.turns(round, "calls", path, "-f", "-c", filepath.Join(b.dir, "opening"))
			b.turns(round, "idle_calls", path, "-f", "-c", filepath.Join(b.dir, "opening"), "-idle")
		}
	}
	b.print(os.Stdout)
}

type controlBench struct {
	t      *testing.T
	dir    string
	names  []string
	ratios map[string][]float64
	values map[string][2][]float64
}

// build builds programs; in a folder, they are static.
func (b *controlBench) build(folder string, programs ...string) {
	args := []string{"build", "-trimpath", "-o", filepath.Join(b.dir, folder) + "/"}
	if folder != "" {
		args = append(args, "-tags=pureverbs_native")
	}
	c := exec.CommandContext(b.t.Context(), "go", append(args, programs...)...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		b.t.Fatalf("go build: %v\n%s", err, out)
	}
}

// turns runs a program on each control path, and notes its figures. The order alternates.
func (b *controlBench) turns(round int, group, program string, args ...string) {
	b.t.Helper()
	var got [2]map[string]float64
	for k := range controls {
		which := k ^ round&1
		file, args := program, slices.Clone(args)
		if !filepath.IsAbs(file) && file != "sh" {
			file = filepath.Join(b.dir, file)
		}
		if at := slices.Index(args, filepath.Join(b.dir, "opening")); at >= 0 && controls[which] == "native" {
			args[at] = filepath.Join(b.dir, "static/opening")
		}
		c := exec.CommandContext(b.t.Context(), filepath.Join(b.dir, "emu"), append([]string{"--device", device, "--",
			file}, args...)...)
		c.Env = append(os.Environ(), "PUREVERBS_CONTROL="+controls[which])
		out, err := c.CombinedOutput()
		if err != nil {
			b.t.Fatalf("%s on %s: %v\n%s", group, controls[which], err, out)
		}
		got[which] = figures(string(out))
	}
	for name, native := range got[0] {
		name = group + "_" + name
		if !slices.Contains(b.names, name) {
			b.names = append(b.names, name)
		}
		library := got[1][strings.TrimPrefix(name, group+"_")]
		b.ratios[name] = append(b.ratios[name], native/library)
		v := b.values[name]
		b.values[name] = [2][]float64{append(v[0], native), append(v[1], library)}
	}
}

// figures reads lines NAME VALUE of opening, the line of cmtime for the step "connect", and the counts of strace.
func figures(out string) map[string]float64 {
	got := make(map[string]float64)
	var waits float64
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		switch n := len(f); {
		case n == 2 && strings.Contains(f[0], "_"):
			got[f[0]], _ = strconv.ParseFloat(f[1], 64)
		case n == 6 && f[0] == "connect":
			got["connect_us"], _ = strconv.ParseFloat(f[5], 64)
		case n >= 5 && (f[n-1] == "total" || f[n-1] == "futex" || f[n-1] == "nanosleep"):
			v, err := strconv.ParseFloat(f[3], 64)
			if err != nil {
				continue
			}
			if f[n-1] != "total" {
				waits += v
				continue
			}
			got["all"], got["all_but_futex_and_nanosleep"] = v, v-waits
		}
	}
	return got
}

func (b *controlBench) print(w *os.File) {
	fmt.Fprintln(w, "# emulated device: its speed says nothing about a NIC's; a ratio is native/library, medians of "+
		"runs that took turns")
	slices.Sort(b.names)
	for _, name := range b.names {
		v := b.values[name]
		var line bytes.Buffer
		fmt.Fprintf(&line, "figure emu_control_%s %.3f ratio (native %.1f, library %.1f", name,
			compare.Median(b.ratios[name]), compare.Median(v[0]), compare.Median(v[1]))
		fmt.Fprintf(&line, ", spread of ratios %.2f)\n", slices.Max(b.ratios[name])/slices.Min(b.ratios[name]))
		_, _ = line.WriteTo(w)
	}
}
