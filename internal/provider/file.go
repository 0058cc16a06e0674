package provider

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// FileCause is why a device file cannot be opened.
type FileCause uint8

// The causes.
const (
	FileOther   FileCause = 0
	FileMissing FileCause = 1
	FileMode    FileCause = 2 // its mode
	FileMount   FileCause = 3 // its file system takes no device files
	FileGroup   FileCause = 4 // the devices control group
	FileDriver  FileCause = 5 // the device has gone
	FilePolicy  FileCause = 6 // SELinux or AppArmor
)

// Cause returns why a device file with a mode, 0 if it is not known, cannot be opened. mounts has the text of
// /proc/self/mountinfo. The mode and the mount give EACCES, the devices control group EPERM.
func Cause(mounts, path string, mode fs.FileMode, err error) FileCause {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return FileMissing
	case errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ENODEV):
		return FileDriver
	case errors.Is(err, syscall.EPERM):
		return FileGroup
	case !errors.Is(err, fs.ErrPermission):
		return FileOther
	case nodev(mounts, path):
		return FileMount
	case mode.Perm()&0o006 == 0o006:
		return FilePolicy
	}
	return FileMode
}

// Mounts returns the text for [Cause], empty if it cannot be read.
func Mounts() string {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	return string(b)
}

// nodev reports whether the file system of a path takes no device files.
func nodev(mounts, path string) bool {
	at, options := "", ""
	for line := range strings.Lines(mounts) {
		w := strings.Fields(line)
		if len(w) < 6 {
			continue
		}
		if dir := strings.TrimSuffix(w[4], "/") + "/"; strings.HasPrefix(path, dir) && len(dir) >= len(at) {
			at, options = dir, w[5]
		}
	}
	return strings.Contains(","+options+",", ",nodev,")
}
