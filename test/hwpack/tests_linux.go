package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Lines of a test binary with -test.v.
var (
	nowLine = regexp.MustCompile(`^=== (?:RUN|CONT|NAME) +(\S+)$`)
	endLine = regexp.MustCompile(`^( *)--- (PASS|FAIL|SKIP): (\S+) \(`)
)

// parser reads the output of a test binary. Subtests count as part of their test.
type parser struct {
	now     string            // the test that prints
	output  map[string]string // by top-level test, until it ends
	running []string          // top-level tests that have begun and not ended
	pkg     *Package
}

func newParser(p *Package) *parser { return &parser{output: map[string]string{}, pkg: p} }

// most is how much of a test's output is kept.
const most = 6 << 10

func (p *parser) line(text string) {
	if m := nowLine.FindStringSubmatch(text); m != nil {
		p.now, _, _ = strings.Cut(m[1], "/")
		if strings.HasPrefix(text, "=== RUN") && m[1] == p.now && !slices.Contains(p.running, p.now) {
			p.running = append(p.running, p.now)
		}
		return
	}
	m := endLine.FindStringSubmatch(text)
	if m == nil || m[1] != "" {
		p.output[p.now] = clip(p.output[p.now] + text + "\n")
		return
	}
	p.finish(m[3], m[2])
}

// clip drops the middle of a text that is too long.
func clip(s string) string {
	if len(s) <= 2*most {
		return s
	}
	return s[:most/2] + "\n[...]\n" + s[len(s)-most/2:]
}

func (p *parser) finish(name, how string) {
	t := Test{name, p.output[name]}
	delete(p.output, name)
	p.running = slices.DeleteFunc(p.running, func(n string) bool { return n == name })
	switch how {
	case "PASS":
		p.pkg.Passed = append(p.pkg.Passed, name)
	case "FAIL":
		p.pkg.Failed = append(p.pkg.Failed, t)
	case "SKIP":
		t.Output = strings.TrimSpace(t.Output)
		p.pkg.Skipped = append(p.pkg.Skipped, t)
	}
}

// end fails the tests that were running when the process ended.
func (p *parser) end(how string) {
	for _, name := range slices.Clone(p.running) {
		if p.now != name {
			p.output[name] += p.output[p.now]
		}
		p.output[name] += how + "\n"
		p.finish(name, "FAIL")
	}
}

// done returns the names of all tests that have ended.
func (p *parser) done() (names []string) {
	names = slices.Clone(p.pkg.Passed)
	for _, t := range slices.Concat(p.pkg.Failed, p.pkg.Skipped) {
		names = append(names, t.Name)
	}
	return names
}

// crashes is how many times a package is started again after a crash or a hang, without the tests that have run.
const crashes = 5

// test runs the tests of a package.
func (o *options) test(ctx context.Context, binary, dir string, env []string, pkg *Package) {
	began := time.Now()
	p := newParser(pkg)
	skip := "^TestRXEFigures|^TestRXERatios"
	for range crashes {
		how := o.process(ctx, binary, dir, skip, env, p)
		if how == "" {
			break
		}
		before := len(p.done())
		p.end(how)
		pkg.End = how
		if ctx.Err() != nil || len(p.done()) == before {
			break // it would end like this again
		}
		skip = "^TestRXEFigures|^TestRXERatios|^(" + strings.Join(p.done(), "|") + ")$"
	}
	pkg.Seconds = time.Since(began).Seconds()
}

// process runs a test binary once. It returns "" if the binary came to its end, whatever its tests said.
func (o *options) process(ctx context.Context, binary, dir, skip string, env []string, p *parser) string {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err.Error()
	}
	c := exec.CommandContext(ctx, binary, "-test.v", "-test.run="+o.run, "-test.skip="+skip, "-test.timeout=2h")
	c.Dir, c.Env = dir, env
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	out, in, err := os.Pipe()
	if err != nil {
		return err.Error()
	}
	defer out.Close()
	c.Stdout, c.Stderr = in, in
	err = c.Start()
	in.Close()
	if err != nil {
		return err.Error()
	}
	var hung atomic.Bool
	quiet := time.AfterFunc(o.quiet, func() {
		hung.Store(true)
		_ = syscall.Kill(c.Process.Pid, syscall.SIGQUIT) // its stacks are printed
		time.AfterFunc(5*time.Second, func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) })
	})
	ended := false
	br := bufio.NewReader(out)
	for {
		line, err := br.ReadString('\n')
		quiet.Reset(o.quiet)
		if line = strings.TrimSuffix(line, "\n"); line == "PASS" || line == "FAIL" {
			ended = true
		} else if line != "" {
			p.line(line)
		}
		if err != nil {
			break // the end, because all that had the pipe have closed it
		}
	}
	quiet.Stop()
	err = c.Wait()
	switch {
	case hung.Load():
		return fmt.Sprintf("printed nothing for %v", o.quiet)
	case ended:
		return ""
	case err == nil:
		return "ended without a result"
	}
	return err.Error()
}
