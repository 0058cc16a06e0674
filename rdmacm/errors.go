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
	"github.com/pureverbs/pureverbs/internal/abi"
)

// Sentinels, for errors.Is; those of package ibv apply as well.
var (
	// ErrClosed is returned when the object was closed before the call, or while it waited.
	ErrClosed = ibv.ErrClosed
	// ErrNotSupported is returned when the device, the kernel or the library lacks a feature.
	ErrNotSupported = ibv.ErrNotSupported
	// ErrDisconnected is returned when the peer or the device ended the connection.
	ErrDisconnected = errors.New("disconnected")
	// ErrRejected is returned, as a *RejectError, when the peer refused the connection.
	ErrRejected = errors.New("connection rejected")
	// ErrWithdrawn is returned when the peer withdrew its request before it was accepted or rejected.
	ErrWithdrawn = errors.New("the peer has withdrawn its request")
	// ErrDeviceRemoved is returned when the device was removed. Close all objects on it.
	ErrDeviceRemoved = ibv.ErrDeviceRemoved
)

// RejectError reports that the peer refused a connection. It matches ErrRejected and ECONNREFUSED.
type RejectError struct {
	Reason RejectReason
	// PrivateData is the peer's private data in a buffer of the transport's full size, padded with
	// zeros.
	PrivateData []byte
	// Accepted reports that the peer had accepted. It has ended the handshake before this side confirmed it, or at the
	// same time. Linux sends no private data then.
	Accepted bool
}

func (e *RejectError) Error() string {
	if e.Accepted && e.Reason == RejectConsumer {
		return fmt.Sprintf("connection rejected after the peer had accepted (reason %d): it ended the handshake "+
			"before that was confirmed, because it took too long or the peer's program closed it or ended", e.Reason)
	}
	s := "connection rejected: " + e.Reason.String()
	if e.Reason.known() {
		s += fmt.Sprintf(" (reason %d)", uint32(e.Reason))
	}
	s += ": " + e.Reason.Explain()
	if data := dataText(e.PrivateData); data != "" {
		s += "; private data " + data
	}
	return s
}

