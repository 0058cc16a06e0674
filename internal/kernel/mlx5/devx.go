package mlx5

import "github.com/pureverbs/pureverbs/internal/kernel/uverbs"

// Objects and methods of the driver. C: enum mlx5_ib_objects and its like, of rdma/mlx5_user_ioctl_cmds.h.
const (
	objectDevX    = driverNamespace
	objectObj     = driverNamespace + 1
	objectUmem    = driverNamespace + 2
	objectMatcher = driverNamespace + 3
	objectAnswers = driverNamespace + 4
	objectEvents  = driverNamespace + 5
	objectVAR     = driverNamespace + 6
	objectPP      = driverNamespace + 7
	objectAnchor  = driverNamespace + 9

	devxQueryUAR  = driverNamespace + 1
	devxQueryEQN  = driverNamespace + 2
	devxSubscribe = driverNamespace + 3

	// Objects have these methods in this order.
	methodCreate     = driverNamespace
	methodDestroy    = driverNamespace + 1
	methodModify     = driverNamespace + 2
	methodQuery      = driverNamespace + 3
	methodQueryAsync = driverNamespace + 4

	attr0 = driverNamespace // the first attribute of a method
)

// devX sends commands to the firmware, and makes what they refer to.
type devX struct{ v *Verbs }

// drop ends an object of the driver's kinds.
func (c *context) drop(command string, kind uint16, number uint32) error {
	_, err := c.finish(command, c.file.Method(command, kind, methodDestroy, uverbs.Handle(attr0, number)))
	return err
}

// creates makes an object of the driver's kinds. check looks at the answer; if it returns an error, the object ends.
func (c *context) creates(command string, kind uint16, number *uint32, check func() error, args ...uverbs.Arg) error {
	err := c.file.Method(command, kind, methodCreate, append([]uverbs.Arg{uverbs.New(attr0, number)}, args...)...)
	if err != nil {
		return unsupported(err)
	}
	if err := check(); err != nil {
		return also(err, c.drop(command, kind, *number))
	}
	return nil
}

func unchecked() error { return nil }

// obj makes an object by a command.
func (c *context) obj(in, out []byte) (o obj, err error) {
	o.kernelObject = newKernelObject(c)
	err = c.creates("devx_obj_create", objectObj, &o.number, unchecked, uverbs.In(attr0+1, in), uverbs.Out(attr0+2, out))
	return o, err
}

// about sends a command about an object of the kernel, which may be one of verbs.
func (c *context) about(method uint16, number uint32, in, out []byte) error {
	name := "devx_obj_query"
	if method == methodModify {
		name = "devx_obj_modify"
	}
	return unsupported(c.command(name, method, number, in, out))
}

func (o *obj) modify(in, out []byte) error { return o.c.about(methodModify, o.number, in, out) }

func (o *obj) end() error { return o.c.drop("devx_obj_destroy", objectObj, o.number) }

// DevXObjCreate makes an object by a command.
func (d *devX) DevXObjCreate(ctx handle, in, out []byte) (handle, error) {
	c, err := get[context](d.v, ctx)
	if err != nil {
		return 0, err
	}
	o, err := c.obj(in, out)
	if err != nil {
		return 0, err
	}
	o.handle = d.v.table.add(&o)
	return o.handle, nil
}

// DevXObjQuery asks about an object by a command.
func (d *devX) DevXObjQuery(h handle, in, out []byte) error {
	o, err := get[obj](d.v, h)
	if err != nil {
		return err
	}
	return o.c.about(methodQuery, o.number, in, out)
}

// DevXObjModify changes an object by a command.
func (d *devX) DevXObjModify(h handle, in, out []byte) error {
	o, err := get[obj](d.v, h)
	if err != nil {
		return err
	}
	return o.modify(in, out)
}

// DevXObjDestroy ends an object.
func (d *devX) DevXObjDestroy(h handle) error {
	return ends(d.v, h, (*obj).end)
}

// ends ends an object and removes it from the table.
func ends[T any](v *Verbs, h handle, end func(*T) error) error {
	o, err := get[T](v, h)
	if err != nil {
		return err
	}
	if err := end(o); err != nil {
		return err
	}
	v.table.remove(h)
	return nil
}

// numbered is an object of verbs that a command can be about.
type numbered interface {
	context() *context
	kernelNumber() uint32
}

