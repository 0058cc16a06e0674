//go:build linux

package sysfs

import "golang.org/x/sys/unix"

// StatUverbs returns what stat shows for uverbsN, and fstat for its open file.
func (t *Tree) StatUverbs(device int) unix.Stat_t {
	return t.stat(unix.Mkdev(UverbsMajor, uint32(UverbsMinor+device)))
}

// StatUmad returns what stat shows for umadN, and fstat for its open file. Only root opens it, unless udev's rules say
// otherwise.
func (t *Tree) StatUmad(n int) unix.Stat_t {
	st := t.stat(unix.Mkdev(UverbsMajor, uint32(UmadMinor+n)))
	st.Mode = unix.S_IFCHR | 0o600
	return st
}

// StatRDMACM returns what stat shows for rdma_cm, and fstat for its open file.
func (t *Tree) StatRDMACM() unix.Stat_t { return t.stat(unix.Mkdev(MiscMajor, t.rdmacm)) }

// Stat returns what stat shows for a device file, and fstat for it when it is open.
func (t *Tree) Stat(to Target) unix.Stat_t {
	switch to.Kind {
	case Uverbs:
		return t.StatUverbs(to.Device)
	case Umad:
		return t.StatUmad(to.Umad)
	}
	return t.StatRDMACM()
}

func (t *Tree) stat(rdev uint64) unix.Stat_t {
	st := unix.Stat_t{Dev: t.devfs.Dev, Ino: 1<<20 + rdev, Nlink: 1, Mode: unix.S_IFCHR | 0o666, Rdev: rdev,
		Blksize: 4096}
	st.Atim, st.Mtim, st.Ctim = t.devfs.Mtim, t.devfs.Mtim, t.devfs.Mtim
	return st
}
