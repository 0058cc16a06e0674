package command

import (
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_ZZRemoval takes a device away for good: no test comes after it.
func TestRXE_ZZRemoval(t *testing.T) {
	vm := testutil.NeedRXE(t)
	if !vm.Emulated {
		t.Skip("takes a device away: runs on the emulated device only (make test-emu)")
	}
	failsByTime(t, vm, "device-removal:device="+vm.Dev[1]+",after=20", "write", "bw", "DeviceFatal")
}
