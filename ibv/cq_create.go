package ibv

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/life"
	"github.com/pureverbs/pureverbs/internal/ops"
)

// CreateCQ makes a CQ for at least cqe completions; opt may be nil.
//
// C: ibv_create_cq(3).
func (d *Device) CreateCQ(cqe int, opt *CQOptions) (*CQ, error) {
	return d.createCQ(cqe, opt, nil)
}

const opCreateCQ = "create cq"

// cqMaker makes the C object of a CQ where libibverbs does not.
type cqMaker func(dev uintptr, attr *abi.CQInitAttrEx) (uintptr, error)

func (d *Device) createCQ(cqe int, opt *CQOptions, maker cqMaker) (*CQ, error) {
	if opt == nil {
		opt = &CQOptions{}
	}
	if err := d.enter(opCreateCQ); err != nil {
		return nil, err
	}
	defer d.leave()
	fail := func(err error) (*CQ, error) { return nil, &OpError{Op: opCreateCQ, Object: d.Name(), Err: err} }
	path, why, err := d.choosePath(opt.DataPath, d.directFor(opt))
	if err == nil {
		err = opt.check(d, cqe)
	}
	if err != nil {
		return fail(err)
	}
	cq := &CQ{object: object{dev: d}, path: path, pathWhy: why, spin: opt.Spin, done: make(chan struct{}),
		fields: opt.Fields, solicited: opt.Solicited, entries: d.entries(), sleepers: sleepers{failed: newFailure()}}
	if maker == nil && cq.fields&^d.plainFields == 0 {
		cq.fields = 0
	}
	cq.mu.Off = opt.SingleThreaded
	if cq.spin == 0 {
		cq.spin = defaultSpin
	}
	var undo undoing
	leave, err := useChannel(cq, opt, &undo)
	if err != nil {
		return nil, err
	}
	defer leave()
	parents, channel := []*node{&d.node}, uintptr(0)
	if cq.channel != nil {
		parents, channel = append(parents, &cq.channel.node), cq.channel.handle
	}
	if cq.handle, err = d.makeCQ(cq, cqe, channel, opt.CompVector, maker); err != nil {
		return fail(undo.after(d.explainCQ(err, cqe)))
	}
	undo.add(func() error { return d.v.DestroyCQ(cq.handle) })
	cq.cqe = d.v.CQCapacity(cq.handle)
	err = checkGranted(d.Name(), grant{numCQE.of(&d.attr, cqe), cq.cqe})
	if err == nil {
		err = takeRing(cq)
	}
	if err != nil {
		return fail(undo.after(err))
	}
	finishCQ(cq, parents...)
	return cq, nil
}

// check reports what is wrong with the options.
func (o *CQOptions) check(d *Device, cqe int) error {
	if err := errors.Join(checkWCFields(o.Fields), checkNone("Spin", o.Spin)); err != nil {
		return err
	}
	if cqe < 1 {
		return &ArgError{Arg: "cqe", Got: fmt.Sprint(cqe), Want: fmt.Sprintf("1 to %d on this device", d.attr.MaxCQE)}
	}
	if err := fitInt(d.Name(), numCQE.of(&d.attr, cqe)); err != nil {
		return err
	}
	switch last := max(d.v.Context(d.handle).CompVectors, 1) - 1; {
	case o.CompVector < 0:
		return &ArgError{Arg: "comp_vector", Got: fmt.Sprint(o.CompVector), Want: fmt.Sprintf("0 to %d", last)}
	case o.CompVector > last:
		return &LimitError{What: "comp_vector", Asked: uint64(o.CompVector), Limit: uint64(last), Where: d.Name()}
	case !d.v.native && (d.table.PollCQ == 0 || d.table.ReqNotifyCQ == 0):
		return &UnsupportedError{Feature: "poll_cq", Need: "a provider that polls", Have: d.Name()}
	case o.Solicited && o.NoEvents:
		return &ArgError{Arg: "Solicited", Got: "true with NoEvents", Want: "a CQ with events"}
	case !o.NoEvents && o.Channel != nil && o.Channel.dev != d:
		return &ArgError{Arg: "Channel", Got: "a channel of " + o.Channel.dev.Name(),
			Want: "a channel of the same Device"}
	}
	return nil
}

