//go:build linux

package sysfs

import "golang.org/x/sys/unix"

// Stat returns what stat shows for a device file, and fstat for it when it is open. Only root opens a umad, unless
// udev's rules say otherwise.
func (t *Tree) Stat(to Target) unix.Stat_t {
	switch to.Kind {
	case Uverbs:
		return t.stat(unix.Mkdev(UverbsMajor, uint32(UverbsMinor+to.Device)))
	case Umad:
		st := t.stat(unix.Mkdev(UverbsMajor, uint32(UmadMinor+to.Umad)))
		st.Mode = unix.S_IFCHR | 0o600
		return st
	}
	return t.stat(unix.Mkdev(MiscMajor, t.rdmacm))
}

func (t *Tree) stat(rdev uint64) unix.Stat_t {
	st := unix.Stat_t{Dev: t.devfs.Dev, Ino: 1<<20 + rdev, Nlink: 1, Mode: unix.S_IFCHR | 0o666, Rdev: rdev,
		Blksize: 4096}
	st.Atim, st.Mtim, st.Ctim = t.devfs.Mtim, t.devfs.Mtim, t.devfs.Mtim
	return st
}
