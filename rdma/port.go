package rdma

import (
	"context"

	"net/netip"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

const readsMost = 16 // reads and atomics under way

// port is a connection's queue pair and the way to its end: rdma_cm's on a device, or with Pipe one in memory.
type port struct {
	cm   *rdmacm.Conn
	qp   *ibv.QP
	pipe *pipeEnd // in place of both
}

// num returns the number of the queue pair.
func (p *port) num() uint32 {
	if p.pipe != nil {
		return p.pipe.qp.Num()
	}
	return p.qp.Num()
}

// granted are the sizes of the queue pair.
func (p *port) granted() ibv.QPCap {
	if p.pipe != nil {
		return p.pipe.qp.Cap()
	}
	return p.qp.Cap()
}

// postRecv posts receives to a queue of the connection's own.
func (p *port) postRecv(wrs []ibv.RecvWR) (int, error) {
	if p.pipe != nil {
		return p.pipe.qp.PostRecv(wrs)
	}
	return p.qp.PostRecv(wrs)
}

// post posts work requests.
func (p *port) post(wrs []ibv.SendWR) (int, error) {
	if p.pipe != nil {
		return p.pipe.qp.PostSend(wrs)
	}
	return p.qp.PostSend(wrs)
}

// allow sets what the peer may do with memory.
func (p *port) allow(access ibv.AccessFlags) error {
	if p.pipe != nil {
		p.pipe.qp.Allow(access)
		return nil
	}
	return p.qp.Modify(&ibv.QPAttr{Access: access}, ibv.MaskAccessFlags)
}

// reads is how many reads and atomics may be under way.
func (p *port) reads() int {
	if p.pipe != nil {
		return readsMost
	}
	attr, err := p.qp.Query(ibv.MaskMaxQPRdAtomic)
	if err != nil {
		return 0
	}
	return int(attr.MaxRdAtomic)
}

// unused reports whether the queue pair has not come beyond INIT, where it takes no receives and sends nothing. Then
// there is nothing to drain, and libmlx5 takes no marker.
func (p *port) unused() bool {
	early := func(s ibv.QPState) bool { return s == ibv.StateReset || s == ibv.StateInit }
	if p.pipe != nil || !early(p.qp.State()) {
		return false
	}
	attr, err := p.qp.Query(ibv.MaskState) // an old librdmacm may have moved it
	return err == nil && early(attr.State)
}

// rest has everything that is posted complete, and waits for the device's last event, if it has such events.
func (p *port) rest(ctx context.Context) error {
	if p.pipe != nil {
		p.pipe.qp.Fail()
		return nil
	}
	return p.qp.Rest(ctx)
}

// mark posts a work request whose completion follows all others, unless they have completed: then needless is true.
func (p *port) mark(ctx context.Context, id uint64) (needless bool, err error) {
	if p.pipe != nil {
		p.pipe.qp.Mark(id)
		return false, nil
	}
	n, err := p.qp.Mark(ctx, id)
	return n == 0, err
}

// close ends the connection, and destroys the queue pair.
func (p *port) close() error {
	if p.pipe != nil {
		p.pipe.close()
		return nil
	}
	return p.cm.Close()
}

// onDone has f called once the peer has ended the connection.
func (p *port) onDone(f func(error)) {
	if p.pipe != nil {
		p.pipe.done.add(f)
		return
	}
	p.cm.OnDone(f)
}

// addrs returns the addresses of this side and of the peer.
func (p *port) addrs() (local, remote netip.AddrPort) {
	if p.pipe != nil {
		return p.pipe.local, p.pipe.peer.local
	}
	return p.cm.LocalAddr(), p.cm.RemoteAddr()
}
