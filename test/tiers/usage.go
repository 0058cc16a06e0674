package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// usage is where the time of a tier goes. compile and run are processor time of the tier's commands and everything
// below them. All that the go command does, except for running test binaries, counts as compiling.
type usage struct {
	mu                     sync.Mutex
	wall                   time.Duration
	download, compile, run time.Duration
}

type usageKey struct{}

// withUsage returns a context whose commands count in u.
func withUsage(ctx context.Context, u *usage) context.Context {
	return context.WithValue(ctx, usageKey{}, u)
}

// used adds to the usage of ctx, if it has one.
func used(ctx context.Context, download, compile, run time.Duration) {
	if u, _ := ctx.Value(usageKey{}).(*usage); u != nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.download += download
		u.compile += max(compile, 0)
		u.run += run
	}
}

// cpu returns the processor time of a command that has ended, and of all its descendants that were waited for.
func cpu(c *exec.Cmd) time.Duration {
	if c.ProcessState == nil {
		return 0
	}
	return c.ProcessState.UserTime() + c.ProcessState.SystemTime()
}

// noteRun appends the processor time of a test binary to a file, which several processes may share.
func noteRun(file string, d time.Duration) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%d\n", d)
	return errors.Join(err, f.Close())
}

// ranFor returns the sum of what noteRun wrote.
func ranFor(file string) time.Duration {
	text, _ := os.ReadFile(file)
	var sum time.Duration
	for _, f := range strings.Fields(string(text)) {
		n, _ := strconv.ParseInt(f, 10, 64)
		sum += time.Duration(n)
	}
	return sum
}

// phase is a step of scripts/setup.
type phase struct {
	name       string
	begin, end float64 // seconds
}

// setupTimes is the file in which scripts/setup writes a line `NAME BEGIN END` for each step, in seconds.
const setupTimes = ".build/setup-times"

// notePhase appends to the file what began at start and has ended.
func notePhase(root, name string, start time.Time) {
	f, err := os.OpenFile(filepath.Join(root, setupTimes), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return // there is no table without .build
	}
	seconds := func(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }
	fmt.Fprintf(f, "%s %f %f\n", name, seconds(start), seconds(time.Now()))
	_ = f.Close()
}

func readPhases(root string) []phase {
	f, err := os.Open(filepath.Join(root, setupTimes))
	if err != nil {
		return nil
	}
	defer f.Close()
	var list []phase
	for s := bufio.NewScanner(f); s.Scan(); {
		var p phase
		if n, _ := fmt.Sscanf(s.Text(), "%s %f %f", &p.name, &p.begin, &p.end); n == 3 {
			list = append(list, p)
		}
	}
	slices.SortStableFunc(list, func(a, b phase) int { return int(1000 * (a.begin - b.begin)) })
	return list
}

// printUsage prints a table of where the time went: a line for each step of the set-up that took a second or more, a
// line for each tier, and the sums.
func printUsage(w io.Writer, tiers []string, used map[string]*usage, phases []phase, wall time.Duration) {
	fmt.Fprintf(w, "\n%-22s %7s %9s %11s %7s %5s\n", "where the time went, s", "wall", "download", "compile CPU",
		"run CPU", "busy")
	for _, p := range phases {
		if took := p.end - p.begin; took >= 1 {
			fmt.Fprintf(w, "%-22s %7.0f %9.0f\n", "set-up: "+p.name, took, took)
		}
	}
	line := func(name string, u *usage) {
		busy := 0.0
		if u.wall > 0 {
			busy = 100 * (u.compile + u.run).Seconds() / u.wall.Seconds() / float64(runtime.NumCPU())
		}
		fmt.Fprintf(w, "%-22s %7.0f %9.0f %11.0f %7.0f %4.0f%%\n", name, u.wall.Seconds(), u.download.Seconds(),
			u.compile.Seconds(), u.run.Seconds(), busy)
	}
	sum := usage{wall: wall}
	for _, t := range tiers {
		if u := used[t]; u != nil {
			line("tier "+t, u)
			sum.compile += u.compile
			sum.run += u.run
			sum.download += u.download
		}
	}
	line("all", &sum)
}
