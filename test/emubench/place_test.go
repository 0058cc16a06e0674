//go:build linux && amd64 && !race

package emubench

import (
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// processors says where each process runs, the same for both programs. Otherwise a ratio would measure the scheduler's
// placement.
type processors struct {
	emulator       string // a list, as taskset has it
	server, client int
}

// place gives the two ends processors of their own if there are two. The emulator gets the remaining ones, or shares
// those of the ends.
func place(cpus []int) processors {
	rest := cpus
	if len(cpus) > 2 {
		rest = cpus[2:]
	}
	var list []string
	for _, c := range rest {
		list = append(list, strconv.Itoa(c))
	}
	return processors{emulator: strings.Join(list, ","), server: cpus[0], client: cpus[min(1, len(cpus)-1)]}
}

// allowed lists the processors that this process may use.
func allowed() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}
	var cpus []int
	for i := 0; len(cpus) < set.Count(); i++ {
		if set.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	return cpus, nil
}

func TestPlace(t *testing.T) {
	for _, tc := range []struct {
		cpus []int
		want processors
	}{
		{[]int{3}, processors{"3", 3, 3}},
		{[]int{0, 5}, processors{"0,5", 0, 5}},
		{[]int{1, 2, 3}, processors{"3", 1, 2}},
		{[]int{0, 1, 2, 7}, processors{"2,7", 0, 1}},
	} {
		if got := place(tc.cpus); got != tc.want {
			t.Errorf("%v: %+v, want %+v", tc.cpus, got, tc.want)
		}
	}
}
