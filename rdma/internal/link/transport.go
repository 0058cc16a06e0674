package link

import (
	"errors"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
)

// What is different on iWARP: see the methods of ibv.TransportType.

// Transport returns the protocol family of the adapter.
func (e *Engine) Transport() ibv.TransportType {
	if e == nil || e.NIC == nil { // that of a test
		return ibv.TransportIB
	}
	return e.NIC.Transport()
}

// Family returns the protocol family of the adapter.
func (e *Shard) Family() ibv.TransportType { return e.Engine.Transport() }

// openProbe registers memory of two bytes where a connection learns by reads what has arrived: peers read the first
// one, and their bytes are put into the second one.
func (e *Engine) openProbe() (err error) {
	if t := e.Transport(); !t.SendsAcked() {
		e.Probe, err = e.NIC.Alloc(2, ibv.RemoteRead|t.ReadSink(), nil)
	}
	return err
}

// LeastAccess returns the access of the peer through a queue pair without leases: none, or reads where these report
// what has arrived.
func LeastAccess(t ibv.TransportType) ibv.AccessFlags {
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
	return &DeviceFault{Err: err}
}
