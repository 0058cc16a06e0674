package ibv

import (
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ops"
	"github.com/pureverbs/pureverbs/internal/work"
)

// Creating a queue has three steps: the request, which checks the options; the object of C; and its rings, which belong
// to one of the engines. Each step adds to the list of what is undone if a later one fails.

const opCreateQP = "create qp"

func (pd *PD) createQP(send, recv *CQ, opt *QPOptions, maker qpMaker) (*QP, error) {
	if opt == nil {
		opt = &QPOptions{}
	}
	if opt.RSS != nil {
		return pd.createRSS(send, recv, opt, maker)
	}
	dev := pd.dev
	fail := func(err error) (*QP, error) { return nil, &OpError{Op: opCreateQP, Object: dev.Name(), Err: err} }
	r := &qpRequest{QPOptions: pd.resolve(opt), pd: pd, send: send, recv: recv, maker: maker,
		onlySendOps: opt.SendOps != 0}
	if err := r.check(); err != nil {
		return fail(err)
	}
	nodes := r.parents()
	if err := enterAll(opCreateQP, nodes...); err != nil {
		return nil, err
	}
	defer leaveAll(nodes...)
	if err := r.checkPaths(); err != nil {
		return fail(err)
	}
	if send.path == DataPathDirect {
		dev.direct.mu.Lock()
		defer dev.direct.mu.Unlock()
	}
	init, err := r.attributes()
	if err != nil {
		return fail(err)
	}
	h, out, err := r.maker.make(pd, &r.QPOptions, send, recv, init)
	if err != nil {
		return nil, r.explain(err, init)
	}
	var undo undoing
	undo.add(func() error { return r.maker.end(dev, h) })
	qp := r.object(h, init, out)
	grants := r.grants(&dev.attr, &qp.cap)
	err = errors.Join(checkGranted(dev.Name(), grants[:]...), qp.inCQE.checkResults(qp.send))
	if err == nil {
		err = takeRings(qp, r, &undo)
	}
	if err != nil {
		return fail(undo.after(err))
	}
	qp.finish(nodes...)
	return qp, nil
}

// qpRequest has the options, queues and functions that a QP is created with.
type qpRequest struct {
	QPOptions   // resolved
	pd          *PD
	send, recv  *CQ
	maker       qpMaker
	onlySendOps bool // the program gave SendOps
}

// resolve returns the options with their defaults.
func (pd *PD) resolve(opt *QPOptions) QPOptions {
	o := *opt
	wr := usualWR(pd.dev.attr.MaxQPWR)
	o.MaxSendWR, o.MaxRecvWR = orDefault(o.MaxSendWR, wr), orDefault(o.MaxRecvWR, wr)
	o.MaxSendSGE, o.MaxRecvSGE = orDefault(o.MaxSendSGE, 1), orDefault(o.MaxRecvSGE, 1)
	o.MaxInline = orDefault(o.MaxInline, 0)
	o.SingleThreaded = o.SingleThreaded || pd.td != nil
	if o.Type == 0 {
		o.Type = RC
	}
	if o.SRQ != nil || o.Type == XRCSend {
		o.MaxRecvWR, o.MaxRecvSGE = 0, 0
	}
	return o
}

// check reports what is wrong with the options on every device.
func (r *qpRequest) check() error {
	return errors.Join(r.checkDC(r.maker.dc), r.checkSRD(r.maker.srd, r.send, r.recv),
		r.QPOptions.check(r.pd, r.send, r.recv))
}

// parents returns the objects that the QP keeps open.
func (r *qpRequest) parents() []*node {
	nodes := []*node{&r.pd.node, &r.send.node}
	if r.recv != nil && r.recv != r.send {
		nodes = append(nodes, &r.recv.node)
	}
	if r.SRQ != nil {
		nodes = append(nodes, &r.SRQ.node)
	}
	return nodes
}

