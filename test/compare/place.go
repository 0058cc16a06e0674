//go:build linux

package compare

import (
	"context"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Processors says where each process of a comparison runs, the same for all that is compared. Otherwise a ratio would
// measure the scheduler's placement: an emulator and two ends that poll share two processors in more than one way, and
// a ping-pong of 8 bytes takes 8 µs in one of them and 23 µs in another.
type Processors struct {
	Emulator       string // a list, as taskset has it
	Server, Client int
}

// Place gives the two ends processors of their own if there are two. The emulator gets the remaining ones, or shares
// those of the ends.
func Place(cpus []int) Processors {
	rest := cpus
	if len(cpus) > 2 {
		rest = cpus[2:]
	}
	var list []string
	for _, c := range rest {
		list = append(list, strconv.Itoa(c))
	}
	return Processors{Emulator: strings.Join(list, ","), Server: cpus[0], Client: cpus[min(1, len(cpus)-1)]}
}

// Allowed lists the processors that this process may use.
func Allowed() ([]int, error) {
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

// On is a command that runs on one processor.
func On(ctx context.Context, cpu int, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "taskset", append([]string{"-c", strconv.Itoa(cpu), program}, args...)...)
}
