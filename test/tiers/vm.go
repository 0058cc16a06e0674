package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// rxe builds the tests of every package that has some for the rxe tier, runs
// them all in one VM, one package after another, and collects the results.
func (r *runner) rxe(ctx context.Context) ([]Result, error) {
	prefix := "TestRXE"
	if r.figures {
		prefix = "TestRXEFigures"
	}
	if r.ratios {
		prefix = "TestRXERatios"
	}
	dirs, err := packagesWith(r.root, prefix, r.pkg)
	if err != nil || len(dirs) == 0 {
		return nil, errors.Join(err, errIf(len(dirs) == 0, "no package has a "+prefix+" function"))
	}

	payload := filepath.Join(r.root, ".build", "payload"+strconv.Itoa(os.Getpid()))
	defer os.RemoveAll(payload)
	for _, d := range []string{"bin", "test"} {
		if err := os.MkdirAll(filepath.Join(payload, d), 0o755); err != nil {
			return nil, err
		}
	}
	results, err := r.buildPrograms(ctx, filepath.Join(payload, "bin"))
	if err != nil {
		return nil, err
	}

	run := r.run
	if run == "" {
		run = "^" + prefix
	}
	var built []string
	for _, dir := range dirs {
		bin := filepath.Join(payload, "test", testName(dir))
		var out bytes.Buffer
		c := r.command(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", bin, "./"+dir)
		c.Stdout, c.Stderr = &out, &out
		if err := c.Run(); err != nil {
			results = append(results, Result{"rxe", dir, "(build)", Fail, out.String()})
			continue
		}
		if err := copyTestdata(filepath.Join(r.root, dir), filepath.Join(payload, "src", dir)); err != nil {
			return nil, err
		}
		built = append(built, dir)
	}
	if len(built) == 0 {
		return results, nil
	}
	flags := []string{"-test.run=" + run}
	if !r.figures && !r.ratios && r.run == "" {
		flags = append(flags, "-test.skip=^TestRXEFigures", "-test.bench=^BenchmarkRXE", "-test.benchtime=1x")
	}
	script := guestScript(built, flags, r.quiet, r.timeout)
	if err := os.WriteFile(filepath.Join(payload, "run.sh"), []byte(script), 0o755); err != nil {
		return nil, err
	}

	args := []string{"run", "-t", strconv.Itoa(int((time.Duration(len(built)) * r.timeout).Seconds()))}
	if r.figures || r.ratios {
		args = append(args, "-e", "PUREVERBS_FIGURES=1")
	}
	for _, e := range r.env {
		args = append(args, "-e", e)
	}
	vm := r.command(ctx, filepath.Join(r.root, "scripts", "vm"), append(args, payload, "--", "sh", "run.sh")...)
	vm.Stdout = nil
	pipe, err := vm.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := vm.Start(); err != nil {
		return nil, err
	}
	// In the guest each package has a limit of its own; that the guest itself hangs shows later than that.
	var hung atomic.Bool
	got, rest, readErr := r.readGuest(ctx, newAlarm(pipe, r.quiet+2*time.Minute, func() {
		hung.Store(true)
		_ = vm.Cancel()
	}))
	vmErr := vm.Wait()
	if hung.Load() {
		vmErr = fmt.Errorf("the VM printed nothing for %v, and was ended: %w", r.quiet+2*time.Minute, vmErr)
	}
	for _, dir := range built {
		if g, ok := got[dir]; ok {
			results = append(results, g...)
		} else {
			results = append(results, Result{"rxe", dir, "(package)", Fail, "never ran\n"})
		}
	}
	if vmErr != nil || readErr != nil {
		results = append(results, Result{"rxe", "scripts/vm", "(run)", Fail, fmt.Sprint(errors.Join(vmErr, readErr)) + "\n" + rest})
	}
	return results, nil
}

// buildPrograms builds our commands and examples into dir. One that does not
// build is a failure, and no reason to keep the others from their tests.
func (r *runner) buildPrograms(ctx context.Context, dir string) ([]Result, error) {
	list := r.command(ctx, "go", "list", "-e", "-f", `{{if eq .Name "main"}}{{.ImportPath}}{{end}}`, "./cmd/...", "./examples/...", "./test/tiers")
	list.Stdout, list.Stderr = nil, nil
	mains, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var failed []Result
	for _, m := range strings.Fields(string(mains)) {
		var out bytes.Buffer
		c := r.command(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", dir+"/", m)
		c.Stdout, c.Stderr = &out, &out
		if err := c.Run(); err != nil {
			failed = append(failed, Result{"rxe", m, "(build)", Fail, out.String()})
		}
	}
	return failed, nil
}

// Lines by which the guest's script tells what the output between them belongs to.
const (
	beginMark = "@@ begin "
	endMark   = "@@ end "
)

// guestScript runs the packages one after another, each with limits of its
// own, and afterwards ends what it left running and mends the network.
func guestScript(dirs, flags []string, quiet, timeout time.Duration) string {
	var b strings.Builder
	b.WriteString(`export GOTRACEBACK=all
reap() {
	for p in /proc/[0-9]*; do
		case ${p#/proc/} in
		1 | $$ | $PPID) ;;
		*) readlink $p/exe >/dev/null && kill -9 ${p#/proc/} ;;
		esac
	done 2>/dev/null
}
`)
	for _, d := range dirs {
		fmt.Fprintf(&b, "echo '%s%s'\ncd /payload/src/%s\n", beginMark, d, d)
		fmt.Fprintf(&b, "setsid tiers watch %s /payload/test/%s -test.v=test2json -test.timeout=%s", quiet, testName(d), timeout)
		for _, f := range flags {
			b.WriteString(" " + shellQuote(f))
		}
		b.WriteString(" 2>&1\nrc=$?\nreap\n")
		b.WriteString("rxe-net || [ $rc -ne 0 ] || { echo 'the package left the rxe devices broken'; rc=97; }\n")
		fmt.Fprintf(&b, "echo; echo \"%s$rc %s\"\n", endMark, d)
	}
	return b.String()
}

// readGuest splits the guest's output by package and parses each part. A VM
// that was booted again starts over: the last word on a package counts.
func (r *runner) readGuest(ctx context.Context, out io.Reader) (map[string][]Result, string, error) {
	results := map[string][]Result{}
	var dir string
	var part, rest bytes.Buffer
	start := time.Now()
	br := bufio.NewReader(out)
	for {
		line, err := br.ReadString('\n')
		text := strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(text, beginMark):
			dir, start = text[len(beginMark):], time.Now()
			part.Reset()
		case strings.HasPrefix(text, endMark) && dir != "":
			code, _, _ := strings.Cut(text[len(endMark):], " ")
			res, err := r.parsePart(ctx, dir, part.Bytes(), code, time.Since(start))
			if err != nil {
				return results, rest.String(), err
			}
			results[dir] = res
			dir = ""
		case dir == "":
			rest.WriteString(line)
			if text != "" {
				fmt.Fprintf(r.note, "guest: %s\n", text)
			}
		default:
			part.WriteString(line)
			if r.live != nil {
				fmt.Fprint(r.live, strings.ReplaceAll(line, "\x16", ""))
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return results, rest.String(), err
		}
	}
	if dir != "" {
		res, err := r.parsePart(ctx, dir, part.Bytes(), "none: the VM ended", time.Since(start))
		if err != nil {
			return results, rest.String(), err
		}
		results[dir] = res
	}
	return results, rest.String(), nil
}

// parsePart parses the output of one test binary that ended with code.
func (r *runner) parsePart(ctx context.Context, dir string, output []byte, code string, took time.Duration) ([]Result, error) {
	c := exec.CommandContext(ctx, "go", "tool", "test2json", "-p", dir)
	c.Dir = r.root
	c.Stdin = bytes.NewReader(output)
	events, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("test2json: %w", err)
	}
	p := newParser("rxe", nil, io.Discard)
	if err := p.read(bytes.NewReader(events)); err != nil {
		return nil, err
	}
	results := p.finish()
	failed, passed, skipped := 0, 0, 0
	for _, t := range results {
		switch t.Status {
		case Pass:
			passed++
		case Fail:
			failed++
		case Skip:
			skipped++
		}
	}
	if code != "0" && failed == 0 {
		failed++
		results = append(results, Result{"rxe", dir, "(package)", Fail, fmt.Sprintf("exit code %s\n%s", code, tail(output, 4000))})
	}
	word := "ok  "
	if failed > 0 {
		word = "FAIL"
	}
	fmt.Fprintf(r.note, "%s %-8s ./%s: %d passed, %d failed, %d skipped (%.1fs)\n", word, "rxe", dir, passed, failed, skipped, took.Seconds())
	if r.figures || r.ratios {
		printFigures(r.out, output)
	}
	return results, nil
}

func tail(b []byte, n int) []byte {
	if len(b) > n {
		b = b[len(b)-n:]
	}
	return b
}

// packagesWith lists the folders under root whose tests have a function with
// this prefix, relative to root. only, if not empty, limits them to one package
// or, with a trailing /..., to a subtree.
func packagesWith(root, prefix, only string) ([]string, error) {
	only = strings.TrimPrefix(filepath.ToSlash(only), "./")
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (name[0] == '.' || name == "testdata" || name == "tools") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		tree, isTree := strings.CutSuffix(only, "...")
		if only != "" && rel != only && !(isTree && strings.HasPrefix(rel+"/", tree)) {
			return nil
		}
		if len(dirs) > 0 && dirs[len(dirs)-1] == rel {
			return nil
		}
		src, err := os.ReadFile(path)
		if err == nil && bytes.Contains(src, []byte("\nfunc "+prefix)) {
			dirs = append(dirs, rel)
		}
		return err
	})
	return dirs, err
}

func testName(dir string) string { return strings.ReplaceAll(dir, "/", "-") + ".test" }

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// copyTestdata gives the package's tests in the VM a working directory like the one that go test gives them.
func copyTestdata(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	from = filepath.Join(from, "testdata")
	if _, err := os.Stat(from); err != nil {
		return nil
	}
	return os.CopyFS(filepath.Join(to, "testdata"), os.DirFS(from))
}

func errIf(bad bool, text string) error {
	if bad {
		return errors.New(text)
	}
	return nil
}
