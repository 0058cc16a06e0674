package link

import (
	"errors"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/pool"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// writeError is why nothing can be sent, or nil.
// Preconditions: l.Mu is held.
func (l *Link) writeError() error {
	switch {
	case l.End.Closed():
		return ibv.ErrClosed
	case l.End.WriteShut:
		return ErrShutWrite
	case l.End.PeerClosed:
		return ErrPeerClosed
	case l.End.Ending:
		return l.Reason()
	}
	return nil
}

// LeaseError is why nothing can be lent or borrowed any more, or nil.
// Preconditions: l.Mu is held.
func (l *Link) LeaseError() error {
	switch {
	case l.End.Closed():
		return ibv.ErrClosed
	case l.End.Ending:
		return l.Reason()
	case l.End.PeerClosed:
		return ErrPeerClosed
	}
	return nil
}

// Reason is why the connection has ended.
// Preconditions: l.Mu is held, the connection is ending.
func (l *Link) Reason() error {
	var p *wire.Error
	cause, sent, acked := l.End.Cause, l.Queue.Posted, l.Queue.Acked
	switch {
	case errors.Is(cause, ibv.ErrClosed), errors.Is(cause, pool.ErrNoMemory), errors.As(cause, &p):
		return cause
	case l.End.PeerClosed && l.End.PeerFIN:
		return ErrPeerClosed
	case isDeviceFault(cause):
		return &Broken{Device: l.Shard.Engine.Name(), Sent: sent, Acked: acked, Err: cause}
	}
	return &Broken{Peer: l.Remote, Sent: sent, Acked: acked, Err: cause}
}
