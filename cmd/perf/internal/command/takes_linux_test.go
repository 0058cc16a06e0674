package command

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

var update = flag.Bool("update", false, "run perftest's programs again, and rewrite testdata/perftest")

// TestPerftestTakesUpdate runs each line of the lists with the programs of both Debian releases, and writes the
// outcomes to testdata/perftest. It has to run as root, on Debian 12, and on a machine without RDMA devices: a program
// that has read its command line then says that it finds no device.
func TestPerftestTakesUpdate(t *testing.T) {
	if !*update {
		t.Skip("writes testdata/perftest: only with -update")
	}
	if e, err := os.ReadDir("/sys/class/infiniband"); err == nil && len(e) > 0 {
		t.Fatal("this machine has an RDMA device")
	}
	trixie, err := filepath.Abs("../../../../.build/debian/" + newer)
	if err != nil {
		t.Fatal(err)
	}
	for name, root := range map[string]string{"6.06": "/", "6.24": trixie} {
		if err := (&recorder{release: name, root: root}).record(); err != nil {
			t.Fatal(err)
		}
	}
}

// recorder runs the programs of a release.
type recorder struct {
	release string
	root    string // of its file system
}

// run returns what a program prints, and whether it has read its command line without a complaint.
func (r *recorder) run(words []string) (said string, took bool, err error) {
	cmd := exec.Command("/usr/bin/"+words[0], words[1:]...)
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: r.root}
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return "", false, err
	}
	return string(out), bytes.Contains(out, []byte("Did not detect devices")), nil
}

var (
	ambiguous  = regexp.MustCompile(`'--([\w-]+)'`)
	noArgument = regexp.MustCompile(`'--([\w-]+)' doesn't allow an argument`)
)

// options asks a program for its long options, and whether each has an argument: getopt_long lists those with an
// ambiguous beginning.
func (r *recorder) options(program string) (map[string]bool, error) {
	names := map[string]bool{}
	for _, c := range "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" {
		for _, form := range []string{"--%c", "--%c=1"} {
			said, _, err := r.run([]string{program, fmt.Sprintf(form, c)})
			if err != nil {
				return nil, err
			}
			first, _, _ := strings.Cut(said, "\n")
			for _, m := range ambiguous.FindAllStringSubmatch(first, -1) {
				if len(m[1]) > 1 {
					names[m[1]] = true
				}
			}
		}
	}
	for name := range names {
		said, _, err := r.run([]string{program, "--" + name + "=1"})
		if err != nil {
			return nil, err
		}
		names[name] = !noArgument.MatchString(said)
	}
	return names, nil
}

// record runs all programs and writes what they take.
func (r *recorder) record() error {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# What the command line of perftest %s takes. TestPerftestTakesUpdate writes it.\n", r.release)
	var all []*outcomes
	for _, p := range stockPrograms {
		options, err := r.options(p.words()[0])
		if err != nil {
			return err
		}
		one, many, err := linesOf(p, options)
		if err != nil {
			return fmt.Errorf("perftest %s, %s: %w", r.release, p.line, err)
		}
		took, err := r.all(p, slices.Concat(one, many))
		if err != nil {
			return err
		}
		o := &outcomes{program: p.line}
		all = append(all, o)
		for _, l := range one {
			if took[l] {
				o.taken = append(o.taken, l)
			} else {
				o.refused = append(o.refused, l)
			}
		}
		for _, l := range many {
			a, b, _ := strings.Cut(l, " ")
			switch both := took[a] && took[b]; {
			case both && !took[l]:
				o.apart = append(o.apart, l)
			case !both && took[l]:
				o.together = append(o.together, l)
			}
		}
	}
	writeOutcomes(&out, all)
	return os.WriteFile(filepath.Join(takesFolder, r.release+".txt"), out.Bytes(), 0o644)
}

// all runs a program with each of the lines.
func (r *recorder) all(p stockProgram, lines []string) (map[string]bool, error) {
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		failed  error
		took    = map[string]bool{}
		pending = make(chan string)
	)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for l := range pending {
				_, ok, err := r.run(p.with(l))
				mu.Lock()
				took[l], failed = ok, errors.Join(failed, err)
				mu.Unlock()
			}
		})
	}
	for _, l := range lines {
		pending <- l
	}
	close(pending)
	wg.Wait()
	return took, failed
}

// linesOf returns the lines of one option, and those of two.
func linesOf(p stockProgram, options map[string]bool) (one, many []string, err error) {
	var paired []string
	for _, name := range slices.Sorted(maps.Keys(options)) {
		switch v, known := perftestValues[name]; {
		case slices.Contains([]string{"help", "version"}, name), p.has(name):
		case known != options[name]:
			err = errors.Join(err, fmt.Errorf("--%s has a value: %v; perftestValues has some: %v", name,
				options[name], known))
		case !known:
			one = append(one, "--"+name)
			paired = append(paired, "--"+name)
		default:
			for w := range strings.FieldsSeq(v.paired) {
				one = append(one, "--"+name+"="+w)
				paired = append(paired, "--"+name+"="+w)
			}
			for w := range strings.FieldsSeq(v.alone) {
				one = append(one, "--"+name+"="+w)
			}
		}
	}
	for i, a := range paired {
		for _, b := range paired[i+1:] {
			if before, _, _ := strings.Cut(a, "="); before != strings.Split(b, "=")[0] {
				many = append(many, a+" "+b)
			}
		}
	}
	return one, many, err
}
