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
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// fullEnv is the environment variable that makes tests run every row in each place, as make test-full does. Package
// testutil reads it.
const fullEnv = "PUREVERBS_FULL"

// comparisons are packages that only compare our programs with others. A short run would show that they still run, and
// take a minute for it.
var comparisons = []string{"test/emubench", "test/layerbench", "test/rxebench"}

// elsewhereShort lists packages all of whose tests a short run leaves to the emulated device.
var elsewhereShort = []string{"test/posts", "test/soak"}

// leavesOut reports whether this run leaves out the tests of a folder.
func (r *runner) leavesOut(dir string) bool {
	return slices.Contains(comparisons, dir) && r.pkg == "" && !r.ratios && !r.full()
}

// rxe builds the tests of every package that has some for the rxe tier, runs
// them in one VM or two, one package after another, and collects the results.
func (r *runner) rxe(ctx context.Context) ([]Result, error) {
	prefix := "TestRXE"
	switch {
	case r.siw:
		prefix = "TestSIW"
	case r.figures:
		prefix = "TestRXEFigures"
	case r.ratios:
		prefix = "TestRXERatios"
	}
	dirs, err := packagesWith(r.root, prefix, r.pkg)
	dirs = slices.DeleteFunc(dirs, r.nested) // about what lies above this module: tier emu has it
	dirs = slices.DeleteFunc(dirs, func(d string) bool {
		return r.leavesOut(d) || slices.Contains(elsewhereShort, d) && r.pkg == "" && !r.full()
	})
	more, moreErr := r.processorDirs()
	dirs, err = append(dirs, more...), errors.Join(err, moreErr)
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

	built, failed := r.binaries(ctx, r.rxeTier(), dirs)
	results = append(results, failed...)
	for _, dir := range built {
		if err := linkOrCopy(r.binary(dir), filepath.Join(payload, "test", testName(dir))); err != nil {
			return nil, err
		}
		if err := copyTestdata(filepath.Join(r.root, dir), filepath.Join(payload, "src", dir)); err != nil {
			return nil, err
		}
	}
	if len(built) == 0 {
		return results, nil
	}
	if r.arch != "" {
		if err := r.compile(ctx, payload); err != nil {
			return nil, err
		}
	}
	flags := func(dir string) []string {
		switch {
		case r.run != "":
			return []string{"-test.run=" + r.run}
		case slices.Contains(processor, dir):
			return []string{"-test.run=^Test", "-test.skip=^TestFigures"}
		case r.figures || r.ratios || r.siw:
			return []string{"-test.run=^" + prefix}
		}
		skip := "^TestRXEFigures"
		if !r.full() {
			skip += "|^TestRXERatios"
		}
		return []string{"-test.run=^" + prefix, "-test.skip=" + skip, "-test.bench=^BenchmarkRXE", "-test.benchtime=1x"}
	}
	shards := r.shards(built)
	parts := make([][]Result, len(shards))
	var wg sync.WaitGroup
	for i, dirs := range shards {
		script := fmt.Sprintf("run%d.sh", i)
		if err := os.WriteFile(filepath.Join(payload, script), []byte(guestScript(dirs, flags, r.quiet, r.timeout)),
			0o755); err != nil {
			return nil, err
		}
		wg.Go(func() { parts[i] = r.boot(ctx, payload, script, dirs) })
	}
	wg.Wait()
	return append(results, slices.Concat(parts...)...), nil
}

// shards divides packages among VMs that run at the same time: with one VM, which waits for much of the time, half of
// two processors would be idle. A package that measures has the machine for itself.
func (r *runner) shards(dirs []string) [][]string {
	var shards [2][]string
	for _, d := range dirs {
		at := 0
		if d == "cmd/perf" || d == "rdma" || d == "rdmacm" { // take as long as the others together
			at = 1
		}
		shards[at] = append(shards[at], d)
	}
	if r.figures || r.ratios || len(shards[0]) == 0 || len(shards[1]) == 0 || runtime.NumCPU() < 2 || !memory(8<<30) {
		return [][]string{dirs}
	}
	return shards[:]
}

// memory reports whether the machine can spare this many bytes.
func memory(bytes int64) bool {
	info, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(info)) {
		var kib int64
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); err == nil {
			return kib<<10 >= bytes
		}
	}
	return false
}

