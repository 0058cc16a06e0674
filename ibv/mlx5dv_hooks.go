package ibv

import (
	"context"
	"fmt"
	"os"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/hook"
)

func init() {
	hook.Enter = enterObject
	hook.Direct = func(ctx any) error { return ctx.(*Device).directError() }
	hook.CreateCQ = func(ctx any, cqe int, opt any, create func(uintptr, *abi.CQInitAttrEx) (uintptr, error)) (any, error) {
		return ctx.(*Device).createCQ(cqe, opt.(*CQOptions), create)
	}
	hook.ChoosePath = func(ctx, opt any) (any, error) {
		path, _, err := chooseDataPath(opt.(*CQOptions).DataPath, os.Getenv(DataPathEnv), ctx.(*Device).directError)
		return path, err
	}
	hook.Half = func(qp any) *uintptr {
		if td := qp.(*QP).pd.td; td != nil && !shutUpBF() {
			return &td.half
		}
		return nil
	}
	hook.Events = func(cq any) uint32 { return cq.(*CQ).events.Load() }
	hook.WaitEvent = func(cq any, ctx context.Context, seen uint32) error { return cq.(*CQ).waitEvent(ctx, seen) }
}

func enterObject(obj any, op string) (uintptr, func(), error) {
	var n *node
	var h uintptr
	switch o := obj.(type) {
	case *Device:
		n, h = &o.node, o.handle
	case *PD:
		n, h = &o.node, o.handle
	case *CQ:
		n, h = &o.node, o.handle
	case *QP:
		n, h = &o.node, o.handle
	case *SRQ:
		n, h = &o.node, o.handle
	default:
		return 0, nil, &OpError{Op: op, Err: &ArgError{Arg: "object", Got: fmt.Sprintf("%T", obj), Want: "one of package ibv"}}
	}
	if err := n.enter(op); err != nil {
		return 0, nil, err
	}
	return h, n.leave, nil
}

// waitEvent sleeps until the CQ had more events than seen.
func (cq *CQ) waitEvent(ctx context.Context, seen uint32) error {
	const op = "wait for event"
	if cq.channel == nil {
		return &OpError{Op: op, Object: cq.name, Err: &ArgError{Arg: "CQ", Got: "one without a channel (CQOptions.NoEvents)", Want: "one with a channel"}}
	}
	w := cq.join()
	defer cq.part(w)
	for cq.events.Load() == seen {
		select {
		case <-w.ch:
		case <-cq.done:
			return &OpError{Op: op, Object: cq.name, Err: ErrClosed}
		case <-cq.channel.stop:
			return &OpError{Op: op, Object: cq.name, Err: cq.channel.err, Detail: "the completion channel failed"}
		case <-cq.dev.removed.ch:
			return &OpError{Op: op, Object: cq.name, Err: cq.dev.removed.err}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
