package rdma

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// Sentinels, for errors.Is.
var (
	// ErrPeerGone is returned when the connection ended without the peer having closed it in order:
	// its process or its host died, or the network failed. The error is a *PeerError.
	ErrPeerGone = errors.New("the peer is gone")
	// ErrTooLarge is returned for a message that is longer than the peer takes.
	ErrTooLarge = errors.New("the message is too large")
	// ErrClosed is returned when the connection, listener or engine was closed by this side. It
	// matches net.ErrClosed.
	ErrClosed = ibv.ErrClosed
	// ErrPeerClosed is returned by what sends when the peer has closed the connection and reads no
	// more. It matches syscall.EPIPE.
	ErrPeerClosed error = brokenPipe("the peer has closed the connection")
	// ErrNoMemory is returned for a buffer that EngineOptions.Memory or this process's limit of locked memory does not
	// admit, and for a connection that ended because a long message was not complete in time while others waited for
	// memory. The error has an *ibv.LimitError or an *ibv.MemlockError.
	ErrNoMemory = errors.New("no memory")
)

// PeerError reports a connection that has broken, and what is known of what was sent. It matches
// ErrPeerGone and syscall.ECONNRESET.
type PeerError struct {
	Peer netip.AddrPort
	// Sent counts the frames, and work requests of regions, that were given to the device, and Acked
	// those of them that are in the peer's memory. Frames between the two may or may not have arrived.
	Sent, Acked uint32
	Err         error // the cause: an *ibv.WCError, rdmacm.ErrDisconnected, rdmacm.ErrDeviceRemoved …
}

func (e *PeerError) Error() string {
	return fmt.Sprintf("%v: %v (%d frames sent, %d acknowledged): %v", e.Peer, ErrPeerGone, e.Sent, e.Acked, e.Err)
}

// Is reports whether target is ErrPeerGone or syscall.ECONNRESET, as which programs know the same of TCP.
func (e *PeerError) Is(target error) bool {
	return target == ErrPeerGone || target == syscall.ECONNRESET
}

// Unwrap returns the cause.
func (e *PeerError) Unwrap() error { return e.Err }

// ProtocolError reports a peer that does not keep to the protocol. The connection has ended.
type ProtocolError struct{ Frame, Got, Want string }

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("the peer broke the protocol: %s: got %s, want %s", e.Frame, e.Got, e.Want)
}

// VersionError reports a peer whose versions of the protocol are others than this package's.
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
	if e == wire.ResetMemory {
		return "the peer reset the connection: a message was not complete in time, and the peer lacks memory for others"
	}
	return fmt.Sprintf("the peer reset the connection, reason %d", uint32(e))
}

// brokenPipe is an error for which TCP has EPIPE, which programs look for.
type brokenPipe string

func (e brokenPipe) Error() string        { return string(e) }
func (e brokenPipe) Is(target error) bool { return target == syscall.EPIPE }
