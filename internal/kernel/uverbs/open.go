package uverbs

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// Version is the interface of the commands. C: IB_USER_VERBS_ABI_VERSION.
const Version = 6

// DevDir has the device files.
const DevDir = "/dev/infiniband/"

// CheckVersions returns a *VersionError unless the kernel has Version and the device's driver has driver.
func CheckVersions(root sysfs.Root, uverbs string, driver int64) error {
	for _, v := range []struct {
		want int64
		path []string
	}{
		{Version, []string{"class", "infiniband_verbs", "abi_version"}},
		{driver, []string{"class", "infiniband_verbs", uverbs, "abi_version"}},
	} {
		got, ok := root.Number(v.path...)
		if !ok {
			got = -1
		}
		if got != v.want {
			return &VersionError{What: v.path[len(v.path)-2] + "/" + v.path[len(v.path)-1], Got: got, Want: v.want}
		}
	}
	return nil
}

// Exists reports whether there is a device file of that name. The process may lack the permission to open it.
func Exists(uverbs string) bool {
	_, err := os.Stat(DevDir + uverbs)
	return !errors.Is(err, fs.ErrNotExist)
}

// Open opens the device file of that name, as in "uverbs0", for a driver. The error is an errno or a *FileError.
func Open(root sysfs.Root, uverbs string, driver uint32, forms *Forms) (*File, error) {
	major, minor, ok := root.VerbsDev(uverbs)
	if !ok {
		return nil, syscall.ENODEV
	}
	fd, err := openFile(DevDir+uverbs, major, minor)
	if err != nil {
		return nil, err
	}
	return NewFile(fd, driver, forms, kernel), nil
}

// Adopt returns a File of a descriptor that another process has opened, if it is of the device file of that name. The
// File then owns it.
func Adopt(root sysfs.Root, uverbs string, driver uint32, forms *Forms, fd int) (*File, error) {
	major, minor, ok := root.VerbsDev(uverbs)
	if !ok {
		return nil, syscall.ENODEV
	}
	if err := checkFile(fd, DevDir+uverbs, major, minor); err != nil {
		return nil, err
	}
	return NewFile(fd, driver, forms, kernel), nil
}

// Disown makes Close leave the descriptor open.
func (f *File) Disown() { f.lent = true }

// Close closes the file. What was made with it ends.
func (f *File) Close() error {
	fd := f.fd
	if f.fd = -1; f.lent {
		return nil
	}
	return CloseFD(fd)
}