// boot runs a script of the payload, which tests the packages dirs, in a VM.
func (r *runner) boot(ctx context.Context, payload, script string, dirs []string) (results []Result) {
	args := []string{"run", "-t", strconv.Itoa(int((time.Duration(len(dirs)) * r.timeout).Seconds()))}
	if r.siw {
		args = append(args, "-d", "siw")
	}
	if r.figures || r.ratios {
		args = append(args, "-e", "PUREVERBS_FIGURES=1")
	}
	if r.full() {
		args = append(args, "-e", fullEnv+"=1")
	}
	for _, e := range r.env {
		args = append(args, "-e", e)
	}
	vm := r.command(ctx, filepath.Join(r.root, "scripts", "vm"), append(args, payload, "--", "sh", script)...)
	if r.arch != "" {
		vm.Env = append(vm.Env, "VM_ARCH="+r.arch)
	}
	vm.Stdout = nil
	pipe, err := vm.StdoutPipe()
	if err == nil {
		err = vm.Start()
	}
	if err != nil {
		return []Result{{r.rxeTier(), "scripts/vm", "(run)", Fail, err.Error() + "\n"}}
	}
	// In the guest each package has a limit of its own. The limit for the guest itself is longer.
	var hung atomic.Bool
	limit := r.quiet + 2*time.Minute
	got, rest, readErr := r.readGuest(ctx, newAlarm(pipe, limit, func() {
		hung.Store(true)
		_ = vm.Cancel()
	}))
	vmErr := vm.Wait()
	used(ctx, 0, 0, cpu(vm))
	if hung.Load() {
		vmErr = fmt.Errorf("the VM printed nothing for %v, and was ended: %w", limit, vmErr)
	}
	for _, dir := range dirs {
		if g, ok := got[dir]; ok {
			results = append(results, g...)
		} else {
			results = append(results, Result{r.rxeTier(), dir, "(package)", Fail, "never ran\n"})
		}
	}
	if vmErr != nil || readErr != nil {
		results = append(results, Result{r.rxeTier(), "scripts/vm", "(run)", Fail,
			fmt.Sprint(errors.Join(vmErr, readErr)) + "\n" + rest})
	}
	return results
}

// buildPrograms builds our commands and examples into bin, where tier emu has built this machine's before, and puts
// them into dir, with this program. A program that does not build is a failure, and the other programs are tested all
// the same.
func (r *runner) buildPrograms(ctx context.Context, dir string) ([]Result, error) {
	list := r.command(ctx, "go", "list", "-e", "-f", `{{if eq .Name "main"}}{{.ImportPath}}{{end}}`, "./cmd/...",
		"./examples/...")
	list.Stdout, list.Stderr = nil, nil
	mains, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	programs := append(strings.Fields(string(mains)), r.module+"/test/tiers")
	_, err = r.build(ctx, programs...)
	one := err != nil // at a time
	var failed []Result
	for _, m := range programs {
		if one {
			if out, err := r.build(ctx, m); err != nil {
				failed = append(failed, Result{r.rxeTier(), m, "(build)", Fail, out + err.Error() + "\n"})
				continue
			}
		}
		name := path.Base(m)
		if err := linkOrCopy(filepath.Join(r.root, r.bin(), name), filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return failed, nil
}

// quietly runs a command and returns what it prints.
func (r *runner) quietly(ctx context.Context, name string, args ...string) (string, error) {
	return r.withEnv(ctx, nil, append([]string{name}, args...)...)
}

// inParallel calls f with 0 to n-1, as many calls at a time as there are processors.
func inParallel(n int, f func(int)) { inLanes(runtime.NumCPU(), n, f) }

// inLanes calls f with 0 to n-1, so many calls at a time.
func inLanes(lanes, n int, f func(int)) {
	var wg sync.WaitGroup
	var next atomic.Int32
	for range min(lanes, n) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}

// Lines by which the guest's script marks which package the output between them belongs to.
const (
	beginMark = "@@ begin "
	endMark   = "@@ end "
)

// guestScript runs the packages one after another, each with limits of its
// own, and afterwards ends what it left running and mends the network.
func guestScript(dirs []string, flags func(dir string) []string, quiet, timeout time.Duration) string {
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
		fmt.Fprintf(&b, "setsid tiers watch %s /payload/test/%s -test.v=test2json -test.timeout=%s", quiet,
			testName(d), timeout)
		for _, f := range flags(d) {
			b.WriteString(" " + shellQuote(f))
		}
		b.WriteString(" 2>&1\nrc=$?\nreap\n")
		b.WriteString("rdma-net || [ $rc -ne 0 ] || { echo 'the package left the devices broken'; rc=97; }\n")
		fmt.Fprintf(&b, "echo; echo \"%s$rc %s\"\n", endMark, d)
	}
	return b.String()
}

// readGuest splits the guest's output by package and parses each part. A VM that was booted again starts over: the last
// output of a package counts.
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
func (r *runner) parsePart(ctx context.Context, dir string, output []byte, code string,
	took time.Duration) ([]Result, error) {
	c := exec.CommandContext(ctx, "go", "tool", "test2json", "-p", dir)
	c.Dir = r.root
	c.Stdin = bytes.NewReader(output)
	events, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("test2json: %w", err)
	}
	p := newParser(r.rxeTier(), nil, io.Discard)
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
		results = append(results, Result{r.rxeTier(), dir, "(package)", Fail, fmt.Sprintf("exit code %s\n%s", code,
			tail(output, 4000))})
	}
	word := "ok  "
	if failed > 0 {
		word = "FAIL"
	}
	fmt.Fprintf(r.note, "%s %-8s ./%s: %d passed, %d failed, %d skipped (%.1fs)\n", word, r.rxeTier(), dir, passed,
		failed, skipped, took.Seconds())
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
		if slices.Contains(dirs, rel) {
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
