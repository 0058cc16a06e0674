package dma

import (
	"fmt"
	"math"
)

const (
	hugePageSize = 2 << 20
	maxSize      = math.MaxInt - 4*hugePageSize // leaves room for guards and rounding
)

// SizeError reports a size that is out of range.
type SizeError struct {
	Size int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("dma: alloc %d bytes: the size must be from 1 to %d", e.Size, maxSize)
}

// HugePageError reports that there were not enough huge pages.
type HugePageError struct {
	Need int   // pages of 2 MiB
	Free int   // pages that are reserved and neither used nor promised, -1 if unknown
	Err  error // errno of the kernel
}

func (e *HugePageError) Error() string {
	have := "how many are free is unknown"
	if e.Free >= 0 {
		have = fmt.Sprintf("%d are free", e.Free)
	}
	more := e.Need
	if e.Free > 0 && e.Free < e.Need {
		more -= e.Free
	}
	return fmt.Sprintf("dma: %d huge pages of 2 MiB: %v: %s: raise /proc/sys/vm/nr_hugepages by %d, or do not "+
		"require huge pages", e.Need, e.Err, have, more)
}

// Unwrap returns the errno.
func (e *HugePageError) Unwrap() error { return e.Err }

// NodeError reports that memory cannot be placed on a NUMA node.
type NodeError struct {
	Node   int
	Online string // the online nodes, as sysfs lists them; may be empty
	Err    error  // errno of mbind; EINVAL for an invalid number
}

func (e *NodeError) Error() string {
	s := fmt.Sprintf("dma: prefer NUMA node %d", e.Node)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Online != "" {
		return s + ": the nodes online are " + e.Online
	}
	return s
}

// Unwrap returns the errno.
func (e *NodeError) Unwrap() error { return e.Err }
