//go:build linux && amd64

package mlx5bench

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

const (
	roleEnv = "PUREVERBS_MLX5BENCH" // what this process is: "driver" or "side"
	cEnv    = "PUREVERBS_MLX5BENCH_C"
	cpuEnv  = "PUREVERBS_MLX5BENCH_CPU"

	device   = "mlx5_0"
	gidIndex = 3 // RoCE v2, IPv4
)

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(roleEnv) {
	case "driver":
		err = drive(os.Stdout)
	case "side":
		err = runSide(device, gidIndex)
	case "many driver":
		err = driveMany(os.Stdout)
	case "many":
		err = runMany(device, gidIndex, manyQPs)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mlx5bench:", err)
		os.Exit(1)
	}
}

// TestFigures compares a pair of QPs.
func TestFigures(t *testing.T) { figures(t, "driver") }

// TestFiguresMany compares many QPs on one CQ.
func TestFiguresMany(t *testing.T) { figures(t, "many driver") }

// figures builds the emulator and the C, and runs a comparison below the emulator.
func figures(t *testing.T, role string) {
	if os.Getenv("PUREVERBS_FIGURES") == "" {
		t.Skip("measures: make bench")
	}
	dir := t.TempDir()
	emu, bench := filepath.Join(dir, "emu"), filepath.Join(dir, "bench")
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	run("gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", bench, "testdata/bench.c", "testdata/many.c",
		"testdata/hand.c", "-libverbs", "-lmlx5")
	run("go", "build", "-trimpath", "-o", emu, "../../emu")
	// The device has a CPU of its own, so that it never takes the CPU from a side that measures.
	c := exec.CommandContext(t.Context(), "taskset", "-c", "0", emu, "--device", device, "--", os.Args[0])
	c.Env = append(os.Environ(), roleEnv+"="+role, cEnv+"="+bench, cpuEnv+"="+strconv.Itoa(runtime.NumCPU()-1))
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
}

// process is a side, which measures on command.
type process struct {
	in  io.Writer
	out *bufio.Scanner
	cmd *exec.Cmd
	who string
	all map[string][]float64
}

func start(who, program string, args []string, env ...string) (*process, error) {
	args = append([]string{"-c", os.Getenv(cpuEnv), program}, args...)
	p := &process{who: who, cmd: exec.Command("taskset", args...), all: map[string][]float64{}}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out = in, bufio.NewScanner(out)
	return p, p.cmd.Start()
}

// round lets the side measure once.
func (p *process) round(fills int) error {
	if _, err := fmt.Fprintln(p.in, p.who, fills); err != nil {
		return err
	}
	for p.out.Scan() {
		name, value, _ := strings.Cut(p.out.Text(), " ")
		if name == "end" {
			return nil
		}
		ns, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return err
		}
		p.all[name] = append(p.all[name], ns)
	}
	return fmt.Errorf("%v ended: %w", p.cmd.Args, p.cmd.Wait())
}

func (p *process) median(name string) float64 {
	v := slices.Sorted(slices.Values(p.all[name]))
	return v[len(v)/2]
}

// manyQPs do not fit into the caches of a core.
const manyQPs = 16384

// driveMany is drive for many QPs.
func driveMany(w io.Writer) error {
	c := []string{device, strconv.Itoa(gidIndex), strconv.Itoa(manyQPs)}
	ours, err := start("ours", os.Args[0], nil, roleEnv+"=many")
	if err != nil {
		return err
	}
	sides := []*process{ours}
	for _, who := range []string{"lib", "hand"} {
		p, err := start(who, os.Getenv(cEnv), c)
		if err != nil {
			return err
		}
		sides = append(sides, p)
	}
	for i := range rounds + 1 {
		for _, p := range sides {
			if err := p.round(min(i, 1)); err != nil { // no lap at first: the QPs are created
				return err
			}
			if i == 0 {
				clear(p.all)
			}
		}
		slices.Reverse(sides)
	}
	if sides[0] != ours {
		slices.Reverse(sides)
	}
	fmt.Fprintln(w, "# processor:", testutil.Processor())
	for _, order := range []string{"", "_shuffled"} {
		for _, name := range []string{"post1", "poll1", "poll16"} {
			name += order
			our, lib, hand := ours.median(name), sides[1].median(name), sides[2].median(name)
			fmt.Fprintf(w, "figure mlx5_%s_qps%d_ratio %.3f ratio (ours %.1f ns, libmlx5 %.1f ns, C %.1f ns)\n", name,
				manyQPs, our/lib, our, lib, hand)
		}
	}
	return nil
}

const (
	rounds = 11
	fills  = 8 // in a round, of each kind
)

// drive lets the sides measure in alternation and prints the figures.
func drive(w io.Writer) error {
	type trio struct {
		suffix          string
		ours, lib, hand *process
	}
	var trios []trio
	for _, t := range []trio{{suffix: ""}, {suffix: "_unlocked"}} {
		env := []string{roleEnv + "=side"}
		if t.suffix != "" {
			env = append(env, "MLX5_SINGLE_THREADED=1")
		}
		var err error
		if t.ours, err = start("ours", os.Args[0], nil, env...); err != nil {
			return err
		}
		c := []string{device, strconv.Itoa(gidIndex)}
		if t.lib, err = start("lib", os.Getenv(cEnv), c, env...); err != nil {
			return err
		}
		if t.hand, err = start("hand", os.Getenv(cEnv), c, env...); err != nil {
			return err
		}
		trios = append(trios, t)
	}
	for i := range rounds + 1 {
		for _, t := range trios {
			turn := []*process{t.ours, t.lib, t.hand}
			if i%2 == 1 {
				slices.Reverse(turn)
			}
			for _, p := range turn {
				if err := p.round(fills); err != nil {
					return err
				}
				if i == 0 {
					clear(p.all) // warmed up
				}
			}
		}
	}
	fmt.Fprintln(w, "# emulated device, ordinary memory: the CPU's part of posting and polling; it says nothing "+
		"about a NIC")
	fmt.Fprintln(w, "# processor:", testutil.Processor())
	for _, t := range trios {
		ratio := func(name, kind, way string, ours float64, to *process) {
			base := to.median(name + kind)
			fmt.Fprintf(w, "figure %s_%s_ratio%s%s %.3f ratio (ours %.1f ns, %s %.1f ns)\n", "mlx5"+way, name, kind,
				t.suffix, ours/base, ours, map[string]string{"lib": "libmlx5", "hand": "C"}[to.who], base)
		}
		for _, kind := range []string{"", "_inline32", "_recv", "_cold", "_inline32_cold", "_recv_cold"} {
			for _, name := range []string{"post1", "post16", "poll1", "poll16", "pollempty"} {
				if strings.HasSuffix(kind, "_cold") && name == "pollempty" {
					continue
				}
				ours := t.ours.median(name + kind)
				ratio(name, kind, "", ours, t.lib)
				ratio(name, kind, "_handc", ours, t.hand)
			}
		}
		for _, kind := range []string{"", "_cold"} {
			b := t.ours.median("batch16" + kind)
			fmt.Fprintf(w, "figure mlx5_batch16_ratio%s%s %.3f ratio (%.1f ns)\n", kind, t.suffix,
				b/t.lib.median("post16"+kind), b)
		}
	}
	return nil
}