// useChannel adds the CQ to its channel, unless it has none. leave ends the use of the program's channel.
func useChannel(cq *CQ, opt *CQOptions, undo *undoing) (leave func(), err error) {
	leave = func() {}
	switch {
	case opt.NoEvents:
		return leave, nil
	case opt.Channel != nil:
		if err := opt.Channel.enter(opCreateCQ); err != nil {
			return nil, err
		}
		leave, cq.channel = opt.Channel.leave, opt.Channel
	default:
		if cq.channel, err = cq.dev.ownChannel(); err != nil {
			return nil, err
		}
	}
	cq.cookie = cq.channel.add(cq)
	undo.add(func() error {
		cq.channel.remove(cq)
		return nil
	})
	return leave, nil
}

// takeRing gives the CQ's ring to an engine.
func takeRing(cq *CQ) (err error) {
	switch cq.path {
	case DataPathDirect:
		cq.direct.live, err = cq.dev.takeCQ(cq.handle)
		cq.direct.ring, cq.direct.fast = cq.direct.live, cq.direct.live
	case DataPathRaw:
		_, err = cq.dev.direct.dv.InitCQ(cq.handle) // from here on libmlx5 leaves it alone
	case DataPathOps:
		if cq.fields == 0 {
			cq.ops.poller, err = ops.NewPoller(cq.dev.table, cq.handle)
		}
	}
	if err == nil && cq.fields != 0 {
		err = cq.initFields()
	}
	return err
}

// finishCQ makes the CQ an open child of parents.
func finishCQ(cq *CQ, parents ...*node) {
	if cq.channel != nil {
		cq.channel.know(cq) // its reader uses what was set until here
	}
	cq.node.initNumbered("cq", cq.dev.Name(), parents...)
	cq.errGone = &OpError{Op: "poll cq", Object: cq.name, Err: ErrClosed}
	if cq.path == DataPathRaw {
		cq.errGone = &OpError{Op: "poll cq", Object: cq.name, Err: ErrRaw}
	}
	cq.errPoll = &OpError{Op: "poll cq", Object: cq.name, Err: ErrPoll}
	cq.dev.register(cq.handle, cq)
	life.Watch(cq, &cq.life)
}

// makeCQ makes the C object.
func (d *Device) makeCQ(cq *CQ, cqe int, channel uintptr, vector int, maker cqMaker) (uintptr, error) {
	attr := &abi.CQInitAttrEx{CQE: uint32(cqe), CQContext: cq.cookie, Channel: channel, CompVector: uint32(vector),
		WCFlags: cq.wcFlags()}
	single := cq.mu.Off && cq.path == DataPathOps
	if single {
		attr.CompMask, attr.Flags = abi.IBV_CQ_INIT_ATTR_MASK_FLAGS, abi.IBV_CREATE_CQ_ATTR_SINGLE_THREADED
	}
	if maker != nil {
		h, err := maker(d.handle, attr)
		return h, cq.explainFields(err)
	}
	if single {
		h, err := d.v.CreateCQEx(d.handle, attr)
		// It is a hint: a provider that does not know it keeps its lock.
		if !unsupported(err) && !errors.Is(err, syscall.EINVAL) {
			return h, err
		}
		attr.CompMask, attr.Flags = 0, 0
	}
	if cq.fields != 0 {
		h, err := d.v.CreateCQEx(d.handle, attr)
		return h, cq.explainFields(err)
	}
	return d.v.CreateCQ(d.handle, cqe, cq.cookie, channel, vector)
}

// explainCQ adds to the refusal of a CQ what may be its reason.
func (d *Device) explainCQ(err error, cqe int) error {
	err = explainLimits(d.explainCQEnv(err), d.Name(), numCQE.of(&d.attr, cqe))
	return d.usedUp(err, "CQs", d.attr.MaxCQ)
}
