package plan

import "fmt"

// RateUnit is the unit of a rate.
type RateUnit uint8

// The units, and the letters that perftest has for them.
const (
	MiBPerSecond      RateUnit = iota // M
	GbitPerSecond                     // g
	MessagesPerSecond                 // p
)

// String returns the unit for people.
func (u RateUnit) String() string {
	switch u {
	case MiBPerSecond:
		return "MiB/s"
	case GbitPerSecond:
		return "Gb/s"
	case MessagesPerSecond:
		return "messages/s"
	}
	return fmt.Sprintf("RateUnit(%d)", uint8(u))
}

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

// String returns the kind for people.
func (k MemoryKind) String() string {
	if int(k) < len(memoryNames) {
		return memoryNames[k]
	}
	return fmt.Sprintf("MemoryKind(%d)", uint8(k))
}

var memoryNames = [...]string{"pages", "huge pages", "file", "device memory", "cuda"}
