package place

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Allowed lists the CPUs that this process may use.
func Allowed() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}
	var list []int
	for c := 0; len(list) < set.Count() && c < mostCPUs; c++ {
		if set.IsSet(c) {
			list = append(list, c)
		}
	}
	return list, nil
}

// Pin has all threads of this process run on the place's CPUs, and those that they start, too. undo lets them run where
// they might before.
func (p *Place) Pin() (undo func(), err error) {
	if !p.Pinned {
		return func() {}, nil
	}
	before, err := Allowed()
	if err != nil {
		return nil, err
	}
	if err := confine(p.CPUs); err != nil {
		return nil, fmt.Errorf("cpus %s: %w", FormatList(p.CPUs), err)
	}
	return func() { _ = confine(before) }, nil
}

// confine sets the CPUs of each thread, until there is none that has come meanwhile.
func confine(cpus []int) error {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	done := map[int]bool{}
	for more := true; more; {
		more = false
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range tasks {
			tid, err := strconv.Atoi(t.Name())
			if err != nil || done[tid] {
				continue
			}
			if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
			done[tid], more = true, true
		}
	}
	return nil
}
