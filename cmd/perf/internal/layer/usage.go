package layer

import (
	"fmt"
	"os"
	"runtime"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/rdma"
)

// Usage is the cost of a run for a process.
type Usage struct {
	CPU    float64 `json:"cpu_seconds"` // of all its threads
	Allocs uint64  `json:"allocations"`
	Frames uint64  `json:"frames_received"`
	Turns  uint64  `json:"poller_turns"` // in which the poller found something
	Wakes  uint64  `json:"wakes"`        // of goroutines that waited to send or to receive

	Copying float64 `json:"copying_seconds,omitempty"` // of the carrier copy: the part of it that is copying
}

// now returns the counters up to now.
func now(e *rdma.Engine) Usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u := Usage{Allocs: m.Mallocs}
	if e != nil {
		s := e.Stats()
		u.Frames, u.Turns, u.Wakes = s.Frames, s.Batches, s.Wakes
	}
	u.CPU = measure.CPUTime().Seconds()
	return u
}

// since returns what was used from before to u.
func (u Usage) since(before Usage) Usage {
	return Usage{CPU: u.CPU - before.CPU, Allocs: u.Allocs - before.Allocs, Frames: u.Frames - before.Frames,
		Turns: u.Turns - before.Turns, Wakes: u.Wakes - before.Wakes}
}

// Memory is the memory of connections, without the blocks of their engine.
type Memory struct {
	Conns    int   `json:"connections"`              // that were added
	Heap     int64 `json:"heap_bytes"`               // of the Go heap and of stacks
	Resident int64 `json:"resident_bytes,omitempty"` // 0: not known
}

// memory returns what the process has now. Blocks are not part of it.
func memory(e *rdma.Engine) Memory {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s := e.Stats()
	return Memory{Conns: s.Conns, Heap: int64(m.HeapAlloc + m.StackInuse), Resident: resident() - s.Memory}
}

// beyond returns the increase since before, or nil if it is not known: the system does not report it. Blocks of an
// adapter that pins no memory, as an emulated one, may not be resident, and then what is without them is not known.
func (m Memory) beyond(before Memory) *Memory {
	m = Memory{m.Conns - before.Conns, m.Heap - before.Heap, m.Resident - before.Resident}
	if m.Resident < m.Heap {
		m.Resident = 0
	}
	if m.Conns <= 0 {
		return nil
	}
	return &m
}

// resident returns the bytes of this process that are in memory, or 0 if the system does not report it.
func resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var all, in int64
	if _, err := fmt.Sscan(string(text), &all, &in); err != nil {
		return 0
	}
	return in * int64(os.Getpagesize())
}
