package ibv

import (
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/life"
	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/ops"
)

const knownWQFlags = WQPadWrites<<1 - 1

// WQ is a work queue: a receive queue that belongs to no QP. Several of them in an RWQIndTable
// receive the frames of an RSS QP, each frame in the WQ that a hash of its headers chooses.
//
// It belongs to its PD and its CQ. Methods are safe for concurrent use, unless the option
// SingleThreaded forgoes that. The QPN of its completions is 0 or, on mlx5, the tag of the steering
// rule.
//
// C: struct ibv_wq.
type WQ struct {
	node
	pd     *PD
	cq     *CQ
	handle uintptr
	num    uint32
	cap    WQCap

	errGone  error
	errFull  error
	errReset error

	mu     lock
	state  WQState
	chain  *ops.RecvChain // nil once closed, or on the direct data path
	direct *mlx5.RQ
}

// WQCap is the size of a WQ.
type WQCap struct {
	MaxWR  int // receives outstanding
	MaxSGE int // entries in one
}

// WQOptions are the options of CreateWQ.
type WQOptions struct {
	MaxWR  int     // 0 means 128
	MaxSGE int     // 0 means 1
	Flags  WQFlags // what the WQ does with frames

	// SingleThreaded takes no lock: only one goroutine at a time may use the WQ, including Close.
	SingleThreaded bool
}

// CreateWQ makes a receive queue in the state WQReset; opt may be nil. Modify brings it to WQReady.
// Its data path is that of cq. On the direct data path the CQ takes one WQ and nothing else, because
// completions do not name it.
//
// C: ibv_create_wq(3).
func (pd *PD) CreateWQ(cq *CQ, opt *WQOptions) (*WQ, error) {
	return pd.createWQ("create wq", cq, opt, func(attr *abi.WQInitAttr) (uintptr, error) {
		return pd.dev.v.CreateWQ(pd.dev.handle, attr)
	})
}

func (pd *PD) createWQ(op string, cq *CQ, opt *WQOptions, create func(*abi.WQInitAttr) (uintptr, error)) (*WQ, error) {
	if opt == nil {
		opt = &WQOptions{}
	}
	d, name := pd.dev, pd.dev.Name()
	fail := func(err error) (*WQ, error) { return nil, &OpError{Op: op, Object: name, Err: err} }
	wr := numWQWR.of(&d.attr, orDefault(opt.MaxWR, usualWR(d.attr.MaxQPWR)))
	sge := numWQSGE.of(&d.attr, orDefault(opt.MaxSGE, 1))
	err := errors.Join(opt.check(pd, cq), fitOptional(name, wr, sge))
	if err == nil && wr.asked == 0 {
		err = &ArgError{Arg: "max_wr", Got: "0", Want: fmt.Sprintf("1 to %d", wr.most)}
	}
	if err != nil {
		return fail(err)
	}
	nodes := []*node{&pd.node, &cq.node}
	if err := enterAll(op, nodes...); err != nil {
		return nil, err
	}
	defer leaveAll(nodes...)
	if cq.path == DataPathDirect {
		d.direct.mu.Lock() // no QP is made on the CQ meanwhile
		defer d.direct.mu.Unlock()
		if err := cq.roomForWQ(); err != nil {
			return fail(err)
		}
	}
	init := &abi.WQInitAttr{WQType: abi.IBV_WQT_RQ, MaxWR: uint32(wr.asked), MaxSGE: uint32(sge.asked), PD: pd.handle,
		CQ: cq.handle}
	if opt.Flags != 0 {
		init.CompMask, init.CreateFlags = abi.IBV_WQ_INIT_ATTR_FLAGS, uint32(opt.Flags)
	}
	h, err := create(init)
	if err != nil {
		return fail(explainLimits(d.blameSignatures("MLX5_RWQ_SIGNATURE", d.explainWQ(err, opt.Flags)), name, wr, sge))
	}
	w := &WQ{pd: pd, cq: cq, handle: h, num: pd.dev.v.WQNumber(h), state: WQReset,
		cap: WQCap{granted(init.MaxWR), granted(init.MaxSGE)}}
	w.mu.Off = opt.SingleThreaded || pd.td != nil
	undo := undoing{func() error { return d.v.DestroyWQ(d.handle, h) }}
	err = checkGranted(name, grant{wr, w.cap.MaxWR}, grant{sge, w.cap.MaxSGE})
	if err == nil {
		err = w.takeRing()
	}
	if err != nil {
		return fail(undo.after(err))
	}
	w.finish(nodes...)
	return w, nil
}

// takeRing gives the WQ's ring to an engine.
func (w *WQ) takeRing() (err error) {
	switch w.cq.path {
	case DataPathDirect:
		err = w.takeWQ()
	case DataPathOps:
		w.chain, err = ops.NewRecvChain(ops.WQPostRecv(w.handle), w.handle, w.cap.MaxWR, w.cap.MaxSGE)
	}
	return err
}

// finish makes the WQ an open child of parents.
func (w *WQ) finish(parents ...*node) {
	w.node.initNumbered("wq", w.pd.dev.Name(), parents...)
	w.errGone = &OpError{Op: opPostWQ, Object: w.name, Err: goneOf(w.cq.path)}
	w.errFull = &OpError{Op: opPostWQ, Object: w.name, Err: ErrQueueFull}
	w.errReset = &OpError{Op: opPostWQ, Object: w.name, Err: errInvalid,
		Detail: "the wq is in state Reset: Modify it to WQReady first"}
	w.pd.dev.register(w.handle, w)
	life.Watch(w, &w.life)
}

