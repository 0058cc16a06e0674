//go:build linux

package sysfs

import "golang.org/x/sys/unix"

// StatUverbs returns what stat shows for uverbsN, and fstat for its open file.
func (t *Tree) StatUverbs(device int) unix.Stat_t {
	return t.stat(unix.Mkdev(UverbsMajor, uint32(UverbsMinor+device)))
}

// StatRDMACM returns what stat shows for rdma_cm, and fstat for its open file.
func (t *Tree) StatRDMACM() unix.Stat_t { return t.stat(unix.Mkdev(MiscMajor, t.rdmacm)) }

func (t *Tree) stat(rdev uint64) unix.Stat_t {
	st := unix.Stat_t{Dev: t.devfs.Dev, Ino: 1<<20 + rdev, Nlink: 1, Mode: unix.S_IFCHR | 0o666, Rdev: rdev,
		Blksize: 4096}
	st.Atim, st.Mtim, st.Ctim = t.devfs.Mtim, t.devfs.Mtim, t.devfs.Mtim
	return st
}

// Statx returns the same in statx's form.
func Statx(st *unix.Stat_t) unix.Statx_t {
	at := func(ts unix.Timespec) unix.StatxTimestamp {
		return unix.StatxTimestamp{Sec: int64(ts.Sec), Nsec: uint32(ts.Nsec)}
	}
	return unix.Statx_t{Mask: unix.STATX_BASIC_STATS, Blksize: uint32(st.Blksize), Nlink: uint32(st.Nlink), Uid: st.Uid,
		Gid: st.Gid, Mode: uint16(st.Mode), Ino: st.Ino, Size: uint64(st.Size), Blocks: uint64(st.Blocks),
		Atime: at(st.Atim), Mtime: at(st.Mtim), Ctime: at(st.Ctim), Rdev_major: unix.Major(st.Rdev),
		Rdev_minor: unix.Minor(st.Rdev), Dev_major: unix.Major(st.Dev),
		Dev_minor: unix.Minor(st.Dev)}
}
