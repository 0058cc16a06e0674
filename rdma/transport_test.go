package rdma

import (
	"errors"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/inmem"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// TestFalseProbe has a peer on iWARP that names no byte to read, and one that names a wrong one: it breaks its own
// connection, and no other of the engine.
func TestFalseProbe(t *testing.T) {
	mem := inmem.NewIWARP()
	var engines [2]*Engine
	for i := range engines {
		e, err := newMemoryEngine(nil, mem)
		ok(t, err)
		defer e.Close()
		engines[i] = e
	}
	connect := func() (a, b *Conn) {
		x, y := inMemory(t, engines, wire.Messages, [2]*Options{{}, {}})
		return &Conn{x}, &Conn{y}
	}
	other, otherPeer := connect()
	a, b := connect()
	var wrong *ProtocolError
	if err := a.l.Probe(&wire.Hello{}); !errors.As(public(err), &wrong) {
		t.Errorf("%v, want a *ProtocolError for a hello without a byte to read", err)
	}
	a.l.Mu.Lock()
	a.l.Queue.ProbeAt(ibv.RemoteAddr{Addr: 8, RKey: 0xbad}, ibv.SGE{Addr: engines[0].e.Probe.Addr() + 1, Length: 1,
		LKey: engines[0].e.Probe.LKey()})
	a.l.Mu.Unlock()
	ok(t, a.Send(timeout(t), []byte("hello")))
	<-a.Done()
	<-b.Done()
	if !errors.Is(a.Err(), ErrPeerGone) {
		t.Errorf("%v, want the end of the connection", a.Err())
	}
	ok(t, errors.Join(a.CloseNow(), b.CloseNow()))
	ok(t, other.Send(timeout(t), []byte("hello")))
	m, err := otherPeer.Recv(timeout(t))
	ok(t, err)
	m.Release()
	ok(t, errors.Join(other.Close(), otherPeer.Close()))
}
