package ibv

import (
	"os"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/loader"
)

// TestRXE_ControlPath: the device and the report name the control path that was chosen, and why.
func TestRXE_ControlPath(t *testing.T) {
	r := testutil.NeedRXE(t)
	want, name, why := ControlLibrary, "library: ", "libibverbs lists the device"
	if env := os.Getenv(ControlEnv); env != "" && env != "auto" {
		why = ControlEnv + "=" + env
		if env == "native" {
			want, name = ControlNative, "native: "
		}
	}
	dev := closing(t, must(Open(r.Dev[0]))(t))
	if got, reason := dev.ControlPath(); got != want || reason != why {
		t.Errorf("control path %v because %q, want %v because %q", got, reason, want, why)
	}
	if got := loader.Report().Control; !strings.Contains(got, name+why) {
		t.Errorf("the report has %q, want %q", got, name+why)
	}
}
