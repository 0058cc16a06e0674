//go:build linux && amd64 && !race

package emu

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestEmuNative_Opening bounds the system calls of an open with a PD, a CQ, an MR, a QP and their end, those of a QP, and
// the mappings of many QPs.
func TestEmuNative_Opening(t *testing.T) {
	testutil.NeedEmu(t)
	const qps = 16384
	measure := func(control string, args ...string) map[string]float64 {
		w := way{env: "PUREVERBS_CONTROL=" + control}
		out, err := w.emulate(t, nil, append([]string{filepath.Join(root, ".build/bin/opening")}, args...)...)
		if err != nil {
			t.Fatalf("%v\n%s", err, tail(out))
		}
		got := make(map[string]float64)
		for line := range strings.Lines(out) {
			var name string
			var v float64
			if _, err := fmt.Sscan(line, &name, &v); err == nil {
				got[name] = v
			}
		}
		return got
	}
	native := measure("native", "-opens", "20", "-qps", fmt.Sprint(qps))
	for name, most := range map[string]float64{"open_calls": 20, "qp_calls": 1.1, "mappings": 20000} {
		if v, is := native[name]; !is || v > most {
			t.Errorf("%s is %v, want at most %v", name, v, most)
		}
	}
	library := measure("library", "-opens", "20")
	if n, l := native["open_calls"], library["open_calls"]; l == 0 || n > l*2/5 {
		t.Errorf("an open makes %v calls, the library's %v: want at most two fifths", n, l)
	}
}
