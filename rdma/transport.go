package rdma

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
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

// first has the side that dials send a frame as soon as it may, and the other side send nothing before one has come.
// That side has receives from now on: there is no step in which it learns that the peer may send.
// Preconditions: the peer cannot send yet.
func (l *link) first(dials bool) error {
	t := l.e.family()
	if t.DialerFirst() {
		l.mute = !dials
		l.q.SetDue(sendq.Ping, dials)
	}
	if t.RNR() || dials {
		return nil
	}
	return l.e.recvs.promise(l)
}

// postError returns why a connection ends whose work request was refused. On iWARP the connection may be closing, for a
// reason that the connection manager is about to report.
func postError(err error) error {
	if errors.Is(err, syscall.ENOTCONN) {
		return err
	}
	return &deviceFault{err}
}

// makeSinks registers the memory that an operation reads into, if the peer's adapter needs access to it: for this
// operation alone, since the peer's program may write there meanwhile.
func (l *link) makeSinks(o *op) error {
	access := l.e.family().ReadSink()
	if access == ibv.LocalWrite {
		return nil
	}
	for i := range o.steps {
		st := &o.steps[i]
		if st.op != ibv.OpRead {
			continue
		}
		if st.buf.gen.Load() != st.gen {
			return errReleased(i)
		}
		mr, err := l.e.eng.nic.register(st.buf.bytes()[st.from:st.to], access)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNoMemory, err)
		}
		st.sink = mr
		o.sinks++
	}
	return nil
}

// closeSinks undoes makeSinks.
func (o *op) closeSinks(p *Pool) {
	for i := range o.steps {
		if st := &o.steps[i]; st.sink != nil {
			p.drop(st.sink, 0)
			st.sink = nil
		}
	}
	o.sinks = 0
}
