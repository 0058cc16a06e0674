package doctor

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/loader"
)

// TestNative: what the check of the native control path finds, by what goes wrong.
func TestNative(t *testing.T) {
	has := Attributes{"device.MaxQP": "64", "ports.1.ActiveMTU": "4096"}
	differs := maps.Clone(has)
	differs["device.MaxQP"] = "65"
	delete(differs, "ports.1.ActiveMTU")
	for name, tt := range map[string]struct {
		loop, query, child error
		library            map[string]Attributes
		missing            string // error of libibverbs
		want               []string
	}{
		"in order": {library: map[string]Attributes{"mlx5_0": has},
			want: []string{"ok mlx5_0/1 a message of the port to itself arrived",
				"ok mlx5_0 2 attributes are the library's"}},
		"no library": {missing: "a static program", child: errors.New("must not be asked"),
			want: []string{"ok mlx5_0/1 a message", "note mlx5_0 there is no library"}},
		"the library fails": {child: errors.New("exit status 1"),
			want: []string{"ok mlx5_0/1 a message", "note mlx5_0 there is no library"}},
		"not listed": {library: map[string]Attributes{},
			want: []string{"ok mlx5_0/1 a message", "note mlx5_0 there is no library"}},
		"another value, and one less": {library: map[string]Attributes{"mlx5_0": differs},
			want: []string{"ok mlx5_0/1 a message", "warning mlx5_0 device.MaxQP is 64 natively, and 65 by the library",
				"warning mlx5_0 ports.1.ActiveMTU is 4096 natively, and nothing by the library"}},
		"no message": {loop: errors.New("RetryExcErr"), library: map[string]Attributes{"mlx5_0": has},
			want: []string{"error mlx5_0/1 a message of the port to itself failed", "ok mlx5_0 2 attributes"}},
		"no query": {query: errors.New("EINVAL"), want: []string{"error mlx5_0 the attributes cannot be queried"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			if tt.missing != "" {
				b.info.Libraries = []loader.LibraryInfo{{Name: loader.IBVerbs, Error: tt.missing}}
				b.info.Control = "native: no library"
			}
			asked := false
			b.Native = &Native{
				Loop:       func(string, int) error { return tt.loop },
				Attributes: func(string) (Attributes, error) { return has, tt.query },
				Library:    func() (map[string]Attributes, error) { asked = true; return tt.library, tt.child }}
			var got []string
			for _, f := range Examine(b.Host, "rdmaperf").Findings {
				if f.Check != "native" {
					continue
				}
				got = append(got, f.Severity.String()+" "+f.Subject+" "+f.Text)
				if f.Evidence == "" || f.Remedy == "" && f.Severity >= Warning {
					t.Errorf("no evidence or no remedy: %+v", f)
				}
			}
			if !slices.EqualFunc(got, tt.want, strings.HasPrefix) {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if asked && tt.missing != "" {
				t.Error("a library that is not there was asked")
			}
		})
	}
}

// TestFlat: no value of an attribute is lost or cut.
func TestFlat(t *testing.T) {
	got, err := flat(map[string]any{"device": ibv.DeviceAttr{MaxMRSize: 1<<64 - 1, PhysPortCnt: 2},
		"P_Keys": []uint16{7, 9}})
	if err != nil || got["device.MaxMRSize"] != "18446744073709551615" || got["device.PhysPortCnt"] != "2" ||
		got["P_Keys.1"] != "9" || got["device.Ex"] != "<nil>" {
		t.Errorf("%v: %v", got, err)
	}
}

// TestNotDriven: a device that the native control path does not drive needs no package of libibverbs.
func TestNotDriven(t *testing.T) {
	b := newBed(t)
	b.info.Control = "native: " + ibv.ControlEnv + "=native"
	b.Unlisted = func() error {
		return &ibv.UnlistedError{Devices: []ibv.UnlistedDevice{{Name: "mlx5_0", Reason: "it is no mlx5 device"}}}
	}
	b.Native = &Native{Attributes: func(string) (Attributes, error) { t.Error("asked"); return nil, nil }}
	for _, f := range Examine(b.Host, "rdmaperf").Findings {
		if f.Check == "provider" {
			if f.Text != "the native control path does not drive the device" || f.Severity != Error ||
				!strings.Contains(f.Remedy, ibv.ControlEnv) {
				t.Errorf("%+v", f)
			}
			return
		}
	}
	t.Error("nothing is said of the device")
}
