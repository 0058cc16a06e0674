package place

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/hostfacts"
)

// pinned are the places that the process is confined to: several devices may be at several nodes.
var pinned struct {
	sync.Mutex
	places []*Place
	before []int // what it might use without
}

// Allowed lists the CPUs that this process may use, or might before Pin.
func Allowed() ([]int, error) {
	pinned.Lock()
	defer pinned.Unlock()
	if len(pinned.places) > 0 {
		return pinned.before, nil
	}
	return affinity()
}

// affinity lists the CPUs that this thread may use.
func affinity() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}
	var list []int
	for c := 0; len(list) < set.Count() && c < hostfacts.MaxCPUs; c++ {
		if set.IsSet(c) {
			list = append(list, c)
		}
	}
	return list, nil
}

// Pin makes all threads of this process, and those that they start, run on the place's CPUs. Places that are pinned at
// the same time share theirs. undo ends it.
func (p *Place) Pin() (undo func(), err error) {
	if !p.Pinned {
		return func() {}, nil
	}
	pinned.Lock()
	defer pinned.Unlock()
	if len(pinned.places) == 0 {
		if pinned.before, err = affinity(); err != nil {
			return nil, err
		}
	}
	all := slices.Clone(p.CPUs)
	for _, other := range pinned.places {
		all = append(all, other.CPUs...)
	}
	if err := confine(all); err != nil {
		return nil, fmt.Errorf("cpus %s: %w", hostfacts.FormatCPUs(p.CPUs), err)
	}
	pinned.places = append(pinned.places, p)
	return p.unpin, nil
}

// unpin ends what Pin began.
func (p *Place) unpin() {
	pinned.Lock()
	defer pinned.Unlock()
	pinned.places = slices.DeleteFunc(pinned.places, func(other *Place) bool { return other == p })
	all := pinned.before
	if len(pinned.places) > 0 {
		all = nil
		for _, other := range pinned.places {
			all = append(all, other.CPUs...)
		}
	}
	_ = confine(all)
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
