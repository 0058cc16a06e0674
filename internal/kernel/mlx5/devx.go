package mlx5

import "github.com/pureverbs/pureverbs/internal/kernel/uverbs"

// DevXObjCreate makes an object by a command.
func (c devX) DevXObjCreate(in, out []byte) (*obj, error) {
	o, err := c.obj(in, out)
	return &o, err
}

// DevXObjQuery asks about an object by a command.
func (o *obj) DevXObjQuery(in, out []byte) error { return o.c.about(methodQuery, o.number, in, out) }

// DevXObjModify changes an object by a command.
func (o *obj) DevXObjModify(in, out []byte) error { return o.modify(in, out) }

// DevXObjDestroy ends an object.
func (o *obj) DevXObjDestroy() error { return o.end() }

// Commands about objects of verbs.

func (q *qp) DevXQPQuery(in, out []byte) error    { return q.c.about(methodQuery, q.kernel, in, out) }
func (q *qp) DevXQPModify(in, out []byte) error   { return q.c.about(methodModify, q.kernel, in, out) }
func (q *cq) DevXCQQuery(in, out []byte) error    { return q.c.about(methodQuery, q.kernel, in, out) }
func (q *cq) DevXCQModify(in, out []byte) error   { return q.c.about(methodModify, q.kernel, in, out) }
func (s *srq) DevXSRQQuery(in, out []byte) error  { return s.c.about(methodQuery, s.kernel, in, out) }
func (s *srq) DevXSRQModify(in, out []byte) error { return s.c.about(methodModify, s.kernel, in, out) }
func (w *wq) DevXWQQuery(in, out []byte) error    { return w.c.about(methodQuery, w.kernel, in, out) }
func (w *wq) DevXWQModify(in, out []byte) error   { return w.c.about(methodModify, w.kernel, in, out) }

func (t *indTable) DevXIndTblQuery(in, out []byte) error {
	return t.c.about(methodQuery, t.number, in, out)
}

func (t *indTable) DevXIndTblModify(in, out []byte) error {
	return t.c.about(methodModify, t.number, in, out)
}

// DevXQueryEQN returns the number of the event queue behind a completion vector.
func (c devX) DevXQueryEQN(vector uint32) (uint32, error) {
	eqn := new(uint32)
	err := c.file.Method("devx_query_eqn", objectDevX, devxQueryEQN, uverbs.Uint32(attr0, vector),
		uverbs.Out(attr0+1, uverbs.Bytes(eqn)))
	return *eqn, unsupported(err)
}

// PPAlloc makes an entry of the table of rates.
func (c devX) PPAlloc(rate []byte, flags uint32) (*pace, uint16, error) {
	p, index := &pace{newKernelObject(c.context)}, new(uint16)
	err := c.creates("pp_alloc", objectPP, &p.number, uverbs.In(attr0+1, rate),
		uverbs.Uint64(attr0+2, uint64(flags)), uverbs.Out(attr0+3, uverbs.Bytes(index)))
	return p, *index, err
}

// PPFree gives an entry back.
func (p *pace) PPFree() error { return p.c.drop("pp_destroy", objectPP, p.number) }
