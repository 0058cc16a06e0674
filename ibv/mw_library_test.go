package ibv

import "testing"

func TestBindsBeyond(t *testing.T) {
	for version, want := range map[string]bool{
		"15.1": true, "19.11": true, "20.11": true, "20.12": false, "28.0": true, "33.2": true, "33.7": false,
		"33.10": false, "39.0": true, "39.2": false, "40.0": true, "40.1": false, "41.0": false, "44.0": false,
		"65.0": false, "": false, "44": false, "40.x": false,
	} {
		if got := bindsBeyond(version); got != want {
			t.Errorf("%q: %v, want %v", version, got, want)
		}
	}
}
