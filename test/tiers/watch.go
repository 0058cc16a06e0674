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
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// On a busy machine tests are slow, but only tests that hang are silent. So a test binary has no limit on how long it
// takes, but on how long it prints nothing; with go test -json each test prints when it begins and ends.

// alarm calls ring once when nothing has been read from r for limit.
type alarm struct {
	r     io.Reader
	limit time.Duration
	timer *time.Timer
}

func newAlarm(r io.Reader, limit time.Duration, ring func()) *alarm {
	return &alarm{r, limit, time.AfterFunc(limit, ring)}
}

func (a *alarm) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	if !a.timer.Stop() || err != nil {
		return n, err // it has rung, or has nothing to wait for any more
	}
	a.timer.Reset(a.limit)
	return n, err
}

// watch is `tiers watch [-usage FILE] [-keep DIR] QUIET PROGRAM ARG...`: it runs a program, passes on what it prints,
// and ends it, with its process group, when it has printed nothing for QUIET. It exits with the program's code, and
// with 124 after a hang. It appends the program's processor time to FILE. It puts the test binary that is among the
// arguments into DIR, for other tiers; with QUIET 0 that is all it does.
func watch(args []string, out io.Writer) int {
	usage := func(err error) int {
		fmt.Fprintln(os.Stderr, "tiers watch [-usage FILE] [-keep DIR] QUIET PROGRAM ARG...:", err)
		return 2
	}
	flags := flag.NewFlagSet("watch", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	usageFile := flags.String("usage", "", "")
	keepIn := flags.String("keep", "", "")
	if err := flags.Parse(args); err != nil {
		return usage(err)
	}
	args = flags.Args()
	if len(args) < 2 {
		return usage(errors.New("too few arguments"))
	}
	quiet, err := time.ParseDuration(args[0])
	if err != nil || quiet < 0 || quiet == 0 && *keepIn == "" {
		return usage(fmt.Errorf("QUIET %q: want a duration, as 5m", args[0]))
	}
	if *keepIn != "" {
		if err := keep(*keepIn, args[1:]); err != nil || quiet == 0 {
			if err == nil {
				return 0
			}
			return usage(err)
		}
	}
	// The program's death signal belongs to the thread that starts it.
	runtime.LockOSThread()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	pr, pw, err := os.Pipe()
	if err != nil {
		return usage(err)
	}
	defer pr.Close()
	c := exec.Command(args[1], args[2:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, pw, pw
	if gogc, ok := os.LookupEnv(testGOGC); ok {
		c.Env = append(os.Environ(), "GOGC="+gogc)
	}
	c.SysProcAttr = ownGroup(true)
	err = c.Start()
	pw.Close()
	if err != nil {
		return usage(err)
	}
	group := func(s syscall.Signal) { _ = signalGroup(c.Process.Pid, s) }
	var hung atomic.Bool
	read := make(chan struct{})
	go func() {
		defer close(read)
		a := newAlarm(pr, quiet, func() {
			hung.Store(true)
			group(syscall.SIGQUIT) // Go programs print their stacks
			time.AfterFunc(20*time.Second, func() { group(syscall.SIGKILL) })
		})
		_, _ = io.Copy(out, a)
	}()
	go func() {
		for range signals {
			group(syscall.SIGTERM)
			time.AfterFunc(5*time.Second, func() { group(syscall.SIGKILL) })
		}
	}()
	err = c.Wait()
	if *usageFile != "" {
		if err := noteRun(*usageFile, cpu(c)); err != nil {
			fmt.Fprintln(os.Stderr, "tiers watch:", err)
		}
	}
	select {
	case <-read:
	case <-time.After(time.Minute):
		fmt.Fprintf(out, "tiers: %s has ended, and what it started still holds its output\n", args[1])
		return 1
	}
	var exit *exec.ExitError
	switch {
	case hung.Load():
		fmt.Fprintf(out, "tiers: %s printed nothing for %v, and was ended\n", args[1], quiet)
		return 124
	case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled():
		s := exit.Sys().(syscall.WaitStatus).Signal()
		fmt.Fprintf(out, "tiers: %s: %v\n", args[1], s)
		return 128 + int(s)
	case err != nil && exit == nil:
		return usage(err)
	}
	return c.ProcessState.ExitCode()
}

// testGOGC names the environment variable with the GOGC of test binaries. That of all other commands is higher, which
// saves a quarter of the time of compiling.
const testGOGC = "PUREVERBS_TEST_GOGC"

// buildFlags are those of the Makefile, too. Without descriptions for a debugger, compiling takes a tenth less.
const buildFlags = " -trimpath '-ldflags=-s -w' -gcflags=all=-dwarf=false"

// command is a command in the root of the module, without cgo. When ctx ends, so does all that it started. All go
// commands below it compile alike, and so share what the cache has.
func (r *runner) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = r.root
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+os.Getenv("GOFLAGS")+buildFlags,
		"GOGC=400", testGOGC+"="+os.Getenv("GOGC"))
	if r.arch != "" {
		c.Env = append(c.Env, "GOARCH="+r.arch)
	}
	c.Stdout, c.Stderr = r.note, r.note
	c.SysProcAttr = ownGroup(false)
	c.Cancel = func() error { return signalGroup(c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	return c
}
