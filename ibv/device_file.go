package ibv

import (
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/provider"
)

// deviceDir is the directory of the device files; tests replace it.
var deviceDir = provider.DeviceDir

// DeviceFileError reports a device file that is missing, or belongs to another device.
type DeviceFileError struct {
	Path    string // "/dev/infiniband/uverbs0"
	Problem string // "is missing: …"
	Err     error  // an errno
}

func (e *DeviceFileError) Error() string { return e.Path + " " + e.Problem + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *DeviceFileError) Unwrap() error { return e.Err }

// DescriptorError reports that the process, or the system, has no file descriptor left. It
// unwraps to EMFILE or ENFILE.
type DescriptorError struct {
	Cur uint64 // RLIMIT_NOFILE, soft; all ones is unlimited
	Max uint64 // RLIMIT_NOFILE, hard
	Err error  // EMFILE, or ENFILE if the system has none left
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
	return fmt.Sprintf("this process has no file descriptor left; its limit is %s (RLIMIT_NOFILE, hard limit %s): "+
		"close some, or raise it with ulimit -n, LimitNOFILE in a systemd unit or --ulimit nofile for a container: %v",
		number(e.Cur),
		number(e.Max), e.Err)
}

// Unwrap returns Err.
func (e *DescriptorError) Unwrap() error { return e.Err }

// explainDescriptors returns a *DescriptorError if descriptors ran out, and err otherwise.
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
