//go:build linux && (amd64 || arm64)

package emutest

import (
	"os"
	"strings"

	"github.com/pureverbs/pureverbs/emu/internal/fault"
	"github.com/pureverbs/pureverbs/emu/internal/machine"
	"github.com/pureverbs/pureverbs/emu/internal/netdev"
	"github.com/pureverbs/pureverbs/emu/internal/notify"
	"github.com/pureverbs/pureverbs/emu/internal/strict"
	"github.com/pureverbs/pureverbs/emu/internal/trace"
)

// The emulator starts this binary as the launcher of its program. That is decided here and not in Run, so that the
// initialization of packages that import this one does not run in the launcher.
func init() { notify.Shim() }

// emulate runs this binary again on emulated adapters and returns its exit code. The error is an unavailableError if
// the machine is at fault.
func emulate(o *options) (int, error) {
	mo := machine.Options{Network: o.network, Links: netdev.Kinds}
	var err error
	if mo.Config, err = machine.Configure(o.devices, o.limits, o.memlock); err != nil {
		return 0, err
	}
	if mo.Faults, err = fault.Parse(o.faults); err != nil {
		return 0, err
	}
	if o.strict {
		if mo.Report, err = strict.New(os.Stderr, o.ignore); err != nil {
			return 0, err
		}
	}
	if o.trace != "" {
		if mo.Trace, err = trace.Open(o.trace, os.Stderr, trace.Options{JSON: o.json}); err != nil {
			return 0, err
		}
	}
	mo.Argv = append([]string(nil), os.Args...)
	if !strings.Contains(mo.Argv[0], "/") {
		if mo.Argv[0], err = os.Executable(); err != nil {
			return 0, unavailableError{err}
		}
	}
	s, err := machine.Start(&mo, os.Stderr)
	if err != nil {
		return 0, unavailableError{err}
	}
	return s.Wait()
}
