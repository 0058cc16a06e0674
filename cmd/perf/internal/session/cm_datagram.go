package session

import (
	"context"
	"fmt"
	"runtime"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// introduces reports whether clients announce their queue pairs to the server by a datagram on each: rdma_cm informs
// only the client about its peer.
func (s *rdmaCM) introduces() bool {
	return s.plan.Transport == wire.UD && (s.plan.Load.Bidirectional || !s.plan.Bandwidth())
}

// greeted is the part that a server receives: the address in front, and four bytes that mean nothing.
const greeted = 40 + 4

// expectGreeting posts the receive for a client's datagram, before it can come.
func (s *rdmaCM) expectGreeting(c *rdmacm.Conn) error {
	if !s.introduces() || s.plan.Client() {
		return nil
	}
	_, err := c.QP().PostRecv([]ibv.RecvWR{{SGEs: []ibv.SGE{s.region(0).SGE(0, greeted)}}})
	return err
}

// address learns where the datagrams of a queue pair go.
func (s *rdmaCM) address(conn *rdmacm.Conn) (r reach, err error) {
	if s.plan.Client() {
		r.ah, r.qpn, r.qkey = conn.Peer()
		if s.introduces() {
			err = s.greet(conn.QP(), r)
		}
		return r, err
	}
	if !s.introduces() {
		return r, nil
	}
	var wcs [1]ibv.WC
	if err := s.await(s.cqs[0].recv, wcs[:]); err != nil {
		return r, fmt.Errorf("the client's first datagram: %w", err)
	}
	to, err := s.dev.AddressOfWC(s.plan.Link.IBPort, &wcs[0], s.region(0).Bytes()[:greeted])
	if err != nil {
		return r, err
	}
	if r.ah, err = s.pd.CreateAH(to); err != nil {
		return r, err
	}
	s.ahs = append(s.ahs, r.ah)
	q, err := conn.QP().Query(ibv.MaskQKey)
	if err != nil {
		return r, err
	}
	r.qpn, r.qkey = wcs[0].Imm, q.QKey
	return r, nil
}

// greet sends the number of a queue pair to the server.
func (s *rdmaCM) greet(qp *ibv.QP, to reach) error {
	_, err := qp.PostSend([]ibv.SendWR{{Opcode: ibv.OpSendImm, Imm: qp.Num(), Flags: ibv.Signaled,
		SGEs: []ibv.SGE{s.region(0).SGE(0, greeted-40)}, AH: to.ah, RemoteQPN: to.qpn, RemoteQKey: to.qkey}})
	if err != nil {
		return err
	}
	var wcs [1]ibv.WC
	return s.await(s.cqs[0].send, wcs[:])
}

// await waits for a completion.
func (s *rdmaCM) await(cq *ibv.CQ, wcs []ibv.WC) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.plan.Peer.Timeout)
	defer cancel()
	for ctx.Err() == nil {
		n, err := cq.Poll(wcs)
		if err != nil {
			return err
		}
		if n > 0 {
			return wcs[0].Err()
		}
		runtime.Gosched()
	}
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return wire.ErrSilent
}

// rdmaCM is the way by rdma_cm, which connects the queue pairs.
type rdmaCM struct {
	cmMeeting
	conns   []*rdmacm.Conn
	reaches []reach // UD
}
