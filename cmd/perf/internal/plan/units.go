package plan

import "github.com/pureverbs/pureverbs/internal/flags"

// RateUnit is the unit of a rate.
type RateUnit uint8

// The units, and the letters that perftest has for them.
const (
	MiBPerSecond RateUnit = iota
	GbitPerSecond
	MessagesPerSecond
)

var rateUnitLetters = []string{MiBPerSecond: "M", GbitPerSecond: "g", MessagesPerSecond: "p"}

var rateUnitNames = []string{MiBPerSecond: "MiB/s", GbitPerSecond: "Gb/s", MessagesPerSecond: "messages/s"}

// String returns the unit for people.
func (u RateUnit) String() string { return flags.Name("RateUnit", int64(u), rateUnitNames) }

// MemoryKind is the kind of memory of an end's messages.
type MemoryKind uint8

// The kinds. Without any of the flags it is Pages.
const (
	Pages        MemoryKind = 0 // ordinary memory
	HugePages    MemoryKind = 1
	File         MemoryKind = 2 // mapped
	DeviceMemory MemoryKind = 3 // of the RDMA device
	CUDA         MemoryKind = 4 // of a GPU
)

var memoryKindNames = []string{"pages", "huge pages", "file", "device memory", "cuda"}

// String returns the kind for people.
func (k MemoryKind) String() string { return flags.Name("MemoryKind", int64(k), memoryKindNames) }
