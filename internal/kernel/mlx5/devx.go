package mlx5

import "github.com/pureverbs/pureverbs/internal/kernel/uverbs"

// devX sends commands to the firmware, and makes what they refer to.
type devX struct{ v *Verbs }

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
	return d.v.table.add(&o), nil
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
	err = c.creates("pp_alloc", objectPP, &p.number, uverbs.In(attr0+1, rate),
		uverbs.Uint64(attr0+2, uint64(flags)), uverbs.Out(attr0+3, uverbs.Bytes(index)))
	if err != nil {
		return 0, 0, err
	}
	return d.v.table.add(p), *index, nil
}

// PPFree gives an entry back.
func (d *devX) PPFree(h handle) error {
	return ends(d.v, h, func(p *pace) error { return p.c.drop("pp_destroy", objectPP, p.number) })
}
