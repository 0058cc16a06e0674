// Package emulated runs the tests of a package on two emulated adapters without a runner:
//
//	PUREVERBS_TEST_TIER=emu go test ./rdma -run TestRXE_NetConn
package emulated

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/emu/emutest"
	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// tests are the tests of a package, with what TestMain does around them.
type tests func() int

func (t tests) Run() int { return t() }

// Run calls run and exits with the status that it returns. If the tier is emu, and no emulator runs above this process,
// it does so in a second process on emulated adapters, in strict mode but for the rules in ignore, as tier emu does.
func Run(run func() int, ignore ...string) {
	if os.Getenv(testutil.TierEnv) != "emu" {
		os.Exit(run())
	}
	emutest.Run(tests(run), emutest.Devices(testutil.EmulatedDevices[:]...), emutest.Strict(ignore...),
		emutest.Require())
}

// Main is a TestMain that fails if a test leaves an object open.
func Main(m *testing.M, ignore ...string) { Run(func() int { return Leaks(m) }, ignore...) }

// Leaks runs the tests and returns their status, or 1 if they left an object open.
func Leaks(m *testing.M) int {
	leak.Enable()
	code := m.Run()
	if open := leak.Open(); code == 0 && len(open) > 0 {
		fmt.Fprintf(os.Stderr, "%d objects were not closed:\n%s\n", len(open), strings.Join(open, "\n"))
		code = 1
	}
	return code
}
