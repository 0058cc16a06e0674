package rdma

import (
	"fmt"
	"math"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// What a device grants is less than what this package would use if it grants it: no inline data, one SGE, fewer work
// requests, no messages of the length of a block. So the first shard of an engine makes a queue pair of the size that
// connections have, to learn what is refused; and each connection obeys what its own queue pair was granted.

// wanted are the sizes of a connection's queue pair, if the device has them.
func (e *Engine) wanted() ibv.QPOptions {
	return ibv.QPOptions{MaxSendWR: atMost(sendq.Depth, e.attr.MaxQPWR), MaxSendSGE: atMost(2, e.attr.MaxSGE),
		MaxInline: sendq.MaxInline}
}

// atMost returns n, or the device's limit if that is less; 0 is none.
func atMost(n, limit int) int {
	if limit > 0 {
		return min(n, limit)
	}
	return n
}

// measure finds out which sizes the device grants, and fails if they are too small. It is called when the shard has all
// that a queue pair needs.
func (e *shard) measure() error {
	eng := e.eng
	cq := e.cq.Device()
	if cq == nil {
		return nil
	}
	if eng.sizes.MaxSendWR == 0 {
		eng.sizes = eng.wanted()
		e.recvs.options(&eng.sizes)
		if err := eng.fitSizes(cq, e.leastRecvs()); err != nil {
			return err
		}
	}
	if e.recvs.shared == nil {
		e.recvs.fit(e, eng.sizes.MaxRecvWR)
	}
	return nil
}

// makeQP makes a queue pair of these sizes. Where the device refuses them by name, or grants less, they become smaller.
func (e *Engine) makeQP(cq *ibv.CQ, o *ibv.QPOptions) (*ibv.QP, error) {
	sizes := map[string]*int{"max_send_wr": &o.MaxSendWR, "max_send_sge": &o.MaxSendSGE,
		"max_inline_data": &o.MaxInline, "max_recv_wr": &o.MaxRecvWR}
	for {
		qp, err := e.pd.CreateQP(cq, cq, o)
		if err == nil {
			g := qp.Cap()
			o.MaxSendWR, o.MaxSendSGE = min(o.MaxSendWR, g.MaxSendWR), min(o.MaxSendSGE, g.MaxSendSGE)
			o.MaxRecvWR = min(o.MaxRecvWR, g.MaxRecvWR)
			return qp, nil
		}
		smaller := false
		for _, l := range limitsOf(err) {
			switch n := sizes[l.What]; {
			case n == nil || l.Limit >= uint64(max(*n, 0)):
			case l.Limit > 0:
				*n, smaller = int(l.Limit), true
			case n == &o.MaxInline:
				*n, smaller = None, true
			}
		}
		if !smaller {
			return nil, err
		}
	}
}

// fitSizes has the engine's sizes be what the device grants, if that is enough.
func (e *Engine) fitSizes(cq *ibv.CQ, leastRecvs int) error {
	own := e.sizes.SRQ == nil
	qp, err := e.makeQP(cq, &e.sizes)
	if err != nil { // not for the sizes: connections will have the error
		return nil
	}
	if err := qp.Close(); err != nil {
		return err
	}
	for _, l := range []struct {
		what        string
		least, have int
	}{
		{"max_send_wr", sendq.LeastDepth, e.sizes.MaxSendWR},
		{"max_send_sge", 1, e.sizes.MaxSendSGE},
		{"max_recv_wr", leastRecvs, e.sizes.MaxRecvWR},
	} {
		if l.have < l.least && (own || l.what != "max_recv_wr") {
			return tooFew(l.what, l.least, l.have, e.name())
		}
	}
	return nil
}

// limitsOf returns the limits that an error is about.
func limitsOf(err error) (list []*ibv.LimitError) {
	switch e := err.(type) {
	case *ibv.LimitError:
		return []*ibv.LimitError{e}
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			list = append(list, limitsOf(err)...)
		}
	case interface{ Unwrap() error }:
		return limitsOf(e.Unwrap())
	}
	return list
}

// readDevice reads the limits of the device, and how long a message may be on all ports that are active. Blocks fit.
func (e *Engine) readDevice(o *EngineOptions) (err error) {
	e.longest = math.MaxInt32
	if e.dev == nil {
		return nil
	}
	if e.attr, err = e.dev.QueryDevice(); err != nil {
		return err
	}
	if !mayShare(e.dev.Info().Transport) {
		e.attr.MaxSRQ = 0
	}
	for _, l := range []struct {
		what        string
		least, have int
	}{{"max_qp_wr", sendq.LeastDepth, e.attr.MaxQPWR}, {"max_cqe", leastSRQ + sendq.Depth, e.attr.MaxCQE}} {
		if l.have < l.least {
			return tooFew(l.what, l.least, l.have, e.name())
		}
	}
	for port := range e.attr.PhysPortCnt {
		p, err := e.dev.QueryPort(port + 1)
		if err != nil {
			return err
		}
		if p.State == ibv.PortActive && p.MaxMsgSize > 0 {
			e.longest = min(e.longest, int(p.MaxMsgSize))
		}
	}
	switch most := (e.longest - wire.HeaderLen) / 64 * 64; {
	case o.Block == 0 && most >= wire.MinBlock && most < defaultBlock:
		o.Block = most
	case max(o.Block, wire.MinBlock) > most:
		return &ibv.LimitError{What: "Block", Asked: uint64(max(o.Block, wire.MinBlock)), Limit: uint64(max(most, 0)),
			Where: fmt.Sprintf("messages of %s (PortAttr.MaxMsgSize %d)", e.name(), e.longest)}
	}
	return nil
}
