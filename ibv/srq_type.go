package ibv

import (
	"github.com/pureverbs/pureverbs/internal/abi"
)

// checkType reports what an SRQ of this type lacks, or cannot have.
func (o *SRQOptions) checkType(pd *PD) error {
	bad := func(arg, got, want string) error { return &ArgError{Arg: arg, Got: got, Want: want} }
	switch {
	case o.Type > SRQTM:
		return bad("Type", o.Type.String(), "SRQBasic, SRQXRC or SRQTM")
	case o.Type == SRQBasic && o.CQ != nil:
		return bad("CQ", "set", "nil with SRQBasic: receives complete on the CQs of the QPs")
	case o.Type != SRQXRC && o.XRCD != nil:
		return bad("XRCD", "set", "nil with SRQ"+o.Type.String())
	case o.Type != SRQTM && (o.MaxTags != 0 || o.MaxTagOps != 0):
		return bad("MaxTags and MaxTagOps", "set", "0 with SRQ"+o.Type.String())
	case o.Type == SRQBasic:
		return nil
	case o.CQ == nil:
		return bad("CQ", "nil", "a CQ of the same Device with SRQ"+o.Type.String())
	case o.CQ.dev != pd.dev:
		return bad("CQ", "a CQ of another Device", "a CQ of the same Device")
	case o.DataPath != DataPathAuto && o.DataPath != o.CQ.path:
		return bad("DataPath", o.DataPath.String(), "that of the CQ, "+o.CQ.path.String())
	case o.Type == SRQTM:
		return o.checkTags(pd.dev)
	case o.XRCD == nil:
		return bad("XRCD", "nil", "a domain of the same Device with XRC")
	case o.XRCD.dev != pd.dev:
		return bad("XRCD", "a domain of another Device", "a domain of the same Device")
	}
	return nil
}

// parents returns the objects that the SRQ keeps open.
func (o *SRQOptions) parents(pd *PD) []*node {
	nodes := []*node{&pd.node}
	if o.CQ != nil {
		nodes = append(nodes, &o.CQ.node)
	}
	if o.XRCD != nil {
		nodes = append(nodes, &o.XRCD.node)
	}
	return nodes
}

// create makes the C object and returns its size.
func (o *SRQOptions) create(pd *PD) (handle uintptr, got abi.SRQAttr, err error) {
	ask := abi.SRQAttr{MaxWR: uint32(o.MaxWR), MaxSGE: uint32(o.MaxSGE)}
	if o.Type == SRQBasic {
		init := &abi.SRQInitAttr{Attr: ask}
		handle, err = pd.dev.v.CreateSRQ(pd.handle, init)
		return handle, init.Attr, err
	}
	init := &abi.SRQInitAttrEx{Attr: ask, SRQType: uint32(o.Type), PD: pd.handle, CQ: o.CQ.handle,
		CompMask: abi.IBV_SRQ_INIT_ATTR_TYPE | abi.IBV_SRQ_INIT_ATTR_PD | abi.IBV_SRQ_INIT_ATTR_CQ}
	if o.Type == SRQTM {
		init.CompMask |= abi.IBV_SRQ_INIT_ATTR_TM
		init.TMCap = abi.TMCap{MaxNumTags: uint32(o.MaxTags), MaxOps: uint32(o.MaxTagOps)}
	} else {
		init.CompMask |= abi.IBV_SRQ_INIT_ATTR_XRCD
		init.XRCD = o.XRCD.handle
	}
	handle, err = pd.dev.v.CreateSRQEx(pd.dev.handle, init)
	if err != nil && o.Type == SRQXRC {
		err = pd.dev.explainXRC("an XRC SRQ", err)
	} else if err != nil {
		err = pd.dev.explainTM(err)
	}
	return handle, init.Attr, err
}

// Type returns the kind of SRQ.
func (s *SRQ) Type() SRQType { return s.typ }

// CQ returns the CQ on which the receives of an XRC or tag matching SRQ complete, nil for a basic
// one.
func (s *SRQ) CQ() *CQ { return s.cq }

