//go:build linux

package compare

import "testing"

func TestPlace(t *testing.T) {
	for _, tc := range []struct {
		cpus []int
		want Processors
	}{
		{[]int{3}, Processors{"3", 3, 3}},
		{[]int{0, 5}, Processors{"0,5", 0, 5}},
		{[]int{1, 2, 3}, Processors{"3", 1, 2}},
		{[]int{0, 1, 2, 7}, Processors{"2,7", 0, 1}},
	} {
		if got := Place(tc.cpus); got != tc.want {
			t.Errorf("%v: %+v, want %+v", tc.cpus, got, tc.want)
		}
	}
}
