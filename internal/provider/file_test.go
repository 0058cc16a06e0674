package provider

import (
	"io/fs"
	"syscall"
	"testing"
)

// TestCause: the errno, the mode and the mount together are the cause.
func TestCause(t *testing.T) {
	const root = "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n" +
		"22 21 0:5 / /dev rw,nosuid - devtmpfs udev rw\n"
	const bind = root + "23 22 0:9 / /dev/infiniband rw,nosuid,nodev - tmpfs t rw\n"
	const dev = bind + "24 23 0:5 / /dev/infiniband rw - devtmpfs udev rw\nnonsense\n"
	for _, tc := range []struct {
		mounts string
		mode   fs.FileMode
		err    error
		want   FileCause
	}{
		{root, 0, syscall.ENOENT, FileMissing},
		{root, 0o666, syscall.ENXIO, FileDriver},
		{root, 0o666, syscall.ENODEV, FileDriver},
		{bind, 0o666, syscall.EPERM, FileGroup},
		{root, 0o600, syscall.EACCES, FileMode},
		{root, 0, syscall.EACCES, FileMode},
		{bind, 0o600, syscall.EACCES, FileMount},
		{bind, 0o666, &fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, FileMount},
		{dev, 0o660, syscall.EACCES, FileMode}, // the last mount counts
		{dev, fs.ModeDevice | 0o666, syscall.EACCES, FilePolicy},
		{"", 0o666, syscall.EACCES, FilePolicy},
		{root, 0o666, syscall.EIO, FileOther},
	} {
		if got := Cause(tc.mounts, "/dev/infiniband/uverbs0", tc.mode, tc.err); got != tc.want {
			t.Errorf("mode %v, %v: %v, want %v", tc.mode, tc.err, got, tc.want)
		}
	}
	if Mounts() == "" {
		t.Error("no mounts")
	}
}
