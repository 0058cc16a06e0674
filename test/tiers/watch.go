//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
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

// watch is `tiers watch QUIET PROGRAM ARG...`: it runs a program, passes on what it prints, and ends it, with its
// process group, when it has printed nothing for QUIET. It exits with the program's code, and with 124 after a hang.
func watch(args []string, out io.Writer) int {
	usage := func(err error) int {
		fmt.Fprintln(os.Stderr, "tiers watch QUIET PROGRAM ARG...:", err)
		return 2
	}
	if len(args) < 2 {
		return usage(errors.New("too few arguments"))
	}
	quiet, err := time.ParseDuration(args[0])
	if err != nil || quiet <= 0 {
		return usage(fmt.Errorf("QUIET %q: want a duration, as 5m", args[0]))
	}
	runtime.LockOSThread() // the program's death signal belongs to the thread that starts it
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	hung := errors.New("silent")
	ctx, cancel := context.WithCancelCause(interrupted)
	a := newAlarm(out, quiet, func() { cancel(hung) })
	defer a.timer.Stop()
	c := exec.CommandContext(ctx, args[1], args[2:]...)
	c.Cancel = func() error { // the process group, with SIGKILL if it does not end in time
		s, in := syscall.SIGTERM, 5*time.Second
		if context.Cause(ctx) == hung {
			s, in = syscall.SIGQUIT, 20*time.Second // Go programs print their stacks
		}
		time.AfterFunc(in, func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) })
		return syscall.Kill(-c.Process.Pid, s)
	}
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
	case context.Cause(ctx) == hung:
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

// setupTimes is the file in which scripts/setup writes a line `NAME SECONDS` for each step.
const setupTimes = ".build/setup-times"

// printUsage prints a table of where the time went: a line for each step of the set-up that took a second or more, a
// line for each tier, and the sums.
func printUsage(w io.Writer, tiers []string, used map[string]*usage, setup string, wall time.Duration) {
	fmt.Fprintf(w, "\n%-22s %7s %9s %5s\n", "where the time went, s", "wall", "processor", "busy")
	for line := range strings.Lines(setup) {
		var name string
		var took int
		if _, _ = fmt.Sscan(line, &name, &took); took > 0 {
			fmt.Fprintf(w, "%-22s %7d\n", "set-up: "+name, took)
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
