package ibv

import (
	"errors"
	"strings"
	"testing"
)

// TestChooseControl: the option comes before the variable, and each value of either is obeyed or refused by name.
func TestChooseControl(t *testing.T) {
	for _, tt := range []struct {
		want ControlPath
		env  string
		path ControlPath
		why  string
	}{
		{ControlAuto, "", ControlAuto, ""},
		{ControlAuto, "auto", ControlAuto, ""},
		{ControlAuto, "library", ControlLibrary, "PUREVERBS_CONTROL=library"},
		{ControlAuto, "native", ControlNative, "PUREVERBS_CONTROL=native"},
		{ControlLibrary, "native", ControlLibrary, "asked for"},
		{ControlNative, "nonsense", ControlNative, "asked for"},
	} {
		path, why, err := chooseControl(tt.want, tt.env)
		if path != tt.path || why != tt.why || err != nil {
			t.Errorf("%v, %q: %v, %q, %v", tt.want, tt.env, path, why, err)
		}
	}
	var arg *ArgError
	if _, _, err := chooseControl(ControlAuto, "Native"); !errors.As(err, &arg) || arg.Got != "Native" ||
		!strings.Contains(arg.Arg, ControlEnv) {
		t.Errorf("an unknown value: %v", err)
	}
}

// TestUseControl: an unknown path is refused, and a change after devices were listed.
func TestUseControl(t *testing.T) {
	var arg *ArgError
	if err := UseControl(17); !errors.As(err, &arg) || arg.Got != "ControlPath(17)" {
		t.Errorf("an unknown path: %v", err)
	}
	_, _ = Devices()
	err := UseControl(ControlNative)
	if !errors.As(err, &arg) || !strings.Contains(arg.Got, "after devices were listed") {
		t.Errorf("after devices were listed: %v", err)
	}
	if err := UseControl(ControlAuto); err != nil {
		t.Errorf("no change: %v", err)
	}
}
