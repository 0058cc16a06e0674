package rdma

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/pool"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// Sentinels, for errors.Is.
var (
	// ErrPeerGone is returned when the connection ended without the peer having closed it in order:
	// its process or its host died, or the network failed. The error is a *PeerError.
	ErrPeerGone = errors.New("the peer is gone")
	// ErrTooLarge is returned for a message that is longer than the peer's Options.MaxMessage, and for a datagram that
	// is longer than MaxDatagram.
	ErrTooLarge = errors.New("the message is too large")
	// ErrClosed is returned when the connection, listener or engine was closed by this side. It
	// matches net.ErrClosed.
	ErrClosed = ibv.ErrClosed
	// ErrPeerClosed is returned by methods that send, if the peer has closed the connection and reads no more. It
	// matches syscall.EPIPE.
	ErrPeerClosed error = brokenPipe("the peer has closed the connection")
	// ErrNoMemory is returned for a buffer that EngineOptions.Memory or this process's limit of locked memory does not
	// admit, and for a connection that ended because a long message was not complete in time while others waited for
	// memory. The error has an *ibv.LimitError or an *ibv.MemlockError.
	ErrNoMemory = pool.ErrNoMemory
)

// PeerError reports a connection that has broken, and what is known of what was sent. It matches
// ErrPeerGone and syscall.ECONNRESET.
type PeerError struct {
	Peer netip.AddrPort
	// FramesSent counts the frames, and work requests of regions, that were given to the device, and FramesAcked
	// those of them that are in the peer's memory. Frames between the two may or may not have arrived.
	FramesSent, FramesAcked uint32
	Err                     error // the cause: an *ibv.WCError, rdmacm.ErrDisconnected …

	// Deprecated: Use FramesSent and FramesAcked.
	Sent, Acked uint32
}

func (e *PeerError) Error() string {
	return fmt.Sprintf("%v: %v (%d frames sent, %d acknowledged): %v", e.Peer, ErrPeerGone, e.FramesSent, e.FramesAcked,
		e.Err)
}

// Is reports whether target is ErrPeerGone or syscall.ECONNRESET, which TCP returns in this case.
func (e *PeerError) Is(target error) bool {
	return target == ErrPeerGone || target == syscall.ECONNRESET
}

// Unwrap returns the cause.
func (e *PeerError) Unwrap() error { return e.Err }

// DeviceError reports a connection that has ended because this side's device was removed or has failed. It says nothing
// about the peer. It matches syscall.ENETDOWN. If the device is there, the next Dial without Options.Engine makes a new
// engine.
type DeviceError struct {
	Device                  string
	FramesSent, FramesAcked uint32 // as in PeerError
	Err                     error  // the cause: an event of the device, rdmacm.ErrDeviceRemoved …

	// Deprecated: Use FramesSent and FramesAcked.
	Sent, Acked uint32
}

func (e *DeviceError) Error() string {
	return fmt.Sprintf("the device %s failed (%d frames sent, %d acknowledged): %v", e.Device, e.FramesSent,
		e.FramesAcked, e.Err)
}

// Is reports whether target is syscall.ENETDOWN.
func (e *DeviceError) Is(target error) bool { return target == syscall.ENETDOWN }

// Unwrap returns the cause.
func (e *DeviceError) Unwrap() error { return e.Err }

// deviceFault is a cause that is on this side.
type deviceFault struct{ error }

func (f *deviceFault) Unwrap() error { return f.error }

func isDeviceFault(err error) bool {
	var f *deviceFault
	return errors.As(err, &f) || errors.Is(err, rdmacm.ErrDeviceRemoved)
}

// completionError is the error of a completion, or nil.
func completionError(wc *ibv.WC) error {
	err := wc.Err()
	switch wc.Status {
	case ibv.WCSuccess:
		return nil
	case ibv.WCFatalErr, ibv.WCGeneralErr, ibv.WCLocQPOpErr, ibv.WCLocProtErr:
		return &deviceFault{err}
	}
	return err
}

