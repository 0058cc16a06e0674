package place

import (
	"fmt"
	"slices"

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
	not := func(list []int) []int {
		return slices.DeleteFunc(slices.Clone(list), func(c int) bool { return slices.Contains(allowed, c) })
	}
	switch {
	case len(asked) > 0:
		if bad := not(asked); allowed != nil && len(bad) > 0 {
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
	s := "cpus not known"
	if p.CPUs != nil {
		s = "cpus " + hostfacts.FormatCPUs(p.CPUs)
	}
	switch {
	case p.Asked:
		s += " as asked for"
	case p.Pinned:
		s += ", near the device"
	default:
		s += ", not pinned"
	}
	if p.Node >= 0 {
		s += fmt.Sprintf("; the device is at numa node %d", p.Node)
	}
	if p.Nodes > 1 {
		s += fmt.Sprintf(", there are %d", p.Nodes)
	}
	return s
}
