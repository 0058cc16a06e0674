package rdmacm

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/pureverbs/pureverbs/ibv"
)

// Sentinels, for errors.Is; those of package ibv apply as well.
var (
	// ErrClosed is returned when the object was closed before the call, or while it waited.
	ErrClosed = ibv.ErrClosed
	// ErrNotSupported is returned when the device, the kernel or the library lacks it.
	ErrNotSupported = ibv.ErrNotSupported
	// ErrDisconnected is returned when the peer or the device ended the connection.
	ErrDisconnected = errors.New("disconnected")
	// ErrRejected is returned when the peer refused the connection: a *RejectError.
	ErrRejected = errors.New("connection rejected")
	// ErrWithdrawn is returned when the peer gave up before its request was answered.
	ErrWithdrawn = errors.New("the peer has withdrawn its request")
	// ErrDeviceRemoved is returned when the device is gone. Close all that is on it.
	ErrDeviceRemoved = ibv.ErrDeviceRemoved
)

// RejectError is a connection that the peer refused. It is ErrRejected and
// ECONNREFUSED.
type RejectError struct {
	Reason RejectReason
	// PrivateData is what the peer sent along, at its full size: what it did not
	// fill is zero.
	PrivateData []byte
}

func (e *RejectError) Error() string {
	s := "connection rejected: " + e.Reason.String()
	if _, known := rejectTexts[e.Reason]; known {
		s += fmt.Sprintf(" (reason %d)", uint32(e.Reason))
	}
	s += ": " + e.Reason.Explain()
	if data := dataText(e.PrivateData); data != "" {
		s += "; private data " + data
	}
	return s
}

// dataText writes private data: what was sent as text, or else the first bytes.
func dataText(data []byte) string {
	const most = 64
	data = bytes.TrimRight(data, "\x00") // it comes filled up
	if len(data) == 0 {
		return ""
	}
	short := data[:min(len(data), most)]
	more := ""
	if len(data) > most {
		more = fmt.Sprintf("… (%d bytes)", len(data))
	}
	for _, r := range string(data) {
		if r == utf8.RuneError || !unicode.IsPrint(r) && !unicode.IsSpace(r) {
			return fmt.Sprintf("%x%s", short, more)
		}
	}
	return strconv.Quote(strings.ToValidUTF8(string(short), "")) + more
}

// Is reports whether target is ErrRejected or ECONNREFUSED.
func (e *RejectError) Is(target error) bool {
	return target == ErrRejected || target == syscall.ECONNREFUSED
}

// EventError is an event that tells of a failure. It wraps its errno.
type EventError struct {
	Type   EventType
	Status int32 // as librdmacm has it: an errno below 0, a code of the transport above
	Errno  syscall.Errno
}

func (e *EventError) Error() string {
	s := e.Type.String()
	if e.Errno != 0 {
		s += ": " + e.Errno.Error()
	} else if e.Status != 0 {
		s += fmt.Sprintf(": status %d", e.Status)
	}
	if hint := e.hint(); hint != "" {
		s += " (" + hint + ")"
	}
	return s
}

// Unwrap returns the errno, or what a connection manager's own event means.
func (e *EventError) Unwrap() error {
	switch {
	case e.Type == EventDeviceRemoval:
		return ErrDeviceRemoved
	case e.Type == EventDisconnected:
		return ErrDisconnected
	case e.Errno != 0:
		return e.Errno
	}
	return nil
}

// hint is the likely reason, inferred from the event and its status.
func (e *EventError) hint() string {
	switch e.Type {
	case EventAddrError:
		switch e.Errno {
		case syscall.ENODEV:
			return "no RDMA device carries the address: it is local to an interface without RDMA, or the route leads " +
				"over one"
		case syscall.ETIMEDOUT, syscall.EHOSTUNREACH:
			return "the peer does not answer ARP or neighbour discovery"
		case syscall.ENETUNREACH:
			return "there is no route to the address: see ip route get"
		case syscall.EADDRNOTAVAIL:
			return "the source address is not one of this host"
		}
	case EventRouteError:
		return "the path to the peer could not be had: on InfiniBand look at the subnet manager, on RoCE at the GID " +
			"table and the interface"
	case EventUnreachable:
		if e.Errno == syscall.ETIMEDOUT {
			return "the peer does not answer: it is down, its device is, or a firewall drops UDP port 4791"
		}
	case EventConnectError:
		return "the connection was agreed on and could not be made ready"
	case EventMulticastError:
		return "the group could not be joined"
	case EventAddrChange:
		return "the address of the interface moved: open the connection anew"
	}
	return ""
}

// EventReadError is a connection, a listener or a call of Dial that was given up
// because the events of the connection manager could not be read any more. A Dial
// or Listen that comes after it starts anew. It wraps the reason.
type EventReadError struct{ Err error }

func (e *EventReadError) Error() string {
	s := fmt.Sprintf("the events of rdma_cm cannot be read any more: %v", e.Err)
	if errors.Is(e.Err, syscall.EACCES) {
		s += " (the kernel refuses a process that has changed its credentials: do that before the first Dial or Listen)"
	}
	return s + "; close it and begin anew"
}

// Unwrap returns the reason.
func (e *EventReadError) Unwrap() error { return e.Err }

// PrivateDataError is private data longer than the transport carries. It is an
// EINVAL.
type PrivateDataError struct {
	Op        string // "connect", "accept", "reject"
	Len       int
	Limit     int
	PortSpace PortSpace
}

func (e *PrivateDataError) Error() string {
	return fmt.Sprintf("%d bytes of private data with %s, the port space %v carries at most %d", e.Len, e.Op,
		e.PortSpace, e.Limit)
}

// Unwrap makes a PrivateDataError an EINVAL.
func (e *PrivateDataError) Unwrap() error { return syscall.EINVAL }

// StateError is a call at a time when it cannot be. It is an EINVAL.
type StateError struct {
	Op   string
	Need string // what has to be first
}

func (e *StateError) Error() string { return e.Op + " comes too early: " + e.Need }

// Unwrap makes a StateError an EINVAL.
func (e *StateError) Unwrap() error { return syscall.EINVAL }

// AddrInfoError is a name that could not be resolved.
type AddrInfoError struct {
	Node, Service string
	Code          int    // EAI_…, of getaddrinfo(3)
	Text          string // what the C library says of it
}

func (e *AddrInfoError) Error() string {
	return fmt.Sprintf("resolve %q, service %q: %s (code %d)", e.Node, e.Service, e.Text, e.Code)
}

// errOf is the error of an event; nil for one that tells of success.
func errOf(t EventType, status int32, ud bool, data []byte) error {
	errno := syscall.Errno(0)
	if status < 0 {
		errno = syscall.Errno(-status)
	}
	switch t {
	case EventRejected:
		if errno == 0 {
			return &RejectError{Reason: RejectReason(status), PrivateData: data}
		}
		if errno == syscall.ECONNREFUSED { // iWARP
			return &RejectError{Reason: RejectInvalidServiceID, PrivateData: data}
		}
		return &EventError{t, status, errno}
	case EventUnreachable:
		if ud && status > 0 {
			return &RejectError{Reason: SIDRStatus(status).reason(), PrivateData: data}
		}
		return &EventError{t, status, errno}
	case EventAddrError, EventRouteError, EventConnectError, EventMulticastError, EventAddrInfoError,
		EventDeviceRemoval, EventDisconnected, EventAddrChange:
		return &EventError{t, status, errno}
	}
	if errno != 0 {
		return &EventError{t, status, errno}
	}
	return nil
}
