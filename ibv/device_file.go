package ibv

import (
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/provider"
)

// deviceDir is where the device files are; tests have another one.
var deviceDir = provider.DeviceDir

// DeviceFileError is a device file that is not there, or is not the device's.
type DeviceFileError struct {
	Path    string // "/dev/infiniband/uverbs0"
	Problem string // "is missing: …"
	Err     error  // an errno
}

func (e *DeviceFileError) Error() string { return e.Path + " " + e.Problem + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *DeviceFileError) Unwrap() error { return e.Err }

// DescriptorError is a process, or a system, without a file descriptor left. It is
// an EMFILE or ENFILE.
type DescriptorError struct {
	Cur uint64 // RLIMIT_NOFILE, soft; all ones is unlimited
	Max uint64 // RLIMIT_NOFILE, hard
	Err error  // EMFILE, or ENFILE if it is the system that has none left
}

func (e *DescriptorError) Error() string {
	if errors.Is(e.Err, syscall.ENFILE) {
		return fmt.Sprintf("the system has no file descriptor left (sysctl fs.file-max): %v", e.Err)
	}
	number := func(n uint64) string {
		if n == ^uint64(0) {
			return "unlimited"
		}
		return strconv.FormatUint(n, 10)
	}
	return fmt.Sprintf("this process has no file descriptor left, it may have %s (RLIMIT_NOFILE, hard limit %s): "+
		"close some, or raise it with ulimit -n, LimitNOFILE in a systemd unit or --ulimit nofile for a container: %v",
		number(e.Cur),
		number(e.Max), e.Err)
}

// Unwrap returns Err.
func (e *DescriptorError) Unwrap() error { return e.Err }

// explainDescriptors returns a *DescriptorError for a lack of descriptors, and other
// errors as they are.
func explainDescriptors(err error) error {
	var d *DescriptorError
	if errors.As(err, &d) {
		return err
	}
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, e) {
			d := &DescriptorError{Err: e}
			d.Cur, d.Max = descriptorLimit()
			return d
		}
	}
	return err
}
