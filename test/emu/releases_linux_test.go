//go:build linux && amd64 && !race

package emu

import (
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestEmuReleaseTests runs those of the packages' own tests that need the newest release's libraries to be more than a
// refusal. Those of frames run once more on devices that want the first bytes of each in the work request. Tier emu runs
// all tests with each release's libraries.
func TestEmuReleaseTests(t *testing.T) {
	testutil.NeedEmu(t)
	for _, pkg := range []string{"ibv", "mlx5dv", "rdmacm"} {
		bin := testutil.Binary(t, pkg)
		if pkg != "rdmacm" {
			framesInline(t, pkg, bin)
		}
		if tests := newer[pkg]; tests != "" {
			newerFunctions(t, pkg, bin, tests)
		}
	}
}

// framesInline runs a package's tests of frames on devices that want the first 18 bytes of each in the work request, as
// old adapters do. The devices of other tests want none.
func framesInline(t *testing.T, pkg, bin string) {
	devices := []string{"--device", "mlx5_0,min_inline=18", "--device", "mlx5_1,min_inline=18"}
	for _, path := range []string{"ops", "direct"} {
		t.Run(pkg+" min_inline=18 "+path, func(t *testing.T) {
			t.Setenv(testutil.TierEnv, "emu")
			t.Setenv("PUREVERBS_DATAPATH", path)
			out, err := here.emulate(t, devices, bin, "-test.run=^TestRXE_?Raw", "-test.v")
			if err != nil || !strings.Contains(out, "\n--- PASS: TestRXE") {
				t.Errorf("%v\n%s", err, tail(out))
			}
		})
	}
}

// newer are tests that see refusals with this system's libraries.
var newer = map[string]string{
	"ibv":    "^TestRXE_(RegMREx|CompCountersRefused|SmallVerbs|FlushAndAtomicWrite)$",
	"rdmacm": "^TestRXE_CM_NewerLibrary$",
}

func newerFunctions(t *testing.T, pkg, bin, tests string) {
	for _, path := range []string{"ops", "direct"} {
		t.Run(pkg+" newer functions "+path, func(t *testing.T) {
			t.Setenv(testutil.TierEnv, "emu")
			t.Setenv("PUREVERBS_DATAPATH", path)
			sid := way{release: "sid"}
			out, err := sid.emulate(t, memfds, sid.command(bin, "-test.v", "-test.run="+tests)...)
			if err != nil || strings.Count(out, "\n--- PASS: ") != 1+strings.Count(tests, "|") ||
				strings.Contains(out, ", which rdma-core v") { // a function that is missing
				t.Errorf("%v\n%s", err, tail(out))
			}
		})
	}
}
