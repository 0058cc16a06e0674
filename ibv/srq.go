package ibv

import (
	"errors"
	"fmt"
	"sync"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ops"
)

// SRQ is a shared receive queue: one pool of receive buffers for many QPs.
//
// It belongs to its PD. Methods are safe for concurrent use. Close fails while
// QPs use it.
//
// C: struct ibv_srq.
type SRQ struct {
	node
	pd      *PD
	handle  uintptr
	maxWR   int
	maxSGE  int
	errGone error
	errFull error

	mu    sync.Mutex
	chain *ops.RecvChain // nil once closed
}

// SRQOptions are the choices at the creation of an SRQ.
type SRQOptions struct {
	MaxWR  int // receive buffers, 0 means 128
	MaxSGE int // entries for each, 0 means 1
}

// CreateSRQ makes a shared receive queue; opt may be nil.
//
// C: ibv_create_srq(3).
func (pd *PD) CreateSRQ(opt *SRQOptions) (*SRQ, error) {
	const op = "create srq"
	if opt == nil {
		opt = &SRQOptions{}
	}
	o := SRQOptions{MaxWR: orDefault(opt.MaxWR, 128), MaxSGE: orDefault(opt.MaxSGE, 1)}
	name := pd.ctx.Name()
	if o.MaxWR < 1 || o.MaxSGE < 0 {
		return nil, &OpError{Op: op, Object: name, Err: &ArgError{Arg: "MaxWR and MaxSGE", Got: fmt.Sprintf("%d and %d", o.MaxWR, o.MaxSGE), Want: "positive"}}
	}
	if err := pd.enter(op); err != nil {
		return nil, err
	}
	defer pd.leave()
	if pd.ctx.table.PostSRQRecv == 0 {
		return nil, &OpError{Op: op, Object: name, Err: &UnsupportedError{Feature: "post_srq_recv", Need: "a provider with SRQs", Have: name}}
	}
	init := &abi.SRQInitAttr{Attr: abi.SRQAttr{MaxWR: uint32(o.MaxWR), MaxSGE: uint32(o.MaxSGE)}}
	h, err := pd.ctx.v.createSRQ(pd.handle, init)
	if err != nil {
		dev := &pd.ctx.attr
		return nil, &OpError{Op: op, Object: name, Err: explainLimits(err, name,
			limit{"max_wr", o.MaxWR, dev.MaxSRQWR}, limit{"max_sge", o.MaxSGE, dev.MaxSRQSGE})}
	}
	s := &SRQ{pd: pd, handle: h, maxWR: int(init.Attr.MaxWR), maxSGE: int(init.Attr.MaxSGE)}
	s.chain, err = ops.NewSRQChain(pd.ctx.table, h, s.maxWR, s.maxSGE)
	if err != nil {
		return nil, &OpError{Op: op, Object: name, Err: errors.Join(err, pd.ctx.v.destroySRQ(h))}
	}
	s.node.init("srq", name, &pd.node)
	s.errGone = &OpError{Op: "post srq recv", Object: s.name, Err: ErrClosed}
	s.errFull = &OpError{Op: "post srq recv", Object: s.name, Err: ErrQueueFull}
	pd.ctx.register(h, s)
	watch(s, &s.node)
	return s, nil
}

// Cap is the number of receive buffers and of entries for each, as granted.
func (s *SRQ) Cap() (maxWR, maxSGE int) { return s.maxWR, s.maxSGE }

// PostRecv posts receive buffers. See QP.PostRecv.
//
// C: ibv_post_srq_recv(3).
func (s *SRQ) PostRecv(wrs []RecvWR) (int, error) {
	s.mu.Lock()
	if s.chain == nil {
		s.mu.Unlock()
		return 0, s.errGone
	}
	n, err := postRecv(s.chain, s.maxSGE, wrs)
	s.mu.Unlock()
	switch err {
	case nil:
		return n, nil
	case ErrQueueFull:
		return n, s.errFull
	}
	return n, &OpError{Op: "post srq recv", Object: s.name, Err: err, Detail: fmt.Sprintf("work request %d", n)}
}

// SRQAttr is what Query tells of an SRQ.
type SRQAttr struct {
	MaxWR  int
	MaxSGE int
	Limit  int // number of buffers below which EventSRQLimitReached comes; 0 when disarmed
}

// SetLimit arms EventSRQLimitReached: it comes once, when fewer than n buffers
// are left. 0 disarms.
//
// C: ibv_modify_srq(3) with IBV_SRQ_LIMIT.
func (s *SRQ) SetLimit(n int) error {
	return s.modify("set srq limit", abi.IBV_SRQ_LIMIT, "limit", n, s.maxWR)
}

// Resize changes the number of receive buffers, where the device can.
//
// C: ibv_modify_srq(3) with IBV_SRQ_MAX_WR.
func (s *SRQ) Resize(maxWR int) error {
	return s.modify("resize srq", abi.IBV_SRQ_MAX_WR, "max_wr", maxWR, s.pd.ctx.attr.MaxSRQWR)
}

func (s *SRQ) modify(op string, mask uint32, what string, n, most int) error {
	if err := s.enter(op); err != nil {
		return err
	}
	defer s.leave()
	name := s.pd.ctx.Name()
	if n < 0 {
		return &OpError{Op: op, Object: name, Err: &ArgError{Arg: what, Got: fmt.Sprint(n), Want: fmt.Sprintf("0 to %d", most)}}
	}
	attr := &abi.SRQAttr{MaxWR: uint32(n), SRQLimit: uint32(n)}
	if err := s.pd.ctx.v.modifySRQ(s.handle, attr, mask); err != nil {
		return &OpError{Op: op, Object: name, Err: explainLimits(err, s.node.String(), limit{what, n, most})}
	}
	return nil
}

// Query asks the device for the state of the SRQ.
//
// C: ibv_query_srq(3).
func (s *SRQ) Query() (SRQAttr, error) {
	const op = "query srq"
	if err := s.enter(op); err != nil {
		return SRQAttr{}, err
	}
	defer s.leave()
	a := new(abi.SRQAttr)
	if err := s.pd.ctx.v.querySRQ(s.handle, a); err != nil {
		return SRQAttr{}, &OpError{Op: op, Object: s.pd.ctx.Name(), Err: err}
	}
	return SRQAttr{MaxWR: int(a.MaxWR), MaxSGE: int(a.MaxSGE), Limit: int(a.SRQLimit)}, nil
}

// Close destroys the SRQ; it fails with a *BusyError while QPs use it.
//
// C: ibv_destroy_srq(3).
func (s *SRQ) Close() error {
	var c *ops.RecvChain
	return s.node.close(func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.pd.ctx.v.destroySRQ(s.handle); err != nil {
			return err
		}
		s.pd.ctx.unregister(s.handle)
		c, s.chain = s.chain, nil
		return nil
	}, func() error { return c.Free() })
}
