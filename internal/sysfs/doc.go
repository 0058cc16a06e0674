// Package sysfs reads the kernel's description of RDMA devices below /sys/class/infiniband:
// devices, ports, GID tables, and the netdevs behind them. It needs no library, no permission and
// no open device.
//
// A [Root] names the tree, which may be another one than /sys:
//
//	devs, err := sysfs.DefaultRoot().Devices()
//	gids, err := sysfs.DefaultRoot().GIDs("mlx5_0", 1)
//
// The tree may change while it is read: devices come and go, GIDs are added and removed. Something
// that vanishes between listing and reading is omitted or marked in its own entry; the call does
// not fail. Reads are bounded, the final element of a path is never followed as a symbolic link,
// and only regular files are read.
//
// Everything is safe for concurrent use. Nothing is cached, except that
// [Root.Devices] and [Root.GIDs] read each file once.
//
// Environment: SYSFS_PATH names another root, as it does for libibverbs. Setuid
// programs and those with file capabilities ignore it.
package sysfs
