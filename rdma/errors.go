package rdma

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/pool"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// Sentinels, for errors.Is.
var (
	// ErrPeerGone is returned when the connection ended without the peer having closed it in order:
	// its process or its host died, or the network failed. The error is a *PeerError.
	ErrPeerGone = errors.New("the peer is gone")
	// ErrTooLarge is returned for a message that is longer than the peer's Options.MaxMessage, and for a datagram that
	// is longer than MaxDatagram.
	ErrTooLarge = link.ErrTooLarge
	// ErrClosed is returned when the connection, listener or engine was closed by this side. It
	// matches net.ErrClosed.
	ErrClosed = ibv.ErrClosed
	// ErrPeerClosed is returned by methods that send, if the peer has closed the connection and reads no more. It
	// matches syscall.EPIPE.
	ErrPeerClosed = link.ErrPeerClosed
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
}

func (e *DeviceError) Error() string {
	return fmt.Sprintf("the device %s failed (%d frames sent, %d acknowledged): %v", e.Device, e.FramesSent,
		e.FramesAcked, e.Err)
}

// Is reports whether target is syscall.ENETDOWN.
func (e *DeviceError) Is(target error) bool { return target == syscall.ENETDOWN }

// Unwrap returns the cause.
func (e *DeviceError) Unwrap() error { return e.Err }

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

// public returns an error of an internal package as the type that callers know, and other errors as they are.
func public(err error) error {
	switch err := err.(type) {
	case *wire.Error:
		return (*ProtocolError)(err)
	case *wire.VersionError:
		return (*VersionError)(err)
	case *ibv.OpError:
		if inner, is := err.Err.(*wire.Error); is {
			return &ibv.OpError{Op: err.Op, Object: err.Object, Err: (*ProtocolError)(inner)}
		}
	case *link.Broken:
		if err.Device != "" {
			return &DeviceError{Device: err.Device, FramesSent: err.Sent, FramesAcked: err.Acked, Err: err.Err}
		}
		return &PeerError{Peer: err.Peer, FramesSent: err.Sent, FramesAcked: err.Acked, Err: err.Err}
	case *link.Undelivered:
		e := &UndeliveredError{Frames: err.Frames, Bytes: err.Bytes, Err: public(err.Err)}
		if errors.Is(e.Err, ErrClosed) || errors.Is(e.Err, net.ErrClosed) {
			e.Err = errors.New(e.Err.Error()) // programs ignore ErrClosed after Close
		}
		return e
	}
	return err
}

// fault returns an error of a method of l for the program.
func fault(l *link.Link, op string, err error) error {
	err = public(err)
	switch {
	case err == nil:
		return nil
	case err == io.EOF, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return &ibv.OpError{Op: op, Object: "connection to " + l.Remote.String(), Err: err}
}
