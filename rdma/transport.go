package rdma

import (
	"errors"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
)

// What is different on iWARP: see the methods of ibv.TransportType.

// family returns the protocol family of the adapter.
func (e *shard) family() ibv.TransportType {
	switch g := e.eng; {
	case g != nil && g.dev != nil:
		return g.dev.Info().Transport
	case g != nil && g.nic.mem != nil:
		return g.nic.mem.Transport()
	}
	return ibv.TransportIB // that of a test has none
}

// leastAccess returns the access of the peer through a queue pair without leases: none, or reads of no bytes where
// these report what has arrived.
func leastAccess(t ibv.TransportType) ibv.AccessFlags {
	if t.SendsAcked() {
		return ibv.AccessNone
	}
	return ibv.RemoteRead
}

// postError returns why a connection ends whose work request was refused. On iWARP the connection may be closing, for a
// reason that the connection manager is about to report.
func postError(err error) error {
	if errors.Is(err, syscall.ENOTCONN) {
		return err
	}
	return &deviceFault{err}
}
