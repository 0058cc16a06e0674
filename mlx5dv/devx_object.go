package mlx5dv

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/level"
	"github.com/pureverbs/pureverbs/internal/life"
)

// DevXObject is an object that a command made. Its number is in the answer of that command.
//
// It belongs to its Device. Close destroys it; if the device refuses, because another object uses
// it, it stays open.
//
// C: struct mlx5dv_devx_obj.
type DevXObject struct{ node }

// CreateDevXObject makes an object by a command, such as CREATE_MKEY or ALLOC_PD. out is room for
// the answer and is overwritten. If the device refuses, the error is a *CommandError.
//
// C: mlx5dv_devx_obj_create(3).
func CreateDevXObject(dev *ibv.Device, in, out []byte) (*DevXObject, error) {
	c, o := begin(dev, "mlx5dv create devx object"), new(DevXObject)
	return create(c, o, &o.node, "devx object", func() (h uintptr, err error) {
		err = command(dev, in, out, func() (err error) {
			h, err = c.lib.DevXObjCreate(c.handle, in, out)
			return err
		})
		return h, err
	})
}

// Query asks the device about the object by a command. out is room for the answer and is overwritten.
//
// C: mlx5dv_devx_obj_query(3).
func (o *DevXObject) Query(in, out []byte) error {
	return o.command("mlx5dv query devx object", in, out, o.lib.DevXObjQuery)
}

// Modify changes the object by a command. out is room for the answer and is overwritten.
//
// C: mlx5dv_devx_obj_modify(3).
func (o *DevXObject) Modify(in, out []byte) error {
	return o.command("mlx5dv modify devx object", in, out, o.lib.DevXObjModify)
}

func (o *DevXObject) command(op string, in, out []byte, do func(obj uintptr, in, out []byte) error) error {
	return o.do(op, func() error {
		return command(o.dev, in, out, func() error { return do(o.handle, in, out) })
	})
}

// Close destroys the object.
//
// C: mlx5dv_devx_obj_destroy(3).
func (o *DevXObject) Close() error { return o.destroy(o.lib.DevXObjDestroy) }

// Commandable lists the objects that DevXQuery and DevXModify accept.
type Commandable interface {
	*ibv.QP | *ibv.CQ | *ibv.SRQ | *ibv.WQ | *ibv.RWQIndTable
}

// DevXQuery asks the device about an object by a command, such as QUERY_QP. The command names
// the object by its number. out is room for the answer and is overwritten.
//
// C: mlx5dv_devx_qp_query(3) and its like.
func DevXQuery[T Commandable](obj T, in, out []byte) error {
	return onVerbs("mlx5dv devx query", any(obj), in, out, control.MLX5.DevXQPQuery, control.MLX5.DevXCQQuery,
		control.MLX5.DevXSRQQuery, control.MLX5.DevXWQQuery, control.MLX5.DevXIndTblQuery)
}

// DevXModify changes an object by a command, such as RTS2RTS_QP. The command names the object
// by its number. out is room for the answer and is overwritten. A command that changes a QP's state
// does so behind the back of ibv: QP.Query returns it.
//
// C: mlx5dv_devx_qp_modify(3) and its like.
func DevXModify[T Commandable](obj T, in, out []byte) error {
	const op = "mlx5dv devx modify"
	if qp, is := any(obj).(*ibv.QP); is && qp != nil && verbs.HasFault(qp.Device(), level.DevXState) {
		if path, _ := qp.DataPath(); path == ibv.DataPathOps {
			return opError(op, qp.Device().Name(), verbs.Without(qp.Device(), "a command for a QP of the ops data path",
				"a libmlx5 that posts afterwards", "v41"))
		}
	}
	return onVerbs(op, any(obj), in, out, control.MLX5.DevXQPModify, control.MLX5.DevXCQModify,
		control.MLX5.DevXSRQModify, control.MLX5.DevXWQModify, control.MLX5.DevXIndTblModify)
}

type verbsCommand func(lib control.MLX5, obj uintptr, in, out []byte) error

func onVerbs(op string, obj any, in, out []byte, qp, cq, srq, wq, table verbsCommand) error {
	var ref life.Ref
	var dev *ibv.Device
	var do verbsCommand
	switch o := obj.(type) {
	case *ibv.QP:
		do = qp
		ref, dev = verbs.Ref(o)
	case *ibv.CQ:
		do = cq
		ref, dev = verbs.Ref(o)
	case *ibv.SRQ:
		do = srq
		ref, dev = verbs.Ref(o)
	case *ibv.WQ:
		do = wq
		ref, dev = verbs.Ref(o)
	case *ibv.RWQIndTable:
		do = table
		ref, dev = verbs.Ref(o)
	}
	return onObject(op, "obj", "an open object", ref, dev, func(c *call, h uintptr) error {
		c.object = ref.Name
		return command(dev, in, out, func() error { return do(c.lib, h, in, out) })
	})
}

// devx enters an object of DevX.
func (c *call) devx(o *DevXObject) (uintptr, error) {
	if o == nil {
		return 0, &ibv.ArgError{Arg: "object", Got: "nil", Want: "an open DevXObject"}
	}
	return o.handle, c.use(&o.node, "object")
}
