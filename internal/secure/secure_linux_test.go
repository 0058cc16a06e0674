package secure

import "testing"

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		vec     [][2]uintptr
		set, ok bool
	}{
		{nil, false, false},
		{[][2]uintptr{{6, 4096}, {0, 0}}, false, false},
		{[][2]uintptr{{6, 4096}, {23, 0}, {0, 0}}, false, true},
		{[][2]uintptr{{23, 1}, {0, 0}}, true, true},
	} {
		if set, ok := find(tt.vec); set != tt.set || ok != tt.ok {
			t.Errorf("%v: %t, %t; want %t, %t", tt.vec, set, ok, tt.set, tt.ok)
		}
	}
}
