package rdma

import (
	"errors"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// What is different on iWARP: see the methods of ibv.TransportType.

// transport returns the protocol family of the adapter.
func (e *Engine) transport() ibv.TransportType {
	if e == nil || e.nic == nil { // that of a test
		return ibv.TransportIB
	}
	return e.nic.Transport()
}

// family returns the protocol family of the adapter.
func (e *shard) family() ibv.TransportType { return e.eng.transport() }

// openProbe registers memory of two bytes where a connection learns by reads what has arrived: peers read the first
// one, and their bytes are put into the second one.
func (e *Engine) openProbe() (err error) {
	if t := e.transport(); !t.SendsAcked() {
		e.probe, err = e.nic.Alloc(2, ibv.RemoteRead|t.ReadSink(), nil)
	}
	return err
}

// probe has the queue read what the peer's hello says.
func (l *link) probe(peer *wire.Hello) error {
	m := l.e.eng.probe
	switch {
	case m == nil:
		return nil
	case peer.Flags&wire.HelloProbe == 0:
		return &ProtocolError{Frame: "private data", Got: "no probe", Want: "one, on iWARP"}
	}
	l.q.ProbeAt(ibv.RemoteAddr{Addr: peer.Probe.Addr, RKey: peer.Probe.Key}, ibv.SGE{Addr: m.Addr() + 1, Length: 1,
		LKey: m.LKey()})
	return nil
}

// leastAccess returns the access of the peer through a queue pair without leases: none, or reads where these report
// what has arrived.
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
