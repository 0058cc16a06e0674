//go:build linux && amd64 && !race

package emu

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestEmuReleaseTests runs the packages' own tests with the libraries of other Debian releases: the oldest with one
// data path, a newer one with the other, and in a full run each with both. Of the newest, which a full run has whole,
// those that need more than the system's libraries run always. Those of frames run once more on devices that want
// the first bytes of each in the work request.
func TestEmuReleaseTests(t *testing.T) {
	testutil.NeedEmu(t)
	// The root of a release contains neither the program emu, which changes links, injects faults and removes devices,
	// nor this test binary, nor /proc/self.
	const without = "-test.skip=^TestRXEFigures|^TestRXERatios|^TestRXE_AsyncEvents$|^TestRXE_(Unlisted|CloseWhilePolled|Import|RawNobody)$|^TestRXEZZDeviceRemoved$|" +
		"^TestRXE_CM_(Killed|ZZDeviceRemoved|QPDestroyFails|CloseFailsOnce|EventReadFails.*|PortDown)$"
	for _, pkg := range []string{"ibv", "mlx5dv", "rdmacm"} {
		bin := filepath.Join(root, ".build/bin", pkg+".test")
		c := exec.Command("go", "test", "-c", "-vet=off", "-o", bin, "../../"+pkg)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("go test -c: %v\n%s", err, out)
		}
		if pkg != "rdmacm" {
			framesInline(t, pkg, bin)
		}
		if tests := newer[pkg]; tests != "" {
			newerFunctions(t, pkg, bin, tests)
		}
		for _, w := range ways {
			if w.release == "" || w.nobody {
				continue
			}
			for _, path := range []string{"ops", "direct"} {
				if !testutil.Full() && w.release+" "+path != "bullseye ops" && w.release+" "+path != "trixie direct" {
					continue
				}
				t.Run(pkg+" "+w.name+" "+path, func(t *testing.T) {
					t.Setenv(testutil.TierEnv, "emu")
					t.Setenv("PUREVERBS_DATAPATH", path)
					out, err := w.emulate(t, memfds, w.command(bin, "-test.run=^TestRXE", without, "-test.v")...)
					if err != nil || strings.Count(out, "\n--- PASS: ") < 5 {
						t.Errorf("%v\n%s", err, tail(out))
					}
					for line := range strings.Lines(out) {
						if strings.HasPrefix(line, "--- SKIP") {
							t.Log(line)
						}
					}
				})
			}
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
