// Perf measures bandwidth and latency between two ends, as perftest does, and
// talks to perftest's programs as well as to itself.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/term"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/engine"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/layer"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/report"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program: arguments in, an exit code out.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && (args[0] == string(layer.Stream) || args[0] == string(layer.Message)) {
		return runLayer(ctx, args, stdout, stderr)
	}
	o, err := parse(args)
	if errors.Is(err, errHelp) {
		fmt.Fprint(stdout, usage())
		return exitOK
	}
	if err != nil {
		for _, e := range split(err) {
			say(stderr, e)
		}
		fmt.Fprintln(stderr, "perf --help shows how it is used")
		return exitUsage
	}
	table := report.Table{W: stdout, Plan: &o.plan}
	bar := &report.Progress{W: stderr}
	var mu sync.Mutex // the progress line is written from another goroutine
	locked := func(f func()) { mu.Lock(); defer mu.Unlock(); f() }

	hooks := engine.Hooks{
		Waiting: func(port int) {
			kind := "TCP"
			if o.plan.RDMACM {
				kind = "rdma_cm"
			}
			fmt.Fprintf(stderr, "perf: waiting for a client on %s port %d\n", kind, port)
		},
	}
	if !o.json {
		hooks.Ready = table.Header
		hooks.Size = func(r measure.Size) {
			locked(func() { bar.Clear(); table.Size(r) })
		}
	}
	if isTerminal(stderr) {
		hooks.Progress = func(size, done, want uint64) {
			locked(func() { bar.Update(size, done, want) })
		}
	}
	res, err := engine.Run(ctx, o.plan, hooks)
	locked(bar.Clear)
	if o.json {
		if jerr := report.JSON(stdout, &o.plan, res, o.histogram, err); jerr != nil {
			err = errors.Join(err, jerr)
		}
	} else {
		table.Footer(res)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("interrupted: %w", err)
		}
		for _, e := range split(err) {
			say(stderr, e)
		}
		return exitFailure
	}
	return exitOK
}

// say prints an error, in which may stand what came from the peer or from sysfs, one message for each of its lines.
func say(w io.Writer, err error) {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(w, "perf: %s\n", printable.Message(strings.TrimSuffix(line, "\n")))
	}
	if wc := (*ibv.WCError)(nil); errors.As(err, &wc) {
		fmt.Fprintf(w, "perf: %s\n", wc.Advice())
	}
}

// split takes joined errors apart, to print each on its line.
func split(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return []error{err}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
