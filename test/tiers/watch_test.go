//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestMain makes the test binary be `tiers watch`, which the runner starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "watch" {
		os.Exit(watch(os.Args[2:], os.Stdout))
	}
	os.Exit(m.Run())
}

func TestAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rung atomic.Int32
		var passed bytes.Buffer
		a := newAlarm(&passed, time.Minute, func() { rung.Add(1) })
		for range 100 {
			time.Sleep(59 * time.Second)
			if n, err := a.Write([]byte("x")); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		if rung.Load() != 0 || passed.Len() != 100 {
			t.Fatalf("rung %d times in 98 minutes without a minute of silence; %d bytes", rung.Load(), passed.Len())
		}
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if rung.Load() != 0 {
			t.Error("it rang too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if _, _ = a.Write([]byte("x")); rung.Load() != 1 {
			t.Errorf("rung %d times after a minute of silence, want once", rung.Load())
		}
		time.Sleep(time.Hour)
		if synctest.Wait(); rung.Load() != 1 {
			t.Errorf("rung %d times, want once", rung.Load())
		}
	})
}

func TestWatch(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"passes on", []string{"1h", "sh", "-c", "echo out; echo err >&2; exit 7"}, 7, "out\nerr\n"},
		{"silence", []string{"3s", "sh", "-c", "echo hello; sleep 10000"}, 124,
			"hello\ntiers: sh printed nothing for 3s, and was ended\n"},
		{"killed", []string{"1h", "sh", "-c", "kill -KILL $$"}, 137, "tiers: sh: killed\n"},
		{"no duration", []string{"soon", "true"}, 2, ""},
		{"no limit", []string{"0s", "true"}, 2, ""},
		{"nothing to run", []string{"1h"}, 2, ""},
		{"no such program", []string{"1h", "/no/such/program"}, 2, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			if code := watch(tt.args, &out); code != tt.code || out.String() != tt.want {
				t.Errorf("code %d, %q; want %d, %q", code, out.String(), tt.code, tt.want)
			}
		})
	}
}

func TestWatch_GOGC(t *testing.T) {
	t.Setenv("GOGC", "400")
	for _, gogc := range []string{"", "50"} {
		t.Setenv(testGOGC, gogc)
		var out bytes.Buffer
		if watch([]string{"1h", "sh", "-c", "echo $GOGC"}, &out); out.String() != gogc+"\n" {
			t.Errorf("GOGC is %q, want %q", out.String(), gogc)
		}
	}
}

// ends reports whether all processes that write to r have ended: only then does r end.
func ends(t *testing.T, r io.Reader) {
	t.Helper()
	end := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, r)
		end <- err
	}()
	select {
	case <-end:
	case <-time.After(3 * time.Minute):
		t.Error("something of it still runs")
	}
}

// TestInterrupt interrupts a run in each way, and checks that no process below it goes on.
func TestInterrupt(t *testing.T) {
	const children = "sleep 10000 & echo ready; sleep 10000"
	for _, tt := range []struct {
		name string
		args []string
		end  func(cancel func(), c *exec.Cmd)
	}{
		{"the context of a command ends", []string{"sh", "-c", children},
			func(cancel func(), c *exec.Cmd) { cancel() }},
		{"the context of a watched one ends", []string{os.Args[0], "watch", "1h", "sh", "-c", children},
			func(cancel func(), c *exec.Cmd) { cancel() }},
		{"watch is told to end", []string{os.Args[0], "watch", "1h", "sh", "-c", children},
			func(_ func(), c *exec.Cmd) { c.Process.Signal(syscall.SIGTERM) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			pr, pw, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer pr.Close()
			r := &runner{root: ".", note: io.Discard}
			c := r.command(ctx, nil, tt.args...)
			c.Stdout, c.Stderr = pw, pw
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			pw.Close()
			if _, err := io.ReadFull(pr, make([]byte, len("ready\n"))); err != nil {
				t.Fatal(err)
			}
			tt.end(cancel, c)
			_ = c.Wait()
			ends(t, pr)
		})
	}
}

// TestRunTiers lets tiers fail in each way. The others still run, and the sums report the failures.
func TestRunTiers(t *testing.T) {
	old := tiers
	defer func() { tiers = old }()
	of := func(name string, s Status) []Result { return []Result{{name, "p", "TestA", s, ""}} }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tiers = map[string]func(*runner, context.Context) []Result{
		"lint": func(r *runner, _ context.Context) []Result {
			return []Result{r.failed("tiers", "(build)", errors.New("cannot begin"))}
		},
		"unit": func(r *runner, _ context.Context) []Result { return of("unit", Fail) },
		"race": func(r *runner, _ context.Context) []Result {
			return append(of("race", Pass), r.failed("p", "(run)", errors.New("in its midst")))
		},
		"emu":   func(r *runner, _ context.Context) []Result { return of("emu", Pass) },
		"bench": func(r *runner, _ context.Context) []Result { cancel(); return of("bench", Pass) },
	}
	printed := func(order ...string) string {
		var b strings.Builder
		r := &runner{work: t.TempDir(), note: io.Discard}
		results, took := r.runTiers(ctx, order)
		if report(&b, order, results, nil, took) {
			t.Error("all is well")
		}
		return b.String() + counts(results).String()
	}
	got := printed("lint", "unit", "race", "emu")
	for _, want := range []string{"tier lint: 0 passed, 1 failed", "tier unit: 0 passed, 1 failed",
		"tier race: 1 passed, 1 failed", "tier emu: 1 passed, 0 failed", "\n2 passed, 3 failed, 0 skipped"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if got := printed("unit", "bench", "emu"); !strings.Contains(got, "tier bench: 1 passed") ||
		!strings.Contains(got, "tier emu: not run\n") {
		t.Errorf("interrupted in tier bench:\n%s", got)
	}
}
