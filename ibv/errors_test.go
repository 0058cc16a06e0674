package ibv

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

func TestOpError(t *testing.T) {
	tests := []struct {
		err  *OpError
		want string
	}{
		{&OpError{Op: "create qp", Object: "rxe0", Err: syscall.EINVAL}, "create qp rxe0: invalid argument"},
		{&OpError{Op: "query gid", Object: "rxe0/1", Detail: "index 9", Err: syscall.ENODATA},
			"query gid rxe0/1: index 9: no data available"},
		{&OpError{Op: "list devices", Err: ErrNoDevice}, "list devices: no such RDMA device"},
		{&OpError{Op: "list devices", Detail: "there is none"}, "list devices: there is none"},
		{&OpError{Op: "create cq", Object: "rxe0", Err: errors.Join(&LimitError{"cqe", 100, 10, "rxe0"},
			syscall.ENOMEM)},
			"create cq rxe0: cqe 100 exceeds the limit of rxe0 (10); cannot allocate memory"},
	}
	for _, tt := range tests {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
	}
}

// What a caller asks with errors.Is holds through the layers.
func TestErrors_Is(t *testing.T) {
	in := func(err error) error {
		return fmt.Errorf("connect: %w", &OpError{Op: "modify qp", Object: "rxe0", Err: err})
	}
	tests := []struct {
		err    error
		target error
		want   bool
	}{
		{syscall.ENOSYS, ErrNotSupported, true},
		{syscall.EOPNOTSUPP, ErrNotSupported, true},
		{syscall.EINVAL, ErrNotSupported, false},
		{&UnsupportedError{Feature: "x"}, ErrNotSupported, true},
		{&UnsupportedError{Feature: "x"}, ErrClosed, false},
		{ErrClosed, ErrClosed, true},
		{ErrQueueFull, ErrPoll, false},
		{&LimitError{What: "cqe"}, syscall.EINVAL, true},
		{&BusyError{Object: "pd of rxe0"}, syscall.EBUSY, true},
		{&ModifyError{Errno: syscall.EINVAL}, syscall.EINVAL, true},
		{&ModifyError{Errno: syscall.EOPNOTSUPP}, ErrNotSupported, true},
		{&ModifyError{}, syscall.EINVAL, false},
		{&PathError{Errno: syscall.ETIMEDOUT}, syscall.ETIMEDOUT, true},
		{&PathError{}, syscall.ETIMEDOUT, false},
		{&MemlockError{Err: syscall.ENOMEM}, syscall.ENOMEM, true},
		{&PermissionError{Err: syscall.EACCES}, syscall.EACCES, true},
		{&EndpointError{}, syscall.EINVAL, true},
		{&ArgError{}, syscall.EINVAL, true},
	}
	for _, tt := range tests {
		if got := errors.Is(in(tt.err), tt.target); got != tt.want {
			t.Errorf("errors.Is(%T %v, %v) = %v", tt.err, tt.err, tt.target, got)
		}
	}
	var op *OpError
	if !errors.As(in(syscall.EIO), &op) || op.Op != "modify qp" {
		t.Errorf("no OpError in %v", in(syscall.EIO))
	}
}

