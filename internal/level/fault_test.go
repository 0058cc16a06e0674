package level

import (
	"slices"
	"strings"
	"testing"
)

func TestFault(t *testing.T) {
	for version, want := range map[string]bool{
		"15.1": true, "19.11": true, "20.11": true, "20.12": false, "28.0": true, "33.2": true, "33.7": false,
		"33.10": false, "39.0": true, "39.2": false, "40.0": true, "40.1": false, "41.0": false, "44.0": false,
		"65.0": false, "": false, "44": false, "40.x": false,
	} {
		if got := BindMW.In(version, 0, "amd64"); got != want {
			t.Errorf("binding, %q: %v, want %v", version, got, want)
		}
	}
	for version, want := range map[string]bool{
		"35.9": false, "36.0": true, "36.17": true, "37.4": true, "37.5": false, "43.0": true, "43.1": false,
		"44.0": false, "44.0.1": false, "64.0": false,
	} {
		if got := SignedKeys.In(version, 0, "amd64"); got != want {
			t.Errorf("signatures, %q: %v, want %v", version, got, want)
		}
	}
	// A library without a version counts as the newest of its size.
	for size, want := range map[int]bool{0: false, 424: false, 432: false, 496: true, 648: true, 680: true, 696: false,
		704: false} {
		if got := WideResult.In("", size, "amd64"); got != want {
			t.Errorf("results, %d bytes: %v, want %v", size, got, want)
		}
	}
	if BindMW.In("", 648, "amd64") || !WideResult.In("", 688, "arm64") {
		t.Error("a library without a version is not that of its size")
	}
}

// The lists are in order, as In needs it.
func TestFaults(t *testing.T) {
	for _, f := range []Fault{BindMW, EthernetSL, HighSL, WQESum, LongBlocks, RawOpcode, SignedKeys, DevXState,
		WideResult} {
		var all []int
		for s := range strings.FieldsSeq(f.Fixed) {
			var series, point int
			if !scan(s, &series, &point) || series < f.Since {
				t.Errorf("%q is no release from v%d on", s, f.Since)
			}
			all = append(all, series)
		}
		if !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) {
			t.Errorf("not in order: %v", all)
		}
	}
}
