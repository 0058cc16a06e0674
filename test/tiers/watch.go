//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// On a busy machine tests are slow, but only tests that hang are silent. So a test binary has no limit on how long it
// takes, but on how long it prints nothing; with go test -json each test prints when it begins and ends.

// alarm passes on what is written, and rings once when nothing has been written for limit.
type alarm struct {
	w     io.Writer
	limit time.Duration
	timer *time.Timer
}

func newAlarm(w io.Writer, limit time.Duration, ring func()) *alarm {
	return &alarm{w, limit, time.AfterFunc(limit, ring)}
}

func (a *alarm) Write(p []byte) (int, error) {
	if a.timer.Stop() {
		a.timer.Reset(a.limit)
	}
	return a.w.Write(p)
}

// watch is `tiers watch [-keep DIR] QUIET PROGRAM ARG...`: it runs a program, passes on what it prints, and ends it,
// with its process group, when it has printed nothing for QUIET. It exits with the program's code, and with 124 after a
// hang. It puts the program, a test binary, into DIR, for other tiers; with QUIET 0 that is all it does.
func watch(args []string, out io.Writer) int {
	usage := func(err error) int {
		fmt.Fprintln(os.Stderr, "tiers watch [-keep DIR] QUIET PROGRAM ARG...:", err)
		return 2
	}
	flags := flag.NewFlagSet("watch", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	keepIn := flags.String("keep", "", "")
	if err := flags.Parse(args); err != nil {
		return usage(err)
	}
	if args = flags.Args(); len(args) < 2 {
		return usage(errors.New("too few arguments"))
	}
	quiet, err := time.ParseDuration(args[0])
	if err != nil || quiet < 0 || quiet == 0 && *keepIn == "" {
		return usage(fmt.Errorf("QUIET %q: want a duration, as 5m", args[0]))
	}
	if *keepIn != "" {
		if err := keep(*keepIn, args[1]); err != nil {
			return usage(err)
		}
		if quiet == 0 {
			return 0
		}
	}
	runtime.LockOSThread() // the program's death signal belongs to the thread that starts it
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := exec.CommandContext(ctx, args[1], args[2:]...)
	var hung atomic.Bool
	// end ends the process group, with SIGKILL if it does not end in time.
	end := func(s syscall.Signal, in time.Duration) {
		_ = syscall.Kill(-c.Process.Pid, s)
		time.AfterFunc(in, func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) })
	}
	c.Cancel = func() error { end(syscall.SIGTERM, 5*time.Second); return nil }
	a := newAlarm(out, quiet, func() {
		hung.Store(true)
		end(syscall.SIGQUIT, 20*time.Second) // Go programs print their stacks
	})
	defer a.timer.Stop()
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, a, a
	c.WaitDelay = time.Minute
	if gogc, ok := os.LookupEnv(testGOGC); ok {
		c.Env = append(os.Environ(), "GOGC="+gogc)
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	err = c.Run()
	state := c.ProcessState
	if state == nil {
		return usage(err)
	}
	status := state.Sys().(syscall.WaitStatus)
	switch {
	case hung.Load():
		fmt.Fprintf(out, "tiers: %s printed nothing for %v, and was ended\n", args[1], quiet)
		return 124
	case errors.Is(err, exec.ErrWaitDelay):
		fmt.Fprintf(out, "tiers: %s has ended, and what it started still holds its output\n", args[1])
		return 1
	case status.Signaled():
		fmt.Fprintf(out, "tiers: %s: %v\n", args[1], status.Signal())
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// cpu returns the processor time of a command that has ended, and of all its descendants that were waited for.
func cpu(c *exec.Cmd) time.Duration {
	if c.ProcessState == nil {
		return 0
	}
	return c.ProcessState.UserTime() + c.ProcessState.SystemTime()
}

// phase is a step of scripts/setup.
type phase struct {
	name       string
	begin, end float64 // seconds
}

// setupTimes is the file in which scripts/setup writes a line `NAME BEGIN END` for each step, in seconds.
const setupTimes = ".build/setup-times"

func readPhases(root string) (list []phase) {
	text, _ := os.ReadFile(filepath.Join(root, setupTimes))
	for line := range strings.Lines(string(text)) {
		var p phase
		if n, _ := fmt.Sscanf(line, "%s %f %f", &p.name, &p.begin, &p.end); n == 3 {
			list = append(list, p)
		}
	}
	slices.SortStableFunc(list, func(a, b phase) int { return int(1000 * (a.begin - b.begin)) })
	return list
}

// printUsage prints a table of where the time went: a line for each step of the set-up that took a second or more, a
// line for each tier, and the sums.
func printUsage(w io.Writer, tiers []string, used map[string]*usage, phases []phase, wall time.Duration) {
	fmt.Fprintf(w, "\n%-22s %7s %9s %5s\n", "where the time went, s", "wall", "processor", "busy")
	for _, p := range phases {
		if took := p.end - p.begin; took >= 1 {
			fmt.Fprintf(w, "%-22s %7.0f\n", "set-up: "+p.name, took)
		}
	}
	line := func(name string, wall, cpu time.Duration) {
		fmt.Fprintf(w, "%-22s %7.0f %9.0f %4.0f%%\n", name, wall.Seconds(), cpu.Seconds(),
			100*cpu.Seconds()/max(wall.Seconds(), 1e-3)/float64(runtime.NumCPU()))
	}
	var sum time.Duration
	for _, t := range tiers {
		if u := used[t]; u != nil {
			cpu := time.Duration(u.cpu.Load())
			line("tier "+t, u.wall, cpu)
			sum += cpu
		}
	}
	line("all", wall, sum)
}
