package claims

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	longOption = regexp.MustCompile(`--([A-Za-z][\w-]*)`)
	nameList   = regexp.MustCompile("(?s)perftestNames = `(.*?)`")
)

// misprinted are options that perftest's help spells otherwise than its code.
var misprinted = map[string]string{"com_rdma_cm": "comm_rdma_cm", "report-histogram": "report-histogrm"}

// TestPerftestOptions holds the list of perftest's options, which cmd/perf tests one by one, to the programs: all of
// this machine's, and of the newest release if scripts/debian-root has it.
func TestPerftestOptions(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(root, "cmd/perf/internal/command/main_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	m := nameList.FindSubmatch(source)
	if m == nil {
		t.Fatal("cmd/perf/internal/command/main_test.go has no perftestNames")
	}
	known := strings.Fields(strings.ReplaceAll(string(m[1]), "_", "-"))
	var missing []string
	found := 0
	for _, how := range [][]string{nil, {root + "/scripts/in-debian", "sid"}} {
		for _, verb := range []string{"write", "read", "send", "atomic"} {
			for _, kind := range []string{"bw", "lat"} {
				for _, option := range options(append(slices.Clone(how), "ib_"+verb+"_"+kind)) {
					if code := misprinted[option]; code != "" {
						option = code
					}
					if name := strings.ReplaceAll(option, "_", "-"); !slices.Contains(known, name) {
						missing = append(missing, option)
					}
					found++
				}
			}
		}
	}
	if found == 0 {
		t.Skip("no perftest here: make setup installs it")
	}
	if slices.Sort(missing); len(missing) > 0 {
		t.Errorf("perftest has options that cmd/perf's test does not know: %q", slices.Compact(missing))
	}
}

// options returns the long options that a program's help lists, none if it cannot be run.
func options(command []string) (names []string) {
	out, _ := exec.Command(command[0], append(command[1:], "--help")...).CombinedOutput() // its exit code is 1
	if !strings.Contains(string(out), "Options:") {
		return nil
	}
	for _, m := range longOption.FindAllStringSubmatch(string(out), -1) {
		names = append(names, m[1])
	}
	return names
}
