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

// Node is a device file of /dev/infiniband.
type Node struct {
	Name   string // as in "uverbs0"
	Number uint64 // C: dev_t; 0 if it is not known
	ABI    int64  // of the driver; -1 if it is not known
}

// ReadNode reads from sysfs what a device file of that name is.
func ReadNode(root sysfs.Root, name string) Node {
	n := Node{Name: name, ABI: -1}
	if major, minor, ok := root.VerbsDev(name); ok {
		n.Number = deviceNumber(major, minor)
	}
	if abi, ok := root.Number("class", "infiniband_verbs", name, "abi_version"); ok {
		n.ABI = abi
	}
	return n
}

// Check returns a *VersionError unless the kernel has Version and the device's driver has driver.
func (n Node) Check(root sysfs.Root, driver int64) error {
	const core = "infiniband_verbs/abi_version"
	got, ok := root.Number("class", "infiniband_verbs", "abi_version")
	switch {
	case !ok:
		return &VersionError{What: core, Got: -1, Want: Version}
	case got != Version:
		return &VersionError{What: core, Got: got, Want: Version}
	case n.ABI != driver:
		return &VersionError{What: n.Name + "/abi_version", Got: n.ABI, Want: driver}
	}
	return nil
}

// Exists reports whether there is a device file of that name. The process may lack the permission to open it.
func Exists(uverbs string) bool {
	_, err := os.Stat(DevDir + uverbs)
	return !errors.Is(err, fs.ErrNotExist)
}

// Open opens the device file for a driver. The error is an errno or a *FileError.
func (n Node) Open(driver uint32, forms *Forms) (*File, error) {
	if n.Number == 0 {
		return nil, syscall.ENODEV
	}
	fd, err := openFile(DevDir+n.Name, n.Number)
	if err != nil {
		return nil, err
	}
	return NewFile(fd, driver, forms, kernel), nil
}

// Adopt returns a File of a descriptor that another process has opened, if it is of the device file. The File then owns
// it.
func (n Node) Adopt(driver uint32, forms *Forms, fd int) (*File, error) {
	if n.Number == 0 {
		return nil, syscall.ENODEV
	}
	if err := checkFile(fd, DevDir+n.Name, n.Number); err != nil {
		return nil, err
	}
	return NewFile(fd, driver, forms, kernel), nil
}

// Disown makes Close leave the descriptor open.
func (f *File) Disown() { f.lent = true }

// Lent reports whether Close leaves the descriptor open.
func (f *File) Lent() bool { return f.lent }

// Close closes the file. What was made with it ends.
func (f *File) Close() error {
	fd := f.fd
	if f.fd = -1; f.lent {
		return nil
	}
	return CloseFD(fd)
}