func TestErrors_Text(t *testing.T) {
	tests := []struct {
		err  error
		want string
	}{
		{&LimitError{"max_send_wr", 100000, 16384, "rxe0"}, "max_send_wr 100000 exceeds the limit of rxe0 (16384)"},
		{&BusyError{"pd of rxe0", []string{"2 mr", "1 qp"}}, "close pd of rxe0: still in use by 2 mr, 1 qp; close " +
			"them first"},
		{&UnsupportedError{"dma-buf registration", "libibverbs 34", "libibverbs 28"},
			"dma-buf registration is not supported: it needs libibverbs 34, have libibverbs 28"},
		{&UnsupportedError{Feature: "XRC"}, "XRC is not supported"},
		{&ModifyError{Type: RC, From: StateInit, To: StateRTR, Mask: MaskState, Missing: MaskPathMTU | MaskDestQPN,
			Legal: true, Errno: syscall.EINVAL},
			"RC qp from INIT to RTR: missing PathMTU|DestQPN (required: " +
				"State|AV|PathMTU|RQPSN|MinRNRTimer|MaxDestRdAtomic|DestQPN): invalid argument"},
		{&ModifyError{Type: UD, From: StateRTR, To: StateRTS, Superfluous: MaskTimeout, Legal: true,
			Errno: syscall.EINVAL},
			"UD qp from RTR to RTS: superfluous Timeout (allowed: State|CurState|QKey|SQPSN): invalid argument"},
		{&ModifyError{Type: UC, From: StateReset, To: StateInit, Missing: MaskPort, Superfluous: MaskQKey, Legal: true},
			"UC qp from RESET to INIT: missing Port (required: State|AccessFlags|PKeyIndex|Port), superfluous " +
				"QKey (allowed: State|AccessFlags|PKeyIndex|Port)"},
		{&ModifyError{Type: RC, From: StateReset, To: StateRTS, Errno: syscall.EINVAL},
			"RC qp from RESET to RTS: no such transition; from RESET a qp can move to INIT: invalid argument"},
		{&ModifyError{Type: RC, From: StateErr, To: StateRTS},
			"RC qp from ERR to RTS: no such transition; from ERR a qp can move to RESET"},
		{&ModifyError{Type: RC, From: StateInit, To: StateInit, Mask: MaskPort, Legal: true, Errno: syscall.EINVAL},
			"RC qp from INIT to INIT: the set of attributes is valid, so a value was refused, or the qp left " +
				"INIT on its own: call Query, and go on from the state that it returns; check the port number: " +
				"invalid argument"},
		{&ModifyError{Type: RC, From: StateRTS, To: StateSQD, Mask: MaskState, Legal: true, Errno: syscall.EINVAL},
			"RC qp from RTS to SQD: the driver may have no such transition, as mlx5's has none, or the qp left RTS " +
				"on its own; to drain the send queue without it, poll until the last work request has completed: " +
				"invalid argument"},
		{&ModifyError{Type: Driver, From: StateReset, To: StateInit, Mask: MaskState | MaskPort, Legal: true,
			Errno: syscall.EINVAL},
			"Driver qp from RESET to INIT: refused with the attributes State|Port: invalid argument"},
		{&ModifyError{Type: QPType(77), From: QPState(17), To: StateErr},
			"QPType(77) qp from QPState(17) to ERR: no such transition; from QPState(17) a qp can move to no " +
				"known state"},
	}
	for _, tt := range tests {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
	}
}

func TestMemlockError(t *testing.T) {
	const infinity = ^uint64(0)
	limited := (&MemlockError{Bytes: 1 << 30, Cur: 8 << 20, Max: 8 << 20, Err: syscall.ENOMEM}).Error()
	for _, want := range []string{"registering 1 GiB", "may lock 8 MiB", "hard limit 8 MiB", "limits.conf",
		"LimitMEMLOCK", "--ulimit memlock=-1", "CAP_IPC_LOCK", "cannot allocate memory"} {
		if !strings.Contains(limited, want) {
			t.Errorf("no %q in %q", want, limited)
		}
	}
	if strings.Contains(limited, "setrlimit") {
		t.Errorf("a limit that cannot be raised: %q", limited)
	}
	if s := (&MemlockError{Bytes: 100, Cur: 65536, Max: infinity}).Error(); !strings.Contains(s, "setrlimit") ||
		!strings.Contains(s, "hard limit unlimited") {
		t.Errorf("a limit that can be raised: %q", s)
	}
	if s := (&MemlockError{Bytes: 100, Cur: infinity, Max: infinity}).Error(); strings.Contains(s, "limits.conf") ||
		!strings.Contains(s, "not limited") {
		t.Errorf("no limit: %q", s)
	}
}

func TestPermissionError(t *testing.T) {
	s := (&PermissionError{Path: "/dev/infiniband/uverbs0", Err: syscall.EACCES}).Error()
	for _, want := range []string{"/dev/infiniband/uverbs0", "udev", "container", "permission denied"} {
		if !strings.Contains(s, want) {
			t.Errorf("no %q in %q", want, s)
		}
	}
}

func TestByteSize(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 1 << 20: "1 MiB",
		1<<30 + 1<<29: "1.5 GiB",
		1 << 62:       "4 EiB", ^uint64(0): "unlimited"} {
		if got := byteSize(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestErrnoError(t *testing.T) {
	if err := errnoError(0); err != nil {
		t.Errorf("0 is %v", err)
	}
	if err := errnoError(int(syscall.EAGAIN)); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("EAGAIN is %v", err)
	}
}

// TestUnsupported: Linux's uverbs has EPROTONOSUPPORT for a method that a driver lacks (uverbs_ioctl.c).
func TestUnsupported(t *testing.T) {
	for err, want := range map[error]bool{nil: false, ErrNotSupported: true, syscall.ENOSYS: true,
		syscall.EOPNOTSUPP: true, syscall.EPROTONOSUPPORT: true, syscall.EINVAL: false} {
		if unsupported(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}
