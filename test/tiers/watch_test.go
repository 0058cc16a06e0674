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

// watchEnv makes the test binary be `tiers watch`.
const watchEnv = "PUREVERBS_TIERS_WATCH"

func TestMain(m *testing.M) {
	if os.Getenv(watchEnv) != "" {
		os.Unsetenv(watchEnv)
		os.Exit(watch(os.Args[1:], os.Stdout))
	}
	os.Exit(m.Run())
}

func TestAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rung atomic.Int32
		pr, pw := io.Pipe()
		a := newAlarm(pr, time.Minute, func() { rung.Add(1) })
		go func() {
			for range 100 {
				time.Sleep(59 * time.Second)
				pw.Write([]byte("x"))
			}
		}()
		if _, err := io.ReadFull(a, make([]byte, 100)); err != nil || rung.Load() != 0 {
			t.Fatalf("%v, rung %d times in 98 minutes without a minute of silence", err, rung.Load())
		}
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if rung.Load() != 0 {
			t.Error("it rang too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if rung.Load() != 1 {
			t.Errorf("rung %d times after a minute of silence, want once", rung.Load())
		}
		pw.Close()
		if _, err := io.ReadAll(a); err != nil {
			t.Error(err)
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
		env  string
		end  func(cancel func(), c *exec.Cmd)
	}{
		{"the context of a command ends", []string{"sh", "-c", children}, "",
			func(cancel func(), c *exec.Cmd) { cancel() }},
		{"the context of a watched one ends", []string{os.Args[0], "1h", "sh", "-c", children}, watchEnv + "=1",
			func(cancel func(), c *exec.Cmd) { cancel() }},
		{"watch is told to end", []string{os.Args[0], "1h", "sh", "-c", children}, watchEnv + "=1",
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
			c := r.command(ctx, tt.args[0], tt.args[1:]...)
			c.Env = append(c.Env, tt.env)
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

// TestPlan has two tiers wait for each other, which they do for ever unless they run at the same time.
func TestPlan(t *testing.T) {
	met := make(chan bool)
	known := map[string]tier{
		"a": func(context.Context) ([]Result, error) { met <- true; return nil, nil },
		"b": func(context.Context) ([]Result, error) { return nil, nil },
		"c": func(context.Context) ([]Result, error) { <-met; return nil, nil },
	}
	plan := []string{"b,a+c"}
	if _, took := runTiers(t.Context(), io.Discard, plan, known); len(took) != 3 {
		t.Errorf("%d tiers ran", len(took))
	}
	if have := strings.Join(tiersOf([]string{"x", "b,a+c"}), " "); have != "x b a c" {
		t.Errorf("tiers %s", have)
	}
}

// TestRunTiers lets tiers fail in each way. The others still run, and the sums report the failures.
func TestRunTiers(t *testing.T) {
	tier := func(name string, s Status) []Result { return []Result{{name, "p", "TestA", s, ""}} }
	known := map[string]func(context.Context) ([]Result, error){
		"lint": func(context.Context) ([]Result, error) { return nil, errors.New("cannot begin") },
		"unit": func(context.Context) ([]Result, error) { return tier("unit", Fail), nil },
		"race": func(context.Context) ([]Result, error) { return tier("race", Pass), errors.New("in its midst") },
		"emu":  func(context.Context) ([]Result, error) { return tier("emu", Pass), nil },
	}
	order := []string{"lint", "unit", "race", "emu"}
	printed := func(ctx context.Context) string {
		var b strings.Builder
		results, took := runTiers(ctx, io.Discard, order, known)
		if report(&b, tiersOf(order), results, nil, took) {
			t.Error("all is well")
		}
		return b.String() + sums(results)
	}
	for _, plan := range [][]string{order, {"lint,unit+race", "emu"}, {"lint+unit+race+emu"}} {
		order = plan
		for _, want := range []string{"tier lint: 0 passed, 1 failed", "tier unit: 0 passed, 1 failed",
			"tier race: 1 passed, 1 failed", "tier emu: 1 passed, 0 failed", "\n2 passed, 3 failed, 0 skipped\n"} {
			if got := printed(t.Context()); !strings.Contains(got, want) {
				t.Errorf("%q: no %q in\n%s", plan, want, got)
			}
		}
	}
	order = []string{"lint", "unit", "race", "emu"}
	ctx, cancel := context.WithCancel(t.Context())
	known["race"] = func(context.Context) ([]Result, error) { cancel(); return tier("race", Pass), nil }
	if got := printed(ctx); !strings.Contains(got, "tier race: 1 passed") || !strings.Contains(got,
		"tier emu: not run\n") {
		t.Errorf("interrupted in tier race:\n%s", got)
	}
}