// Num returns the number of the SRQ, by which XRC peers name it: SendWR.RemoteSRQN. Providers
// need not know it of a basic SRQ.
//
// C: ibv_get_srq_num(3).
func (s *SRQ) Num() (num uint32, err error) {
	err = s.do("srq number", func() error {
		n, err := s.pd.dev.v.GetSRQNum(s.pd.dev.handle, s.handle)
		switch {
		case err == nil:
			num = n
		case unsupported(err):
			err = &UnsupportedError{Feature: "the number of an SRQ", Need: "a device with XRC", Have: s.pd.dev.Name()}
		}
		return err
	})
	return num, err
}

// joins reports whether the SRQ is the XRC SRQ of a CQ on the direct data path.
func (s *SRQ) joins() bool { return s.typ == SRQXRC && s.cq.path == DataPathDirect }

// joinCQ makes an XRC SRQ the one of its CQ on the direct data path.
func (s *SRQ) joinCQ() error {
	if !s.joins() {
		return nil
	}
	s.cq.mu.Lock()
	defer s.cq.mu.Unlock()
	if err := s.cq.noWQLocked(); err != nil {
		return err
	}
	if s.cq.queues.xrc != nil {
		return &UnsupportedError{Feature: "a second XRC SRQ on a CQ of the direct data path",
			Need: "a CQ for each, or a CQ made with DataPathOps",
			Have: s.cq.node.String() + ", which has one: completions do not say which SRQ they are of"}
	}
	if err := s.cq.takesSRQ(); err != nil {
		return err
	}
	if s.cq.queues.dcts > 0 {
		return &UnsupportedError{Feature: "an XRC SRQ and a DCT on one CQ of the direct data path",
			Need: "a CQ for each, or a CQ made with DataPathOps",
			Have: s.cq.node.String() + ", which has a DCT: its number is not known before its completions come"}
	}
	s.cq.queues.xrc = s
	s.cq.direct.live.AddXRC(s.direct)
	return nil
}

// takeOut takes the completions out of the CQ of an XRC SRQ that is to be closed, and keeps the CQ
// from being polled until unlock is called. Polling needs the ring of the SRQ, or the library's
// record of it.
func (s *SRQ) takeOut() (unlock func()) {
	cq := s.cq
	if cq == nil {
		return func() {}
	}
	d := &s.pd.dev.direct
	d.mu.Lock() // no QP is suspended
	cq.mu.Lock()
	cq.holdLocked()
	return func() {
		cq.mu.Unlock()
		d.mu.Unlock()
	}
}

// leaveCQ removes the completions that came after takeOut, since the SRQ was destroyed.
// Preconditions: takeOut.
func (s *SRQ) leaveCQ() {
	cq := s.cq
	if cq != nil && s.typ == SRQTM {
		cq.ops.tagged.drop(s)
	}
	switch {
	case cq == nil:
	case s.joins():
		cq.queues.xrc = nil
		cq.direct.live.DropXRC()
	case cq.ops.poller != nil, cq.ops.extended != nil, cq.ops.other != nil:
		cq.skipUnknown()
	}
}

// skipUnknown takes out what the CQ has and drops what the library cannot decode, since the SRQ that
// it belongs to is gone. The library forgets each such entry when it has reported it.
// Preconditions: cq.mu is held, the CQ is of the ops engine.
func (cq *CQ) skipUnknown() {
	h := cq.held
	if cq.held = nil; h == nil {
		h = &held{}
	}
	for range cq.cqe {
		var wc [1]WCEx // with more the library forgets the good ones before a bad one
		n, err := cq.pollExLocked(wc[:])
		if err == nil && n == 0 {
			break
		}
		h.wcs = append(h.wcs, wc[:n]...)
	}
	if len(h.wcs) > 0 || h.err != nil {
		cq.held = h
		cq.announce() // there may be no event for what is taken
	}
}

// leaveXRC takes out the completions of the XRC SRQ before a QP comes whose number may be in
// them.
// Preconditions: cq.mu is held, no QP is suspended.
func (cq *CQ) leaveXRC() {
	if cq.queues.xrc != nil {
		cq.holdLocked()
		cq.direct.live.LeaveXRC()
	}
}
