package command

import (
	"cmp"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// interopKinds lists what perftest's programs measure.
func interopKinds() []struct{ verb, metric string } {
	return slices.Concat(kinds, atomicKinds, immKinds)
}

// rawEthernet begins the names of the stock programs that send Ethernet frames.
const rawEthernet = "raw_ethernet"

// newer is the Debian release whose perftest is compared beside this system's, Debian 12's. scripts/debian-root has
// unpacked it.
const newer = "trixie"

// interopReleases lists the Debian releases whose stock program runs against ours: a row's turn in a short run, "" for
// this system's. Debian 12's perftest has no --write_with_imm, and the VM no other release.
func interopReleases(vm testutil.RXE, verb string, n int) []string {
	switch {
	case !vm.Emulated:
		return []string{""}
	case lacksImm() && verb == withImm:
		return nil
	case verb == withImm:
		return []string{newer}
	case testutil.Full():
		return []string{"", newer}
	case n/len(turns)%2 == 0:
		return []string{""}
	}
	return []string{newer}
}

// lacksImm reports whether no perftest here has --write_with_imm and --payload_file_path.
func lacksImm() bool { return testutil.Libraries() == "bullseye" }

// stockName is what the table and the names of tests call a stock program.
func stockName(release, verb, metric string) string {
	name := "ib_" + verb + "_" + metric
	if verb == rawEthernet {
		name = verb + "_" + metric
	} else if verb == withImm {
		name = "ib_write_" + metric + " imm"
	}
	if release == "" {
		return name
	}
	return name + " " + release
}

// stockOf returns the command that starts a stock program.
func stockOf(t *testing.T, release, verb, metric string) []string {
	t.Helper()
	program, flags := "ib_"+verb+"_"+metric, []string{"-F"}
	if verb == rawEthernet {
		program = verb + "_" + metric
	} else if verb == withImm {
		program, flags = "ib_write_"+metric, []string{"-F", "--write_with_imm"}
	}
	if release == "" || testutil.Libraries() != "" { // the root of a release contains no other
		return append([]string{program}, flags...)
	}
	script, err := filepath.Abs("../../../../scripts/in-debian")
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{script, release, program}, flags...)
}

// interop is which of perftest's programs ran against ours, by "program transport role".
type interop map[string]*struct{ good, bad int }

// note counts the run that t is, once it is over.
func (tab interop) note(t *testing.T, program string, args []string, role string) {
	transport := "RC"
	if i := slices.Index(args, "-c"); i >= 0 {
		transport = args[i+1]
	}
	k := program + " " + transport + " " + role
	if tab[k] == nil {
		tab[k] = new(struct{ good, bad int })
	}
	t.Cleanup(func() {
		if t.Failed() {
			tab[k].bad++
		} else if !t.Skipped() {
			tab[k].good++
		}
	})
}

// print logs the table. A combination that we refuse shows the reason. In a full run each other one
// must have run in both roles.
func (tab interop) print(t *testing.T, vm testutil.RXE, kinds []struct{ verb, metric string }, transports ...string) {
	whole := testutil.Full() && !strings.Contains(flag.Lookup("test.run").Value.String(), "/")
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-16s %-9s  %-28s %s\n", "", "", "Debian 12's perftest", "Debian 13's perftest")
	fmt.Fprintf(&b, "%-16s %-9s", "program", "transport")
	for range 2 {
		fmt.Fprintf(&b, "  %-12s  %-13s", "rdmaperf serves", "rdmaperf is client")
	}
	for _, k := range kinds {
		for _, transport := range transports {
			fmt.Fprintf(&b, "\n%-16s %-9s", stockName("", k.verb, k.metric), transport)
			_, err := parse([]string{k.verb, k.metric, "-c", transport})
			if err != nil && k.verb != rawEthernet {
				fmt.Fprintf(&b, "  refused: %v", err)
				continue
			}
			for _, release := range []string{"", newer} {
				for _, role := range []string{"we serve", "stock serves"} {
					stock := stockName(release, k.verb, k.metric)
					cell := tab.cell(vm, stock, transport, role)
					if cell == "" && k.verb == withImm && release == "" {
						cell = "has none"
					}
					if cell == "" && whole && (vm.Emulated || release == "") {
						t.Errorf("%s -c %s, %s: nothing ran, and nothing is refused", stock, transport, role)
					}
					fmt.Fprintf(&b, "  %-12s", cmp.Or(cell, "elsewhere"))
				}
			}
		}
	}
	t.Log(b.String())
}

// cell says what came of a program in a role: "" if nothing ran.
func (tab interop) cell(vm testutil.RXE, stock, transport, role string) string {
	c := tab[stock+" "+transport+" "+role]
	switch {
	case c != nil && c.bad > 0:
		return fmt.Sprintf("%d of %d", c.good, c.good+c.bad)
	case c != nil && c.good > 0:
		return fmt.Sprintf("ok (%d)", c.good)
	case c != nil:
		return "skipped"
	case transport == "SRD" && !vm.Hardware:
		return "no EFA here"
	case (transport == "XRC" || transport == "DC") && !vm.Emulated && !vm.Hardware:
		return "no " + transport + " here"
	}
	return ""
}