// UndeliveredError is returned by Close if not all that was accepted is known to be in the memory of the peer's
// adapter. It matches os.ErrDeadlineExceeded if Close has waited for as long as Options.Linger or the write deadline
// permits: the engine then goes on until the time of Options.Linger is over. It never matches net.ErrClosed.
type UndeliveredError struct {
	Frames int   // that were accepted and are not delivered; 0 if only the end of the connection is not
	Bytes  int64 // of these frames, without their headers
	Err    error // why
}

func (e *UndeliveredError) Error() string {
	if e.Frames == 0 {
		return fmt.Sprintf("the peer may not learn of the close: %v", e.Err)
	}
	return fmt.Sprintf("%d frames with %d bytes are not delivered: %v", e.Frames, e.Bytes, e.Err)
}

// Unwrap returns why.
func (e *UndeliveredError) Unwrap() error { return e.Err }

// Timeout reports whether the time was over.
func (e *UndeliveredError) Timeout() bool { return errors.Is(e.Err, os.ErrDeadlineExceeded) }

// closeError is why a closed connection has ended before all was delivered. It matches ErrClosed.
type closeError struct{ error }

func (e *closeError) Unwrap() error { return e.error }

// Is reports whether target is ErrClosed or net.ErrClosed.
func (e *closeError) Is(target error) bool { return target == ErrClosed || target == net.ErrClosed }

// lateError is why Close waits no longer.
type lateError string

func (e lateError) Error() string        { return string(e) }
func (e lateError) Timeout() bool        { return true }
func (e lateError) Temporary() bool      { return true }
func (e lateError) Is(target error) bool { return target == os.ErrDeadlineExceeded }

var (
	errLate     error = lateError("the peer's adapter did not take it within the time of Options.Linger")
	errDeadline error = lateError("the peer's adapter did not take it before the write deadline")
	errLinger   error = &closeError{errLate}
	errCloseNow error = &closeError{errors.New("closed by CloseNow")}
)

// ProtocolError reports a peer that violates the protocol. The connection has ended.
type ProtocolError struct{ Frame, Got, Want string }

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("the peer broke the protocol: %s: got %s, want %s", e.Frame, e.Got, e.Want)
}

// VersionError reports a peer that speaks none of this package's versions of the protocol.
type VersionError struct{ PeerMin, PeerMax uint8 }

func (e *VersionError) Error() string {
	return fmt.Sprintf("the peer speaks versions %d to %d of the protocol, this side %d to %d", e.PeerMin, e.PeerMax,
		wire.MinVersion, wire.MaxVersion)
}

// public returns an error of package wire as the type that callers know, and other errors as they are.
func public(err error) error {
	switch err := err.(type) {
	case *wire.Error:
		return (*ProtocolError)(err)
	case *wire.VersionError:
		return (*VersionError)(err)
	}
	return err
}

// resetError is the reason in the peer's RESET.
type resetError uint32

func (e resetError) Error() string {
	const reset = "the peer reset the connection"
	switch e {
	case wire.ResetProtocol:
		return reset + ": it says that this side broke the protocol"
	case wire.ResetMemory:
		return reset + ": a message was not complete in time, and the peer lacks memory for others"
	case wire.ResetClosed:
		return reset + ": its program closed it without waiting"
	}
	return fmt.Sprintf("%s, reason %d", reset, uint32(e))
}

// brokenPipe is an error for which TCP returns EPIPE, which programs compare with.
type brokenPipe string

func (e brokenPipe) Error() string        { return string(e) }
func (e brokenPipe) Is(target error) bool { return target == syscall.EPIPE }

// tooFew reports that a device grants less than a connection needs.
func tooFew(what string, least, have int, device string) error {
	return &ibv.LimitError{What: what + " of a connection", Asked: uint64(least), Limit: uint64(max(have, 0)),
		Where: device}
}