// checkPaths reports what is wrong with the data paths of the queues, and gives the SRQ that of the CQs.
func (r *qpRequest) checkPaths() error {
	dev, path := r.pd.dev, r.send.path
	if !dev.v.native && (dev.table.PostSend == 0 || dev.table.PostRecv == 0) {
		return &UnsupportedError{Feature: "post_send", Need: "a provider that posts", Have: dev.Name()}
	}
	if r.recv != nil && r.recv.path != path {
		return &ArgError{Arg: "CQs", Got: fmt.Sprintf("a send CQ with %v and a recv CQ with %v", path, r.recv.path),
			Want: "two with the same DataPath"}
	}
	if r.SRQ != nil {
		if err := r.SRQ.settle(path); err != nil {
			return err
		}
	}
	if path == DataPathDirect {
		return directQP(r.Type, r.send, r.recv, r.SRQ)
	}
	return nil
}

// attributes returns the attributes of C.
func (r *qpRequest) attributes() (*abi.QPInitAttrEx, error) {
	dev, path := r.pd.dev, r.send.path
	init := &abi.QPInitAttrEx{SendCQ: r.send.handle, Cap: r.cap(), QPType: r.Type.toC()}
	if r.recv != nil {
		init.RecvCQ = r.recv.handle
	}
	if r.SignalAll {
		init.SQSigAll = 1
	}
	if r.SRQ != nil {
		init.SRQ = r.SRQ.handle
	}
	if r.maker.Poster == nil {
		err := errors.Join(r.wantSendOps(dev, path, r.maker.mlx5.Opcodes != 0), r.wantSRDOps(dev))
		if err != nil {
			return nil, err
		}
	}
	if err := dev.askSendOps(&r.QPOptions, path, init); err != nil {
		return nil, err
	}
	return init, errors.Join(r.Raw.request(dev, path, r.Type, init), dev.checkWQESum())
}

// explain returns the error of a failure to create the object.
func (r *qpRequest) explain(err error, init *abi.QPInitAttrEx) error {
	dev := r.pd.dev
	err = dev.explainSendOps(dev.explainType(dev.lacking(err), r.Type), r.SendOps)
	err = r.maker.explainSizes(err, r.pd, &r.QPOptions, r.send, r.recv, init)
	return &OpError{Op: opCreateQP, Object: dev.Name(), Detail: r.describe(),
		Err: dev.usedUp(err, "QPs", dev.attr.MaxQP)}
}

// object returns the QP of the object h, without rings. out means that its completions carry no payloads.
func (r *qpRequest) object(h uintptr, init *abi.QPInitAttrEx, out bool) *QP {
	dev, path := r.pd.dev, r.send.path
	qp := newQP(dev, h, r.Type, r.maker, r.send.pathWhy)
	qp.pd, qp.send, qp.recv, qp.srq, qp.cap = r.pd, r.send, r.recv, r.SRQ, grantedCap(&init.Cap)
	qp.sq.ops, qp.sq.naming, qp.sq.signalAll = r.opcodes(dev, path, &r.maker), namingOps(r.Type, path), r.SignalAll
	qp.sq.onlySendOps, qp.sq.maxTSOHeader = r.onlySendOps, r.Raw.MaxTSOHeader
	qp.sq.frameHead = dev.frameHead(r.Type)
	qp.inCQE = carries(r.Type, r.SignalAll, r.maker.mlx5.ScatterToCQE, out)
	qp.sq.mu.Off, qp.rq.mu.Off = r.SingleThreaded, r.SingleThreaded
	return qp
}

// takeRings gives the QP's rings to an engine.
func takeRings(qp *QP, r *qpRequest, undo *undoing) error {
	switch path := r.send.path; {
	case path == DataPathDirect:
		return qp.takeQP(r.SignalAll)
	case path == DataPathRaw, r.Type == DCT:
		return nil
	}
	return makeChains(qp, r, undo)
}

