package testutil

import (
	"fmt"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil/native"
)

// skipper notes a skip, and goes on.
type skipper struct {
	testing.TB
	name, text string
}

func (s *skipper) Name() string     { return s.name }
func (s *skipper) Skip(args ...any) { s.text = fmt.Sprint(args...) }

// TestNeedControl skips tests with rows, and no others, by the function that runs and the name of the subtest.
func TestNeedControl(t *testing.T) {
	rows := native.Rows
	defer func() { native.Rows = rows }()
	why := native.Reason{Text: "it is so"}
	for _, tt := range []struct {
		row, name, control string
		rows               string // the environment variable with which rows run
		skips              bool
	}{
		{"TestNeedControl", "TestNeedControl", "native", "", true},
		{"TestNeedControl", "TestNeedControl/sub", "native", "", true},
		{"TestNeedControl/sub", "TestNeedControl/sub", "native", "", true},
		{"TestNeedControl/sub", "TestNeedControl/subs", "native", "", false},
		{"TestNeedControl/sub", "TestNeedControl", "native", "", false},
		{"TestNeedControl/.*/DC", "TestNeedControl/write/DC", "native", "", true},
		{"TestNeedControl/.*/DC", "TestNeedControl/write/RC", "native", "", false},
		{"TestNeedControl", "TestAll/Need", "native", "", true}, // a test that runs others
		{"TestNeedControl/sub", "TestAll/Need/sub", "native", "", true},
		{"TestNeedControl", "TestNeedControl", "", "", false},
		{"TestNeedControl", "TestNeedControl", "library", "", false},
		{"TestNeedControl", "TestNeedControl", "native", "1", false},
	} {
		t.Setenv(native.Env, tt.control)
		t.Setenv(native.RowsEnv, tt.rows)
		for _, dir := range []string{"internal/testutil", "ibv"} {
			native.Rows = []native.Row{native.NewRow(dir, tt.row, why)}
			s := &skipper{TB: t, name: tt.name}
			NeedControl(s)
			want := ""
			if tt.skips && dir != "ibv" {
				want = "not on the native control path: it is so"
			}
			if s.text != want {
				t.Errorf("%+v of %s: %q, want %q", tt, dir, s.text, want)
			}
		}
	}
}
