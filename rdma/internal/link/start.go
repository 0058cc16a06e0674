package link

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// Prepare runs when the QP is there, before the peer can send.
func (l *Link) Prepare(p nic.Conn) error {
	l.Port, l.QPN = port{p, p.Queue()}, p.Num()
	g := p.Cap()
	l.Writer.OneSGE = g.MaxSendSGE < 2
	needsScratch := l.Queue.Limit(sendq.Limits{Depth: g.MaxSendWR, Inline: g.MaxInline, Piece: l.Shard.Engine.longest})
	l.Alive.Begin(l.Shard.Ticks.Load())
	l.Shard.add(l)
	err := l.Shard.Engine.enough("max_send_wr", sendq.LeastDepth, g.MaxSendWR)
	if err == nil && needsScratch {
		err = l.Writer.NeedScratch()
	}
	return err
}

// First has the side that dials send a frame as soon as it may, and the other side send nothing before one has come.
// That side has receives from now on: there is no step in which it learns that the peer may send.
// Preconditions: the peer cannot send yet.
func (l *Link) First(dials bool) error {
	t := l.Shard.Family()
	if t.DialerFirst() {
		l.Mu.Lock()
		l.mute = !dials
		l.Queue.SetDue(sendq.Ping, dials)
		l.Mu.Unlock()
	}
	if t.RNR() || dials {
		return nil
	}
	return l.Shard.Receives.promise(l)
}

// Start begins sending: the connection is there. It has blocks only now, because a stranger that does not finish its
// handshake must cost none. What a peer sends before takes those of others, or is sent again by its adapter: see first.
func (l *Link) Start(peer wire.Hello) error {
	local, remote := l.Port.Addrs()
	l.Mu.Lock() // the peer's frames come since prepare
	l.Peer, l.Local, l.Remote = peer, local, remote
	l.Mu.Unlock()
	err := l.Shard.Receives.promise(l)
	if err == nil {
		err = l.Probe(&peer)
	}
	if err != nil {
		l.Abandon(err)
		return err
	}
	l.Mu.Lock()
	l.Started = true
	l.Alive.Begin(l.Shard.Ticks.Load())
	if peer.Flags&wire.HelloLeases == 0 {
		l.Control = nil
	}
	if l.Control != nil {
		l.Control.Tenant.Start()
	}
	l.Send.Raise(peer.Limit)
	l.Pump()
	l.Mu.Unlock()
	l.Port.OnDone(l.disconnected)
	if l.Shard.Engine.Broken() {
		l.Fail(ErrGone) // failAll, which is called once, may not have known it yet
	}
	return nil
}

// Probe has the queue read what the peer's hello says.
func (l *Link) Probe(peer *wire.Hello) error {
	m := l.Shard.Engine.Probe
	switch {
	case m == nil:
		return nil
	case peer.Flags&wire.HelloProbe == 0:
		return breach("private data", "no probe", "one, on iWARP")
	}
	l.Queue.ProbeAt(ibv.RemoteAddr{Addr: peer.Probe.Addr, RKey: peer.Probe.Key}, ibv.SGE{Addr: m.Addr() + 1, Length: 1,
		LKey: m.LKey()})
	return nil
}