// makeChains prepares the ops engine.
func makeChains(qp *QP, r *qpRequest, undo *undoing) (err error) {
	table := qp.dev.table
	qp.sq.chain, err = ops.NewSendChain(table, qp.handle, qp.cap.MaxSendWR, qp.cap.MaxSendSGE, qp.cap.MaxInline)
	if err != nil {
		return err
	}
	undo.add(qp.sq.chain.Free)
	qp.sq.prepareOps()
	if r.Type == XRCSend {
		qp.sq.chain.XRC()
	}
	switch {
	case r.maker.Poster != nil:
		err = qp.sq.postBy(&r.maker)
	case r.SendOps != 0:
		err = qp.sq.extend()
	}
	if err == nil && qp.sq.maxTSOHeader > 0 {
		err = qp.sq.chain.Headers(qp.sq.maxTSOHeader)
	}
	if err == nil && qp.sq.ops&work.WithFields(work.WholeWQE) != 0 {
		err = qp.sq.chain.WQEs()
	}
	if err != nil || r.SRQ != nil || r.Type == XRCSend || r.Type == DCI {
		return err
	}
	qp.rq.chain, err = ops.NewRecvChain(table.PostRecv, qp.handle, qp.cap.MaxRecvWR, qp.cap.MaxRecvSGE)
	return err
}

func (o *QPOptions) check(pd *PD, send, recv *CQ) error {
	errs := append(make([]error, 0, 8), o.checkXRC(recv))
	for _, l := range o.limits(&pd.dev.attr) {
		errs = append(errs, checkNone(l.what, l.asked))
	}
	for _, c := range []struct {
		name string
		cq   *CQ
	}{{"send CQ", send}, {"recv CQ", recv}} {
		switch {
		case c.cq == nil && c.name == "recv CQ" && o.Type == XRCSend:
		case c.cq == nil:
			errs = append(errs, &ArgError{Arg: c.name, Got: "nil", Want: "a CQ of the same Device"})
		case c.cq.dev != pd.dev:
			errs = append(errs, &ArgError{Arg: c.name, Got: "a CQ of another Device", Want: "a CQ of the same Device"})
		}
	}
	if o.SRQ != nil && o.SRQ.pd.dev != pd.dev {
		errs = append(errs, &ArgError{Arg: "SRQ", Got: "an SRQ of another Device", Want: "an SRQ of the same Device"})
	}
	return errors.Join(errs...)
}

// checkXRC reports what XRC does not have.
func (o *QPOptions) checkXRC(recv *CQ) error {
	switch {
	case o.Type == XRCRecv:
		return &ArgError{Arg: "Type", Got: "XRCRecv", Want: "a type with a PD: XRCD.CreateQP makes an XRCRecv QP"}
	case o.Type == XRCSend && recv != nil:
		return &ArgError{Arg: "recv CQ", Got: "a CQ", Want: "nil with XRCSend, which receives nothing"}
	case o.Type == XRCSend && o.SRQ != nil:
		return &ArgError{Arg: "SRQ", Got: "set", Want: "nil with XRCSend, which receives nothing"}
	case o.SRQ != nil && o.SRQ.typ == SRQXRC:
		return &ArgError{Arg: "SRQ", Got: "an XRC SRQ", Want: "a basic one: peers name an XRC SRQ in each message, " +
			"and reach it through a QP of XRCD.CreateQP"}
	}
	return nil
}

// CreateQP makes a queue pair in state RESET; opt may be nil. The two CQs may be the same. Cap has the granted sizes,
// at least the requested ones but for inline data: no attribute limits it, and devices such as mana_ib's grant none.
//
// C: ibv_create_qp(3).
func (pd *PD) CreateQP(send, recv *CQ, opt *QPOptions) (*QP, error) {
	return pd.createQP(send, recv, opt,
		qpMaker{Pair: pd.dev.pair(pd.dev.createQP, nil), createOut: pd.dev.createOut})
}
