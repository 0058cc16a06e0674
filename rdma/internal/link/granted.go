package link

import (
	"cmp"
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
	return ibv.QPOptions{MaxSendWR: AtMost(sendq.Depth, e.Attr.MaxQPWR), MaxSendSGE: AtMost(2, e.Attr.MaxSGE),
		MaxInline: sendq.MaxInline}
}

// AtMost returns n, or the device's limit if that is less; 0 is none.
func AtMost(n, limit int) int {
	if limit > 0 {
		return min(n, limit)
	}
	return n
}

// measure finds out which sizes the device grants, and fails if they are too small. It is called when the shard has all
// that a queue pair needs.
func (e *Shard) measure() error {
	eng := e.Engine
	cq := e.CQ.Device()
	if cq == nil {
		return nil
	}
	if eng.Sizes.MaxSendWR == 0 {
		eng.Sizes = eng.wanted()
		e.Receives.Options(&eng.Sizes)
		if err := eng.fitSizes(cq, e.leastRecvs()); err != nil {
			return err
		}
	}
	if e.Receives.Shared == nil {
		e.Receives.fit(e, eng.Sizes.MaxRecvWR)
	}
	return nil
}

// MakeQP makes a queue pair of these sizes. Where the device refuses them by name, or grants less, they become smaller.
func (e *Engine) MakeQP(cq *ibv.CQ, o *ibv.QPOptions) (*ibv.QP, error) {
	sizes := map[string]*int{"max_send_wr": &o.MaxSendWR, "max_send_sge": &o.MaxSendSGE,
		"max_inline_data": &o.MaxInline, "max_recv_wr": &o.MaxRecvWR}
	for {
		qp, err := e.PD.CreateQP(cq, cq, o)
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
				*n, smaller = ibv.None, true
			}
		}
		if !smaller {
			return nil, err
		}
	}
}

// fitSizes has the engine's sizes be what the device grants, if that is enough.
func (e *Engine) fitSizes(cq *ibv.CQ, leastRecvs int) error {
	qp, err := e.MakeQP(cq, &e.Sizes)
	if err != nil { // not for the sizes: connections will have the error
		return nil
	}
	if err := qp.Close(); err != nil {
		return err
	}
	if e.Sizes.SRQ == nil {
		err = e.enough("max_recv_wr", leastRecvs, e.Sizes.MaxRecvWR)
	}
	return cmp.Or(e.enough("max_send_wr", sendq.LeastDepth, e.Sizes.MaxSendWR),
		e.enough("max_send_sge", 1, e.Sizes.MaxSendSGE), err)
}

// enough reports that a device grants less than a connection needs.
func (e *Engine) enough(what string, least, have int) error {
	if have >= least {
		return nil
	}
	return &ibv.LimitError{What: what + " of a connection", Asked: uint64(least), Limit: uint64(max(have, 0)),
		Where: e.Name()}
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
	if e.Device == nil {
		return nil
	}
	if e.Attr, err = e.Device.QueryDevice(); err != nil {
		return err
	}
	if !mayShare(e.Device.Info().Transport) {
		e.Attr.MaxSRQ = 0
	}
	if err := cmp.Or(e.enough("max_qp_wr", sendq.LeastDepth, e.Attr.MaxQPWR),
		e.enough("max_cqe", leastSRQ+sendq.Depth, e.Attr.MaxCQE)); err != nil {
		return err
	}
	for port := range e.Attr.PhysPortCnt {
		p, err := e.Device.QueryPort(port + 1)
		if err != nil {
			return err
		}
		if p.State == ibv.PortActive && p.MaxMsgSize > 0 {
			e.longest = min(e.longest, int(p.MaxMsgSize))
		}
	}
	switch most := (e.longest - wire.HeaderLen) / 64 * 64; {
	case o.Block == 0 && most >= wire.MinBlock && most < DefaultBlock:
		o.Block = most
	case max(o.Block, wire.MinBlock) > most:
		return &ibv.LimitError{What: "Block", Asked: uint64(max(o.Block, wire.MinBlock)), Limit: uint64(max(most, 0)),
			Where: fmt.Sprintf("messages of %s (PortAttr.MaxMsgSize %d)", e.Name(), e.longest)}
	}
	return nil
}

// openWindows lets leases use memory windows, if the device and the options do.
func (e *Engine) openWindows(path ibv.DataPath) error {
	if e.Options.NoWindows {
		return nil
	}
	err := e.Device.CanBindMW(ibv.MWType2, path)
	if err == nil && !e.Device.MWBounds() && !(TrustWindows && e.Options.MustWindows) {
		err = &ibv.UnsupportedError{Feature: "leases by memory windows", Need: "a device that holds to their bounds, " +
			"or KeysMR", Have: e.Device.Name() + ", SoftRoCE, which lets the peer access the whole MR"}
	}
	switch {
	case err == nil:
		e.Windows = &windows{pd: e.PD}
	case e.Options.MustWindows:
		return err
	}
	return nil
}

// TrustWindows is set by tests of what else windows do.
var TrustWindows bool