func (q *qp) kernelNumber() uint32       { return q.kernel }
func (q *cq) kernelNumber() uint32       { return q.kernel }
func (s *srq) kernelNumber() uint32      { return s.kernel }
func (w *wq) kernelNumber() uint32       { return w.kernel }
func (t *indTable) kernelNumber() uint32 { return t.number }

// onVerbs sends a command about an object of verbs of type T.
func onVerbs[T any, P interface {
	*T
	numbered
}](d *devX, method uint16, h handle, in, out []byte) error {
	o, err := get[T](d.v, h)
	if err != nil {
		return err
	}
	return P(o).context().about(method, P(o).kernelNumber(), in, out)
}

// DevXQPQuery asks about a QP by a command.
func (d *devX) DevXQPQuery(h handle, in, out []byte) error {
	return onVerbs[qp](d, methodQuery, h, in, out)
}

// DevXQPModify changes a QP by a command.
func (d *devX) DevXQPModify(h handle, in, out []byte) error {
	return onVerbs[qp](d, methodModify, h, in, out)
}

// DevXCQQuery asks about a CQ by a command.
func (d *devX) DevXCQQuery(h handle, in, out []byte) error {
	return onVerbs[cq](d, methodQuery, h, in, out)
}

// DevXCQModify changes a CQ by a command.
func (d *devX) DevXCQModify(h handle, in, out []byte) error {
	return onVerbs[cq](d, methodModify, h, in, out)
}

// DevXSRQQuery asks about an SRQ by a command.
func (d *devX) DevXSRQQuery(h handle, in, out []byte) error {
	return onVerbs[srq](d, methodQuery, h, in, out)
}

// DevXSRQModify changes an SRQ by a command.
func (d *devX) DevXSRQModify(h handle, in, out []byte) error {
	return onVerbs[srq](d, methodModify, h, in, out)
}

// DevXWQQuery asks about a WQ by a command.
func (d *devX) DevXWQQuery(h handle, in, out []byte) error {
	return onVerbs[wq](d, methodQuery, h, in, out)
}

// DevXWQModify changes a WQ by a command.
func (d *devX) DevXWQModify(h handle, in, out []byte) error {
	return onVerbs[wq](d, methodModify, h, in, out)
}

// DevXIndTblQuery asks about an indirection table by a command.
func (d *devX) DevXIndTblQuery(h handle, in, out []byte) error {
	return onVerbs[indTable](d, methodQuery, h, in, out)
}

// DevXIndTblModify changes an indirection table by a command.
func (d *devX) DevXIndTblModify(h handle, in, out []byte) error {
	return onVerbs[indTable](d, methodModify, h, in, out)
}

// DevXQueryEQN returns the number of the event queue behind a completion vector.
func (d *devX) DevXQueryEQN(ctx handle, vector uint32) (uint32, error) {
	c, err := get[context](d.v, ctx)
	if err != nil {
		return 0, err
	}
	eqn := new(uint32)
	err = c.file.Method("devx_query_eqn", objectDevX, devxQueryEQN, uverbs.Uint32(attr0, vector),
		uverbs.Out(attr0+1, uverbs.Bytes(eqn)))
	return *eqn, unsupported(err)
}

// PPAlloc makes an entry of the table of rates.
func (d *devX) PPAlloc(ctx handle, rate []byte, flags uint32) (handle, uint16, error) {
	c, err := get[context](d.v, ctx)
	if err != nil {
		return 0, 0, err
	}
	p, index := &pace{newKernelObject(c)}, new(uint16)
	err = c.creates("pp_alloc", objectPP, &p.number, unchecked, uverbs.In(attr0+1, rate),
		uverbs.Uint64(attr0+2, uint64(flags)), uverbs.Out(attr0+3, uverbs.Bytes(index)))
	if err != nil {
		return 0, 0, err
	}
	p.handle = d.v.table.add(p)
	return p.handle, *index, nil
}

// PPFree gives an entry back.
func (d *devX) PPFree(h handle) error {
	return ends(d.v, h, func(p *pace) error { return p.c.drop("pp_destroy", objectPP, p.number) })
}

func newKernelObject(c *context) kernelObject { return kernelObject{object: object{c: c}} }

// general sends a command that is about no object.
func (c *context) general(in, out []byte) error {
	const object, method, attr = driverNamespace, driverNamespace, driverNamespace
	return c.file.Method("devx_other", object, method, uverbs.In(attr, in), uverbs.Out(attr+1, out))
}
