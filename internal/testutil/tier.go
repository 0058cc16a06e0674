// Package testutil names the test tiers and what each one needs.
//
// A test states its tier by calling one of the Need functions first. Where the
// tier is missing the test skips and says why; where the tier was promised
// (PUREVERBS_TEST_TIER names it), something missing fails the test instead.
package testutil

import (
	"os"
	"os/exec"
	"testing"

	"github.com/pureverbs/pureverbs/loader"
)

// TierEnv names the environment variable by which a runner promises a tier:
// "rxe" inside the SoftRoCE VM.
const TierEnv = "PUREVERBS_TEST_TIER"

// RXE describes the two SoftRoCE devices of the VM. They are connected by a
// veth pair and live in one network namespace.
type RXE struct {
	Dev  [2]string // device names
	Net  [2]string // their netdevs
	IP   [2]string // IPv4 addresses of the netdevs
	Port uint8     // port number, the same on both
	GID  int       // index of the IPv4-mapped RoCE v2 GID, the same on both
}

// NeedRXE returns the devices of the SoftRoCE VM, or skips outside of it.
func NeedRXE(t testing.TB) RXE {
	t.Helper()
	if os.Getenv(TierEnv) != "rxe" {
		t.Skip("tier rxe: runs in the SoftRoCE VM only (make test-rxe)")
	}
	r := RXE{
		Dev:  [2]string{"rxe0", "rxe1"},
		Net:  [2]string{"v0", "v1"},
		IP:   [2]string{"10.8.0.1", "10.8.0.2"},
		Port: 1,
		GID:  1,
	}
	for _, d := range r.Dev {
		if _, err := os.Stat("/sys/class/infiniband/" + d); err != nil {
			t.Fatalf("tier rxe was promised, but %s is not there: %v", d, err)
		}
	}
	return r
}

// NeedProgram returns the path of a program that the rxe tier relies on: a
// stock tool, or one of ours. Its absence there is a failure.
func NeedProgram(t testing.TB, name string) string {
	t.Helper()
	p, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv(TierEnv) != "" {
			t.Fatalf("tier %s was promised, but %s is not in PATH", os.Getenv(TierEnv), name)
		}
		t.Skipf("%s is not in PATH", name)
	}
	return p
}

// NeedLibrary skips where libibverbs cannot be loaded. In CI it is installed.
func NeedLibrary(t testing.TB) {
	t.Helper()
	if _, err := loader.Open(loader.IBVerbs); err != nil {
		t.Skipf("tier lib: %v", err)
	}
}
