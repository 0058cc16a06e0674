// Package sysfs reads what the kernel tells about RDMA devices below
// /sys/class/infiniband: devices, ports, GID tables, and the netdevs behind
// them. It needs no library, no permission and no open device.
//
// A [Root] names the tree, so that another one can stand in for /sys:
//
//	devs, err := sysfs.DefaultRoot().Devices()
//	gids, err := sysfs.DefaultRoot().GIDs("mlx5_0", 1)
//
// The tree changes under the reader: devices come and go, GIDs are added and
// removed. What vanishes between listing and reading is left out or marked in
// its own entry; it is not an error of the whole. Reads are bounded, final
// path elements are never followed as symbolic links, and nothing but regular
// files is read.
//
// Everything is safe for concurrent use. Nothing is cached, except that
// [Root.Devices] and [Root.GIDs] read each file once.
//
// Environment: SYSFS_PATH names another root, as it does for libibverbs. Setuid
// programs and those with file capabilities ignore it.
package sysfs
