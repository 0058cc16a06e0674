package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

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
		} else {
			tab[k].good++
		}
	})
}

// print logs the table. A combination that we refuse shows the reason. In a full run each other one
// must have run in both roles.
func (tab interop) print(t *testing.T, vm testutil.RXE) {
	whole := testutil.Full() && !strings.Contains(flag.Lookup("test.run").Value.String(), "/")
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-14s %-9s %-12s %s\n", "program", "transport", "perf serves", "perf is client")
	for _, k := range append(slices.Clip(kinds), atomicKinds...) {
		program := "ib_" + k.verb + "_" + k.metric
		for _, transport := range []string{"RC", "UC", "UD", "XRC", "DC", "SRD"} {
			fmt.Fprintf(&b, "%-14s %-9s ", program, transport)
			_, err := parse([]string{k.verb, k.metric, "-c", transport})
			if err != nil {
				fmt.Fprintf(&b, "refused: %v\n", err)
				continue
			}
			for _, role := range []string{"we serve", "stock serves"} {
				c := tab[program+" "+transport+" "+role]
				switch {
				case c != nil && c.bad > 0:
					fmt.Fprintf(&b, "%-12s ", fmt.Sprintf("%d of %d", c.good, c.good+c.bad))
				case c != nil:
					fmt.Fprintf(&b, "%-12s ", fmt.Sprintf("ok (%d)", c.good))
				case transport == "XRC" && !vm.Emulated && !vm.Hardware:
					fmt.Fprintf(&b, "%-12s ", "no XRC here")
				default:
					if whole {
						t.Errorf("%s -c %s, %s: nothing ran, and nothing is refused", program, transport, role)
					}
					fmt.Fprintf(&b, "%-12s ", "elsewhere")
				}
			}
			b.WriteByte('\n')
		}
	}
	t.Log(b.String())
}
