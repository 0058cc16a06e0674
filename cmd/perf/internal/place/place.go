package place

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/hostfacts"
)

// Place is where a test runs.
type Place struct {
	Node   int   // of the device; -1 if it is not known
	Nodes  int   // of the machine
	CPUs   []int // that the test may run on
	Pinned bool  // they were chosen; otherwise they are all that this process may use
	Asked  bool  // by --cpus
	Note   string
}

// A CPUError is a CPU that this process may not use.
type CPUError struct {
	Asked   []int // those that it may not use
	Allowed []int
}

// Error returns one line.
func (e *CPUError) Error() string {
	return fmt.Sprintf("cpus (--cpus): this process may not use %s, but %s (taskset -cp, the cgroup's cpuset.cpus)",
		hostfacts.FormatCPUs(e.Asked), hostfacts.FormatCPUs(e.Allowed))
}

// CPUsOf lists the CPUs of a NUMA node that are among those that are allowed.
func CPUsOf(host hostfacts.Host, node int, allowed []int) ([]int, error) {
	list, err := host.NodeCPUs(node)
	if err != nil {
		return nil, fmt.Errorf("the CPUs of NUMA node %d are not known: %w", node, err)
	}
	list = slices.DeleteFunc(list, func(c int) bool { return !slices.Contains(allowed, c) })
	if len(list) == 0 {
		return nil, fmt.Errorf("no CPU of NUMA node %d may be used; allowed: %s", node, hostfacts.FormatCPUs(allowed))
	}
	return list, nil
}

// Choose returns where a test on a device runs: on the requested CPUs, or on those of the device's node, if they are
// among those that are allowed. free leaves the choice to the kernel.
func Choose(host hostfacts.Host, device string, allowed, asked []int, free bool) (Place, error) {
	nodes, _ := host.NUMANodes()
	p := Place{Node: -1, CPUs: allowed, Nodes: max(len(nodes), 1)}
	if d, err := host.Device(device); err == nil && d.NUMANode >= 0 {
		p.Node = d.NUMANode
	} else if p.Nodes == 1 {
		p.Node = 0
	}
	switch {
	case len(asked) > 0:
		bad := slices.DeleteFunc(slices.Clone(asked), func(c int) bool { return slices.Contains(allowed, c) })
		if allowed != nil && len(bad) > 0 {
			return p, &CPUError{bad, allowed}
		}
		p.CPUs, p.Pinned, p.Asked = asked, true, true
	case free || p.Nodes == 1 || allowed == nil:
	case p.Node < 0:
		p.Note = fmt.Sprintf("the machine has %d NUMA nodes and does not say which %s is at; give --cpus", p.Nodes,
			device)
	default:
		near, err := CPUsOf(host, p.Node, allowed)
		if err != nil {
			p.Note = fmt.Sprintf("%s is at NUMA node %d: %v", device, p.Node, err)
			break
		}
		p.CPUs, p.Pinned = near, true
	}
	return p, nil
}

// String returns the place for people.
func (p *Place) String() string {
	return "cpus " + cmp.Or(hostfacts.FormatCPUs(p.CPUs), "not known") +
		cmp.Or(lists.When(p.Asked, " as asked for"), lists.When(p.Pinned, ", near the device"), ", not pinned") +
		lists.When(p.Node >= 0, fmt.Sprintf("; the device is at numa node %d", p.Node)) +
		lists.When(p.Nodes > 1, fmt.Sprintf(", there are %d", p.Nodes))
}