const opPostWQ = "post wq recv"

func (o *WQOptions) check(pd *PD, cq *CQ) error {
	switch {
	case cq == nil:
		return &ArgError{Arg: "cq", Got: "nil", Want: "a CQ of the same Device"}
	case cq.dev != pd.dev:
		return &ArgError{Arg: "cq", Got: "a CQ of another Device", Want: "a CQ of the same Device"}
	case o.Flags&^knownWQFlags != 0:
		return &ArgError{Arg: "Flags", Got: o.Flags.String(), Want: "those of " + WQFlags(knownWQFlags).String()}
	}
	ex := pd.dev.attr.Ex
	if ex == nil {
		return nil
	}
	for _, f := range []struct {
		flag WQFlags
		caps RawPacketCaps
	}{{WQStripVLAN, RawVLANStripping}, {WQScatterFCS, RawScatterFCS}, {WQDelayDrop, RawDelayDrop}} {
		if o.Flags&f.flag != 0 && ex.RawPacketCaps&f.caps == 0 {
			return &UnsupportedError{Feature: f.flag.String() + " of a WQ",
				Need: "a device with " + f.caps.String() + " among its RawPacketCaps",
				Have: pd.dev.Name() + " with " + ex.RawPacketCaps.String()}
		}
	}
	return nil
}

// explainWQ returns what a WQ needs.
func (d *Device) explainWQ(err error, f WQFlags) error {
	lack := UnsupportedError{Feature: "a WQ", Need: "a device with MaxWQTypeRQ above 0, such as mlx5 on Ethernet",
		Have: d.Name() + "; use QPs of type RawPacket, with a steering rule for each"}
	if f != 0 && d.attr.Ex != nil && d.attr.Ex.MaxWQTypeRQ > 0 {
		lack = UnsupportedError{Feature: "a WQ with " + f.String(), Need: "a device with it", Have: d.Name()}
	}
	return d.v.explainFrames(err, "a WQ", lack)
}

// PD returns the protection domain of the WQ.
func (w *WQ) PD() *PD { return w.pd }

// CQ returns the CQ on which its receives complete.
func (w *WQ) CQ() *CQ { return w.cq }

// Num returns the number that the device gave the WQ.
func (w *WQ) Num() uint32 { return w.num }

// Cap returns the size of the WQ, as granted.
func (w *WQ) Cap() WQCap { return w.cap }

// DataPath returns the engine of the WQ, which is that of its CQ, and why it was selected.
func (w *WQ) DataPath() (DataPath, string) { return w.cq.path, w.cq.pathWhy }

// State returns the state that Modify last gave the WQ. After EventWQFatal the device's is WQError.
func (w *WQ) State() WQState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// PostRecv posts receives, in the states WQReady and WQError. See QP.PostRecv. It does not allocate.
//
// C: ibv_post_wq_recv(3).
func (w *WQ) PostRecv(wrs []RecvWR) (int, error) {
	w.mu.Lock()
	n := 0
	if d := w.direct; d != nil && w.state != WQReset {
		if n = d.Run(firstRecv(wrs), len(wrs)); n == len(wrs) && n > 0 {
			w.mu.Unlock()
			return n, nil
		}
	}
	return w.postRest(wrs, n)
}

// postRest posts what the direct data path does not take in one run. Of that it has posted n.
// Preconditions: w.mu is held, and is given back.
func (w *WQ) postRest(wrs []RecvWR, n int) (int, error) {
	var err error
	switch {
	case w.direct == nil && w.chain == nil:
		err = w.errGone
	case w.state == WQReset:
		err = w.errReset
	case w.direct == nil:
		n, err = postRecv(w.chain, w.cap.MaxSGE, wrs)
	default:
		if n += w.direct.Post(mlx5Recvs(wrs[n:])); n < len(wrs) {
			err = recvError(&wrs[n], w.cap.MaxSGE)
		}
	}
	w.mu.Unlock()
	switch err {
	case nil, w.errGone, w.errReset:
		return n, err
	case ErrQueueFull:
		return n, w.errFull
	}
	return n, &OpError{Op: opPostWQ, Object: w.name, Err: err, Detail: fmt.Sprintf("work request %d", n)}
}

// Close destroys the WQ; it fails with a *BusyError while an RWQIndTable uses it. On the direct data
// path its completions go with it, elsewhere those that were not polled may stay.
//
// C: ibv_destroy_wq(3).
func (w *WQ) Close() error {
	var c *ops.RecvChain
	d := w.pd.dev
	return w.node.close(func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.cq.mu.Lock() // a ring that is being freed has no readers
		defer w.cq.mu.Unlock()
		if err := d.v.DestroyWQ(d.handle, w.handle); err != nil {
			return err
		}
		if w.direct != nil {
			w.cq.direct.ring.DropWQ()
			w.cq.queues.wq = nil
		}
		d.unregister(w.handle)
		c, w.chain, w.direct = w.chain, nil, nil
		return nil
	}, func() error { return c.Free() })
}
