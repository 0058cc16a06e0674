package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/internal/buildinfo"
	"github.com/pureverbs/pureverbs/internal/sysfs"
	"github.com/pureverbs/pureverbs/internal/testutil/adapters"
)

// Result is the object to send back.
type Result struct {
	Tool          string          `json:"tool"` // hwpack
	SchemaVersion int             `json:"schema_version"`
	Program       string          `json:"program"`
	Started       time.Time       `json:"started"`
	Seconds       float64         `json:"seconds"`
	Devices       []string        `json:"devices"`
	Link          string          `json:"link"`
	Root          bool            `json:"root"`
	Frames        bool            `json:"frames"`
	Selftest      json.RawMessage `json:"selftest,omitempty"` // of rdmaperf
	Passed        int             `json:"passed"`             // tests
	Failed        int             `json:"failed"`
	Skipped       int             `json:"skipped"`
	Packages      []Package       `json:"packages"`
}

// Package is one run of a package's tests.
type Package struct {
	Name     string   `json:"package"`
	DataPath string   `json:"data_path"`
	Seconds  float64  `json:"seconds"`
	End      string   `json:"end"` // of the process, if it did not end by itself with 0 or 1
	Passed   []string `json:"passed"`
	Failed   []Test   `json:"failed"`
	Skipped  []Test   `json:"skipped"`
}

// Test is a test that failed or was skipped.
type Test struct {
	Name   string `json:"test"`
	Output string `json:"output"`
}

func newPackage(name, path string) Package {
	return Package{Name: name, DataPath: path, Passed: []string{}, Failed: []Test{}, Skipped: []Test{}}
}

// byIP are packages whose tests connect by IP address, which InfiniBand without IPoIB has none of.
var byIP = []string{"rdma", "rdmacm"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:]))
}

// options of the command line.
type options struct {
	devices, run, out string
	pkgs              string
	noSelftest        bool
	frames            bool
	posts, wakeups    string
	limit             int
	quiet             time.Duration
}

func run(ctx context.Context, args []string) int {
	var o options
	f := flag.NewFlagSet("run", flag.ContinueOnError)
	f.StringVar(&o.devices, "d", os.Getenv("PUREVERBS_HW_DEVICES"),
		"`device` of both ends, or a,b: one for each (default: the first of "+adapters.Driver+" with an active port)")
	f.StringVar(&o.out, "o", "pureverbs-hw.json", "`file` for the result")
	f.StringVar(&o.run, "run", "^TestRXE", "only tests whose name matches this `regexp`")
	f.StringVar(&o.pkgs, "pkg", "", "only these `packages`, as in ibv,mlx5dv")
	f.BoolVar(&o.noSelftest, "no-selftest", false, "only the tests")
	f.BoolVar(&o.frames, "frames", os.Getenv("PUREVERBS_HW_FRAMES") == "1",
		"also send Ethernet frames and make steering rules, some of which take the host's traffic: root, an idle port")
	f.StringVar(&o.posts, "posts", "1e8", "`number` of posts of the BlueFlame soak")
	f.StringVar(&o.wakeups, "wakeups", "1e7", "`number` of wake-ups")
	f.IntVar(&o.limit, "limit", 600, "`seconds` that a step of rdmaperf selftest may take")
	f.DurationVar(&o.quiet, "quiet", 5*time.Minute, "end a package whose tests print nothing for so long")
	if err := f.Parse(args); err != nil {
		return 2
	}
	r, err := o.runAll(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "hwpack:", err)
		return 1
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err == nil {
		err = os.WriteFile(o.out, append(text, '\n'), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hwpack:", err)
		return 1
	}
	fmt.Printf("%d tests passed, %d failed, %d skipped. Please send %s back. It contains the host's name and "+
		"addresses.\n", r.Passed, r.Failed, r.Skipped, o.out)
	if r.Failed > 0 {
		return 4
	}
	return 0
}

func (o *options) runAll(ctx context.Context) (*Result, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	root := filepath.Dir(exe)
	devices, link, err := adapters.Choose(sysfs.DefaultRoot(), o.devices)
	if err != nil {
		return nil, err
	}
	r := &Result{Tool: "hwpack", SchemaVersion: 1, Program: "hwpack of pureverbs " + buildinfo.Version(),
		Started: time.Now().UTC(), Devices: devices, Link: link, Root: os.Geteuid() == 0, Frames: o.frames,
		Packages: []Package{}}
	defer func() { r.Seconds = time.Since(r.Started).Seconds() }()
	path := "PATH=" + filepath.Join(root, "bin") + ":" + os.Getenv("PATH")
	if !o.noSelftest {
		if r.Selftest, err = o.selftest(ctx, filepath.Join(root, "bin", "rdmaperf"), devices); err != nil {
			return nil, err
		}
	}
	binaries, err := filepath.Glob(filepath.Join(root, "test", "*.test"))
	if err != nil || len(binaries) == 0 {
		return nil, errors.Join(err, fmt.Errorf("no tests in %s", filepath.Join(root, "test")))
	}
	for _, b := range binaries {
		name := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(b), ".test"), "-", "/")
		if o.pkgs != "" && !slices.Contains(strings.Split(o.pkgs, ","), name) {
			continue
		}
		for _, data := range []string{"ops", "direct"} {
			if ctx.Err() != nil {
				return r, nil // what there is
			}
			if link == sysfs.LinkInfiniBand && slices.Contains(byIP, name) {
				p := newPackage(name, data)
				p.End = "not run: its tests connect by IP address"
				r.Packages = append(r.Packages, p)
				continue
			}
			env := append(os.Environ(), path, "PUREVERBS_TEST_TIER=hw", "PUREVERBS_HW_PACK=1", "GOTRACEBACK=all",
				"PUREVERBS_HW_DEVICES="+strings.Join(devices, ","), "PUREVERBS_DATAPATH="+data)
			if o.frames {
				env = append(env, "PUREVERBS_HW_FRAMES=1")
			}
			p := newPackage(name, data)
			o.test(ctx, b, filepath.Join(root, "src", filepath.FromSlash(name)), env, &p)
			fmt.Printf("%-12s %-6s %d passed, %d failed, %d skipped (%.0f s) %s\n", name, data, len(p.Passed),
				len(p.Failed), len(p.Skipped), p.Seconds, p.End)
			for _, t := range p.Failed {
				fmt.Printf("    failed: %s\n", t.Name)
			}
			r.Passed += len(p.Passed)
			r.Failed += len(p.Failed)
			r.Skipped += len(p.Skipped)
			r.Packages = append(r.Packages, p)
		}
	}
	return r, nil
}

// selftest runs rdmaperf selftest, and returns its result.
func (o *options) selftest(ctx context.Context, perf string, devices []string) (json.RawMessage, error) {
	dir, err := os.MkdirTemp("", "hwpack")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "selftest.json")
	args := []string{"selftest", "-d", strings.Join(devices, ","), "--posts", o.posts, "--wakeups", o.wakeups,
		"--limit", strconv.Itoa(o.limit), "--out-json-file", file}
	if o.frames {
		args = append(args, "--frames")
	}
	c := exec.CommandContext(ctx, perf, args...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	ran := c.Run()
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, errors.Join(ran, err)
	}
	return text, nil
}
