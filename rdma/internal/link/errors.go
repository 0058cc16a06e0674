package link

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// Package rdma has these errors as its own, and turns the types that follow into its own.
var (
	ErrTooLarge         = errors.New("the message is too large")
	ErrPeerClosed error = brokenPipe("the peer has closed the connection")
	ErrShutWrite  error = brokenPipe("writing was closed")
)

// Broken is the end of a connection that was not closed in order.
type Broken struct {
	Device      string // of this side, if it has failed
	Peer        netip.AddrPort
	Sent, Acked uint32 // frames, and work requests of regions
	Err         error  // the cause
}

func (e *Broken) Error() string { return e.Err.Error() }
func (e *Broken) Unwrap() error { return e.Err }

// Undelivered reports that not all is known to be in the memory of the peer's adapter when Close returns.
type Undelivered struct {
	Frames int
	Bytes  int64
	Err    error // why
}

func (e *Undelivered) Error() string { return e.Err.Error() }

// breach reports a peer that violates the protocol.
func breach(frame, got, want string) error { return &wire.Error{Frame: frame, Got: got, Want: want} }

// DeviceFault is a cause that is on this side.
type DeviceFault struct{ Err error }

func (f *DeviceFault) Error() string { return f.Err.Error() }
func (f *DeviceFault) Unwrap() error { return f.Err }

func isDeviceFault(err error) bool {
	var f *DeviceFault
	return errors.As(err, &f) || errors.Is(err, rdmacm.ErrDeviceRemoved)
}

// completionError is the error of a completion, or nil.
func completionError(wc *ibv.WC) error {
	err := wc.Err()
	switch wc.Status {
	case ibv.WCSuccess:
		return nil
	case ibv.WCFatalErr, ibv.WCGeneralErr, ibv.WCLocQPOpErr, ibv.WCLocProtErr:
		return &DeviceFault{Err: err}
	}
	return err
}

// closeError is why a closed connection has ended before all was delivered. It matches ibv.ErrClosed.
type closeError struct{ error }

func (e *closeError) Unwrap() error { return e.error }

// Is reports whether target is ibv.ErrClosed or net.ErrClosed.
func (e *closeError) Is(target error) bool { return target == ibv.ErrClosed || target == net.ErrClosed }

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

// ResetError is the reason in the peer's RESET.
type ResetError uint32

func (e ResetError) Error() string {
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
