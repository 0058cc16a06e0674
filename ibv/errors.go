package ibv

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/life"
	"github.com/pureverbs/pureverbs/loader"
)

// Sentinels, for errors.Is.
var (
	// ErrNotSupported is returned when the device, the driver, the kernel or the library lacks
	// a feature. ENOSYS and EOPNOTSUPP from the kernel or the library match it.
	ErrNotSupported = errors.ErrUnsupported
	// ErrClosed is returned when the object was closed before the call, or while the call
	// waited. It matches net.ErrClosed.
	ErrClosed = life.ErrClosed
	// ErrQueueFull is returned when the work queue has no room. Poll completions, then post the
	// rest. A send queue in which no work request is signaled stays full; the error then reports it.
	ErrQueueFull = errors.New("queue is full; poll completions first")
	// ErrLibrary is returned when libibverbs is missing or unusable. The error is a
	// *loader.LibraryError or *loader.InstanceError, which names the package to install.
	ErrLibrary = loader.ErrLibrary
	// ErrDeviceRemoved is returned by every call that fails because the device failed permanently or was unplugged.
	// Close every object on it, and open the device again when it is back.
	ErrDeviceRemoved = errors.New("the RDMA device was removed")
	// ErrNoDevice is returned when the host has no RDMA device, or not the requested one.
	ErrNoDevice = errors.New("no such RDMA device")
	// ErrRaw is returned when a QP, CQ or SRQ made with DataPathRaw is posted to or
	// polled: its rings are driven through package mlx5dv.
	ErrRaw = errors.New("created with DataPathRaw: post and poll through package mlx5dv")
	// ErrPoll is returned when the provider fails to poll the completion queue. The provider
	// gives no reason.
	ErrPoll = errors.New("the provider failed to poll the queue")
	// ErrNotFound is returned when a table has no matching entry.
	ErrNotFound = errors.New("not found")
	// ErrBroken is returned when a QP is used after a *CompletionError named it. No device
	// could have written that completion; close the QP.
	ErrBroken = errors.New("a corrupt completion named the qp: close it")
)

// errnoError returns the error of a positive errno, nil for 0.
func errnoError(n int) error {
	if n == 0 {
		return nil
	}
	return abi.Errno(n)
}

// OpError reports a call that failed. errors.Is and errors.As find the cause: a syscall.Errno,
// a sentinel of this package or one of its other error types.
type OpError struct {
	Op     string // "create qp"
	Object string // the object of the call, "rxe0"; may be empty
	Err    error  // the cause
	Detail string // further explanation; may be empty
}

func (e *OpError) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Object != "" {
		b.WriteString(" ")
		b.WriteString(e.Object)
	}
	if e.Detail != "" {
		b.WriteString(": ")
		b.WriteString(e.Detail)
	}
	if e.Err != nil {
		b.WriteString(": ")
		// errors.Join puts each error on its own line; a message is one line.
		b.WriteString(strings.ReplaceAll(e.Err.Error(), "\n", "; "))
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// UnsupportedError reports a feature that this host lacks. It matches ErrNotSupported.
type UnsupportedError struct {
	Feature string // the feature that was requested
	Need    string // what the feature requires
	Have    string // what this host has instead
}

func (e *UnsupportedError) Error() string {
	s := e.Feature + " is not supported"
	if e.Need != "" {
		s += ": it needs " + e.Need
	}
	if e.Have != "" {
		s += ", have " + e.Have
	}
	return s
}

// Is reports whether target is ErrNotSupported.
func (e *UnsupportedError) Is(target error) bool { return target == ErrNotSupported }

// LimitError reports a value above a limit, usually one of the device. It unwraps to EINVAL.
type LimitError struct {
	What  string // "max_send_wr"
	Asked uint64
	Limit uint64
	Where string // the device
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s %d exceeds the limit of %s (%d)", e.What, e.Asked, e.Where, e.Limit)
}

// Unwrap returns EINVAL.
func (e *LimitError) Unwrap() error { return errInvalid }

// PortError reports a port that is not active. It unwraps to ENETDOWN.
type PortError struct {
	Device string
	Port   uint8
	State  PortState
}

func (e *PortError) Error() string {
	why := "check its cable, rdma link and ip link"
	if e.State == PortInit || e.State == PortArmed {
		why = "it is waiting for a subnet manager, such as opensm"
	}
	return fmt.Sprintf("port %d of %s is %v, but BestGID needs an active port: %s; or choose another port, "+
		"or a GID index, which show_gids lists",
		e.Port, e.Device, e.State, why)
}

// Unwrap returns ENETDOWN.
func (e *PortError) Unwrap() error { return syscall.ENETDOWN }

// BusyError is returned by Close while other objects depend on this one. It unwraps to EBUSY.
type BusyError struct {
	Object   string   // "pd of rxe0/1"
	Children []string // the open objects by kind, "2 mr", "1 qp"
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("close %s: still in use by %s; close them first", e.Object, strings.Join(e.Children, ", "))
}

// Unwrap returns EBUSY.
func (e *BusyError) Unwrap() error { return syscall.EBUSY }

// PermissionError reports a device file that this process may not open.
type PermissionError struct {
	Path   string // "/dev/infiniband/uverbs0"
	Err    error  // EACCES or EPERM
	Detail string // the users that may open it, or another reason for the refusal; may be empty
}

func (e *PermissionError) Error() string {
	detail := e.Detail
	if detail == "" {
		detail = "check its mode and group with ls -l (the udev rules of rdma-core make it 0666), " +
			"and in a container pass the device and allow it in the devices cgroup"
	}
	return fmt.Sprintf("no permission to open %s: %s: %v", e.Path, detail, e.Err)
}

// Unwrap returns Err.
func (e *PermissionError) Unwrap() error { return e.Err }

// MemlockError reports a registration that failed with ENOMEM: the limit of locked memory was
// reached or, if that cannot be the cause, the device ran out of resources.
type MemlockError struct {
	Bytes uint64 // the size of the registration
	Cur   uint64 // RLIMIT_MEMLOCK, soft; all ones is unlimited
	Max   uint64 // RLIMIT_MEMLOCK, hard
	Err   error  // ENOMEM
}

func (e *MemlockError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "registering %s: ", byteSize(e.Bytes))
	if e.Cur == ^uint64(0) {
		b.WriteString("locked memory is not limited (RLIMIT_MEMLOCK): the cause is the device's limit of regions, " +
			"a memory cgroup or a real shortage of memory")
	} else {
		fmt.Fprintf(&b, "this process may lock %s in total (RLIMIT_MEMLOCK, hard limit %s)", byteSize(e.Cur),
			byteSize(e.Max))
		if e.Cur < e.Max {
			b.WriteString("; ulimit -l or setrlimit can raise it to the hard limit")
		}
		b.WriteString("; beyond that: memlock in /etc/security/limits.conf, LimitMEMLOCK=infinity in a systemd unit, " +
			"--ulimit memlock=-1 for a container, or CAP_IPC_LOCK")
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap returns Err.
func (e *MemlockError) Unwrap() error { return e.Err }

// byteSize formats n in the largest binary unit that shows it exactly to one decimal.
func byteSize(n uint64) string {
	if n == ^uint64(0) {
		return "unlimited"
	}
	units := []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, u := float64(n)/1024, 0
	for v >= 1024 && u < len(units)-1 {
		v /= 1024
		u++
	}
	s := fmt.Sprintf("%.1f", v)
	return strings.TrimSuffix(s, ".0") + " " + units[u]
}

// isQueueFull reports whether err is the error of a provider whose queue is full.
func isQueueFull(err error) bool { return err == syscall.ENOMEM }
