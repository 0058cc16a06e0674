// Package hostfacts reads what Linux says of a host's RDMA: devices, ports and their states, GID tables and why a GID
// can or cannot be used, counters, PCIe links, NUMA nodes, GPUs and how far they are, limits of memory and of control
// groups. It is for health agents, device plugins and schedulers. It reads files of sysfs and procfs, and asks netlink
// for the addresses of this network namespace. It needs no library, no open device and no privilege, except for
// [Host.ACS].
//
//	host := hostfacts.This()           // or At("/host"), in a container that mounts the host's /sys and /proc there
//	facts, err := host.Read()          // everything; each part has its own method
//	err = json.NewEncoder(w).Encode(facts)
//
// Files may be damaged, may not be readable, and may change while they are read. Reads are bounded, no final element of
// a path of sysfs is followed as a symbolic link, and only regular files are read. A value that is not known is empty,
// 0 or [Unknown], and the reason is in the part's Missing. What a kernel, a driver or a device does not have is not
// known without a reason. Something that vanishes between listing and reading is omitted.
//
// Values are encoded as JSON by names that stay; fields may be added. Values of enumerations that have no name print as
// PortState(17).
//
// Everything is safe for concurrent use, except a [Namespace]. Nothing is cached.
package hostfacts
