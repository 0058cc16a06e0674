// Package command is the program rdmaperf: its commands, their flags and what they print.
package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/term"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/doctor"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/engine"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/report"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/session"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/buildinfo"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	exitLimit   = 3 // a figure misses a limit that was given
	exitUnknown = 4 // of a host of a mesh nobody knows whether it is good
	exitUnmet   = agent.ExitUnmet
)

// Main runs rdmaperf and exits.
func Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := runAs(ctx, os.Args[0], os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// runAs is the program, started by a path: arguments in, an exit code out.
func runAs(ctx context.Context, path string, args []string, stdout, stderr io.Writer) int {
	out := &output{w: stdout}
	args = slices.Concat(perftestWords(path), args)
	code := (&invocation{path: path, args: args, stdout: out, stderr: stderr}).execute(ctx)
	if out.err != nil && code != exitFailure {
		say(stderr, out.err)
		return exitFailure
	}
	return code
}

// end ends a command: an error is printed, and its exit code is that of failure, unless it has one.
func (v *invocation) end(code int, err error) {
	if v.code = code; err != nil {
		say(v.stderr, err)
		v.code = cmp.Or(code, exitFailure)
	}
}

// printer prints a test for people.
type printer interface {
	Begin()
	Waiting()
	Header(session.Setup)
	Size(measure.Size)
	Interval(size uint64, i measure.Interval)
	Footer(res *engine.Result, err error)
}

// runTest is rdmaperf write, read, send and atomic.
func (v *invocation) runTest(ctx context.Context) int {
	o, stdout, stderr := &v.test, v.stdout, v.stderr
	for _, n := range o.notes {
		say(stderr, errors.New(n))
	}
	files := o.files()
	if err := o.canBegin(ctx, files); err != nil {
		say(stderr, err)
		return exitFailure
	}
	if o.agentPort != 0 {
		c, err := o.askAgent(ctx)
		if err != nil {
			say(stderr, err)
			return exitFailure
		}
		defer c.Close()
	}
	table := report.Table{W: stdout, Plan: &o.plan, Histogram: o.histogram, Only: o.only}
	var text printer = table
	if perftestWords(v.path) != nil && len(o.rails) < 2 {
		o.plan.Report.Unsorted = o.plan.Report.Unsorted || o.histogram
		text = report.Stock{W: stdout, Diag: stderr, Plan: &o.plan, Asked: &o.asked, Histogram: o.histogram,
			Counters: o.counterNames, Only: o.only}
	}
	if o.format == formatText {
		text.Begin()
	}
	bar := &report.Progress{W: stderr}
	var mu sync.Mutex // the progress line is written from another goroutine
	locked := func(f func()) { mu.Lock(); defer mu.Unlock(); f() }

	hooks := engine.Hooks{
		Waiting: func(port int) {
			if o.plan.Transport == wire.RawEth {
				fmt.Fprintln(stderr, "rdmaperf: waiting for frames")
				return
			}
			kind := "TCP"
			if o.plan.ByCM() {
				kind = "rdma_cm"
			}
			fmt.Fprintf(stderr, "rdmaperf: waiting for a client on %s port %d\n", kind, port)
			if o.format == formatText {
				text.Waiting()
			}
		},
	}
	var once sync.Once // a health check may come every few seconds
	hooks.Strange = func(addr string, why error) {
		once.Do(func() { say(stderr, fmt.Errorf("%s is no client: %w; waiting for one", addr, why)) })
	}
	var warnings []doctor.Finding
	warn := func(s *session.Setup) {
		l := &s.Local
		mtu := l.ActiveMTU
		if o.plan.Load.Size <= uint64(mtu) {
			mtu = 0 // messages fit into a packet
		}
		for _, w := range doctor.Spoilers(doctor.This(), l.Device, int(l.Port), l.GIDIndex, mtu) {
			if slices.Contains(warnings, w) {
				continue // of the host, by another device
			}
			warnings = append(warnings, w)
			if o.format != formatJSON { // the object has them
				say(stderr, w.Warning())
			}
		}
	}
	hooks.Ready = func(s session.Setup) {
		o.plan.Queues.QPs, o.plan.Load.Infinite = s.QPs, s.Infinite // the peer may have decided
		warn(&s)
		if o.format == formatText {
			text.Header(s)
		}
	}
	hooks.Rails = func(list []engine.Rail) {
		for i := range list {
			if list[i].Err == nil {
				o.plan.Queues.QPs, o.plan.Load.Infinite = list[i].Setup.QPs, list[i].Setup.Infinite
				warn(&list[i].Setup)
			}
		}
		if o.format == formatText {
			table.Rails(list)
		}
	}
	if o.format == formatText {
		hooks.Size = func(r measure.Size) {
			locked(func() { bar.Clear(); text.Size(r) })
		}
		hooks.Interval = func(size uint64, i measure.Interval) {
			locked(func() { bar.Clear(); text.Interval(size, i) })
		}
	}
	if isTerminal(stderr) {
		hooks.Progress = func(p engine.Progress) {
			locked(func() { bar.Update(p) })
		}
	}
	secret := wire.Secret(os.Getenv(wire.SecretEnv))
	ctx = secret.With(ctx)
	start := func() (*engine.Result, error) { return engine.Run(ctx, o.plan, hooks) }
	if len(o.rails) > 1 {
		start = func() (*engine.Result, error) { return engine.RunRails(ctx, o.rails, hooks) }
	}
	res, err := start()
	locked(bar.Clear)
	missed := o.limits.MissedBy(res.Sizes)
	outcome := report.Outcome{Plan: &o.plan, Result: res, Program: program(), Command: v.args, Host: report.ThisHost(),
		Histogram: o.histogram, Only: o.only, Failure: err, Missed: missed, Warnings: warnings}
	switch o.format {
	case formatJSON:
		err = errors.Join(err, outcome.JSON(stdout))
	case formatCSV:
		err = errors.Join(err, outcome.CSV(stdout))
	default:
		text.Footer(res, err)
	}
	for name, form := range files {
		err = errors.Join(err, save(name, func(w io.Writer) error { return form(&outcome, w) }))
	}
	if err != nil {
		sayFailed(ctx, stderr, err)
		if meet := (*wire.MeetError)(nil); secret != "" && errors.As(err, &meet) {
			return exitUnmet
		}
		return exitFailure
	}
	if len(missed) > 0 {
		say(stderr, errors.Join(missed...))
		return exitLimit
	}
	return exitOK
}

// canBegin returns why a run would be of no use.
func (o *options) canBegin(ctx context.Context, files map[string]form) error {
	for name := range files {
		if err := writable(name); err != nil {
			return err
		}
	}
	if o.asked.Memory.OutOfReach() {
		if err := keepOut(); err != nil {
			return err
		}
	}
	if len(o.rails) < 2 || o.asked.Link.Device == "" {
		return nil
	}
	for _, p := range o.rails {
		if _, err := session.Try(ctx, p); err != nil {
			return fmt.Errorf("device (-d) %s: %w", p.Link.Device, err)
		}
	}
	return nil
}

// form writes an outcome.
type form = func(*report.Outcome, io.Writer) error

// files returns the files that get an object, and its form.
func (o *options) files() map[string]form {
	m := map[string]form{}
	if o.jsonFile != "" && o.plan.Measures() { // perftest writes none without figures
		m[o.jsonFile] = (*report.Outcome).Perftest
	}
	if o.ownFile != "" {
		m[o.ownFile] = (*report.Outcome).JSON
	}
	return m
}

// keepOut has libmlx5 keep short messages out of completions: it copies them to where they belong with the processor,
// which does not reach memory of a device or of a GPU. The library reads the environment that the program was started
// with, so that the program starts again.
func keepOut() error {
	const name, off = "MLX5_SCATTER_TO_CQE", "0"
	if os.Getenv(name) == off {
		return nil
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Setenv(name, off); err != nil {
		return err
	}
	return fmt.Errorf("start again with %s=%s, which memory out of the processor's reach needs: %w", name, off,
		syscall.Exec(exe, os.Args, os.Environ()))
}

// program is the name and the version of this program.
func program() string { return "rdmaperf of pureverbs " + buildinfo.Version() }

// programAndCommit is program with the commit, for --version.
func programAndCommit() string { return "rdmaperf of pureverbs " + buildinfo.Full() }

// say prints joined errors, one message for each of their lines. They may have text from the peer or from sysfs.
func say(w io.Writer, err error) {
	for _, e := range split(err) {
		for line := range strings.Lines(e.Error()) {
			fmt.Fprintf(w, "rdmaperf: %s\n", printable.Message(strings.TrimSuffix(line, "\n")))
		}
		if wc := (*ibv.WCError)(nil); errors.As(e, &wc) {
			fmt.Fprintf(w, "rdmaperf: %s\n", wc.Advice())
			if wc.Posted != nil {
				fmt.Fprintf(w, "rdmaperf: %s\n", strings.ReplaceAll(wc.Posted.String(), "\n", "\nrdmaperf:   "))
			}
		}
	}
}

// sayFailed is say for a test that failed, maybe because it was interrupted.
func sayFailed(ctx context.Context, w io.Writer, err error) {
	if ctx.Err() != nil {
		err = fmt.Errorf("interrupted: %w", err)
	}
	say(w, err)
}

// split takes joined errors apart. One that wraps several in a text of its own stays whole.
func split(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok && err.Error() == errors.Join(j.Unwrap()...).Error() {
		return j.Unwrap()
	}
	return []error{err}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
