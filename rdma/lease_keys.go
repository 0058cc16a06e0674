package rdma

import "github.com/pureverbs/pureverbs/internal/flags"

// LeaseKeys selects how a lease gives the peer access to the memory. Lease.Window reports which way a lease uses.
type LeaseKeys uint8

const (
	// KeysAuto means KeysWindow if the device enforces the bounds of windows, else KeysMR.
	KeysAuto LeaseKeys = iota
	// KeysMR registers the memory for each lease, which every device can. Any queue pair of the engine that has a lease
	// with the same right takes the key, so a peer could use another connection's if it guessed the address.
	KeysMR
	// KeysWindow binds a memory window of type 2 to the memory. Only the connection's own queue pair takes its key, and
	// nothing is registered, which takes a quarter of the time. A lease still has an MR if it is above 2 GiB, if it is
	// for atomics on memory that is not aligned to 8 bytes, or if the device has no more windows.
	KeysWindow
)

var leaseKeysNames = []string{"KeysAuto", "KeysMR", "KeysWindow"}

// String returns the name, as in "KeysMR".
func (k LeaseKeys) String() string { return flags.Name("LeaseKeys", int64(k), leaseKeysNames) }
