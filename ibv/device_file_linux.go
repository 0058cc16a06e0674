package ibv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/provider"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

func descriptorLimit() (cur, max uint64) {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return 0, 0
	}
	return r.Cur, r.Max
}

// spareDescriptors returns a *DescriptorError if fewer than n descriptors can be opened.
func spareDescriptors(n int) error {
	for range n {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			return explainDescriptors(err)
		}
		defer unix.Close(fd)
	}
	return nil
}

// explainOpen returns why libibverbs could not open a device. After a failure libibverbs tries
// a second path and reports the errno of that one (rdma-core v44.0, util/open_cdev.c:144), so
// explainOpen tries the first path itself.
func explainOpen(device string, err error) error {
	if d := explainDescriptors(err); d != err {
		return d
	}
	if errors.Is(err, unix.EAGAIN) {
		return explainCgroup("/", device, hcaHandle, err)
	}
	root := sysfs.DefaultRoot()
	d, sysErr := root.Device(device)
	if sysErr != nil {
		if e := explainDescriptors(sysErr); e != sysErr {
			return e
		}
	}
	path := filepath.Join(deviceDir, "uverbs*")
	if d.Uverbs != "" {
		path = filepath.Join(deviceDir, d.Uverbs)
		if e := probe(root, d.Uverbs, path); e != nil {
			return e
		}
	}
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return &PermissionError{Path: path, Err: err}
	}
	if d.Driver == driverMLX5 {
		if why := explainOpenEnv(os.Getpagesize()); why != nil && err != nil {
			return fmt.Errorf("%w (libmlx5: %w)", why, err)
		} else if why != nil {
			return why
		}
	}
	return err
}

// explainCMFile returns what prevents librdmacm from opening the device file of rdma_cm, or nil.
func explainCMFile() error {
	return probe(sysfs.DefaultRoot(), provider.CMFile, filepath.Join(deviceDir, provider.CMFile))
}

// probe opens a device file as libibverbs does, and returns what prevents it.
func probe(root sysfs.Root, uverbs, path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return explainFile(path, &st, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return &DeviceFileError{Path: path, Problem: "is not a device file, so it was not made by udev or devtmpfs",
			Err: unix.ENODEV}
	}
	major, minor := unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev))
	if x, y, ok := root.VerbsDev(uverbs); ok && (x != major || y != minor) {
		return &DeviceFileError{Path: path, Err: unix.ENODEV, Problem: fmt.Sprintf(
			"is device %d:%d, and the kernel's %s is %d:%d: "+
				"it was made for another device, or before the driver was loaded again",
			major, minor, uverbs, x, y)}
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return explainFile(path, &st, err)
	}
	_ = unix.Close(fd)
	return nil
}

// explainFile returns a typed error for the errno of a device file.
func explainFile(path string, st *unix.Stat_t, err error) error {
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		return explainDescriptors(err)
	}
	switch provider.Cause(provider.Mounts(), path, fs.FileMode(st.Mode&0o777), err) {
	case provider.FileMissing:
		return &DeviceFileError{Path: path, Problem: provider.MissingFile(path), Err: err}
	case provider.FileMount:
		return &PermissionError{Path: path, Err: err, Detail: "its file system is mounted with nodev, as a bind " +
			"mount of its folder in a container is; pass the device to the container (--device " + path + ")"}
	case provider.FilePolicy:
		return &PermissionError{Path: path, Err: err, Detail: fmt.Sprintf("its mode %#o permits it, so the cause is "+
			"SELinux or AppArmor (ausearch -m avc, dmesg)", st.Mode&0o7777)}
	case provider.FileMode:
		if st.Mode == 0 {
			return &PermissionError{Path: path, Err: err}
		}
		return &PermissionError{Path: path, Err: err,
			Detail: fmt.Sprintf("its mode is %#o and it belongs to user %d and group %d, "+
				"this process runs as user %d in %s (the udev rules of rdma-core make it 0666)", st.Mode&0o7777,
				st.Uid, st.Gid,
				os.Geteuid(), groups())}
	case provider.FileGroup:
		return &PermissionError{Path: path, Err: err,
			Detail: "its mode is not the cause: the devices cgroup of this container or unit forbids it, " +
				"or the device belongs to another network namespace (rdma system, rdma dev set NAME netns)"}
	case provider.FileDriver:
		return &DeviceFileError{Path: path, Problem: "has no driver behind it: the device was removed, or is being " +
			"reset",
			Err: err}
	}
	return &DeviceFileError{Path: path, Problem: "cannot be opened", Err: err}
}

// groups lists the groups of this process, for a message.
func groups() string {
	ids, _ := os.Getgroups()
	ids = append(ids, os.Getegid())
	slices.Sort(ids)
	ids = slices.Compact(ids)
	word := "group "
	if len(ids) > 1 {
		word = "groups "
	}
	return word + strings.Trim(fmt.Sprint(ids), "[]")
}