// dataText formats private data: quoted if it is text, otherwise the first bytes in hex.
func dataText(data []byte) string {
	const most = 64
	data = bytes.TrimRight(data, "\x00") // the transport pads with zeros
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

// EventError reports the failure that an event describes. It wraps the errno.
type EventError struct {
	Type   EventType
	Status int32 // as in C: a negated errno, or a positive code of the transport
	Errno  syscall.Errno
}

func (e *EventError) Error() string {
	s := e.Type.String()
	if e.Errno != 0 {
		s += ": " + e.Errno.Error()
	} else if e.Status > 0 {
		s += fmt.Sprintf(": status %d", e.Status)
	}
	if hint := e.hint(); hint != "" {
		s += " (" + hint + ")"
	}
	return s
}

// Unwrap returns the errno, or the sentinel error for the event type.
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

// hint returns the likely reason, inferred from the event and its status.
func (e *EventError) hint() string {
	switch e.Type {
	case EventAddrError:
		switch e.Errno {
		case syscall.ENODEV:
			return "no RDMA device has the address: it is local to an interface without RDMA, or the route leads " +
				"over one"
		case syscall.ETIMEDOUT, syscall.EHOSTUNREACH:
			return "the peer does not answer ARP or neighbour discovery"
		case syscall.ENETUNREACH:
			return "there is no route to the address: see ip route get"
		case syscall.EADDRNOTAVAIL:
			return "this host does not have the source address"
		}
	case EventRouteError:
		return "there is no path to the peer: on InfiniBand check the subnet manager, on RoCE the GID " +
			"table and the interface"
	case EventUnreachable:
		if e.Errno == syscall.ETIMEDOUT {
			return "the peer does not answer: it is down, its device is, or a firewall drops UDP port 4791 (iWARP: " +
				"the TCP port of the listener)"
		}
	case EventConnectError:
		return "the peer accepted, but the connection could not be brought up"
	case EventMulticastError:
		return "the group could not be joined"
	case EventAddrChange:
		return "the address moved to another interface: connect again"
	}
	return ""
}

// EventReadError reports that a connection, a listener or a call of Dial was given up because the
// events of the connection manager can no longer be read. Later calls of Dial and Listen use a new
// event channel. It wraps the reason.
type EventReadError struct{ Err error }

func (e *EventReadError) Error() string {
	return fmt.Sprintf("the events of rdma_cm can no longer be read: %v; close it and start again", e.Err)
}

// Unwrap returns the reason.
func (e *EventReadError) Unwrap() error { return e.Err }

// PrivateDataError reports private data that is longer than the transport carries. It wraps EINVAL.
type PrivateDataError struct {
	Op        string // "connect", "accept", "reject"
	Len       int
	Limit     int
	PortSpace PortSpace
}

func (e *PrivateDataError) Error() string {
	return fmt.Sprintf("%d bytes of private data with %s: the port space %v carries at most %d", e.Len, e.Op,
		e.PortSpace, e.Limit)
}

// Unwrap returns EINVAL.
func (e *PrivateDataError) Unwrap() error { return syscall.EINVAL }

// StateError reports a call that an ID does not accept in its state. It wraps EINVAL.
type StateError struct {
	Op   string
	Need string // the state, and what must be done first or instead
	Late bool   // the ID is past the state that accepts the call
}

func (e *StateError) Error() string {
	if e.Late {
		return e.Op + " comes too late: " + e.Need
	}
	return e.Op + " comes too early: " + e.Need
}

// Unwrap returns EINVAL.
func (e *StateError) Unwrap() error { return syscall.EINVAL }

// AddrInfoError reports a name that could not be resolved.
type AddrInfoError struct {
	Node, Service string
	Code          int    // EAI_…, of getaddrinfo(3)
	Text          string // the C library's message
}

func (e *AddrInfoError) Error() string {
	return fmt.Sprintf("resolve %q, service %q: %s (code %d)", e.Node, e.Service, e.Text, e.Code)
}

// rejectedByTCP returns the error of a refusal on iWARP, which has no reasons. siw reports ECONNRESET if the peer's
// program refuses, and for any other end of the TCP connection, hardware ECONNREFUSED if the program refuses, and if
// nobody listens.
func rejectedByTCP(t EventType, status int32, errno syscall.Errno, data []byte) error {
	switch {
	case errno == syscall.ECONNRESET, errno == syscall.ECONNREFUSED && len(data) > 0:
		return &RejectError{Reason: RejectConsumer, PrivateData: data}
	case errno == syscall.ECONNREFUSED:
		return &RejectError{Reason: RejectInvalidServiceID, PrivateData: data}
	}
	return &EventError{t, status, errno}
}

// errOf returns the error of an event, nil for an event of success.
func errOf(t EventType, status int32, ud bool, data []byte) error {
	errno := syscall.Errno(0)
	if status < 0 {
		errno = abi.Errno(int(-status))
	}
	switch t {
	case EventRejected:
		if errno == 0 {
			return &RejectError{Reason: RejectReason(status), PrivateData: data}
		}
		return rejectedByTCP(t, status, errno, data)
	case EventUnreachable:
		if ud && status > 0 {
			return &RejectError{Reason: SIDRStatus(status).reason(), PrivateData: data}
		}
		return &EventError{t, status, errno}
	case EventAddrError:
		if status == -1 { // librdmacm could not open the device, and its errno is lost
			if why := verbs.WhyNoDevice(); why != nil {
				return fmt.Errorf("%w: %w", &EventError{Type: t, Status: status}, why)
			}
		}
		return &EventError{t, status, errno}
	case EventRouteError, EventConnectError, EventMulticastError, EventAddrInfoError,
		EventDeviceRemoval, EventDisconnected, EventAddrChange:
		return &EventError{t, status, errno}
	}
	if errno != 0 {
		return &EventError{t, status, errno}
	}
	return nil
}
