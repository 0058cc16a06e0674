package selftest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/mlx5dv"
)

// paths are the engines: that of libmlx5 first, because it is known to work on adapters.
var paths = []ibv.DataPath{ibv.DataPathOps, ibv.DataPathDirect}

// allAccess lets a peer do everything.
const allAccess = ibv.LocalWrite | ibv.RemoteWrite | ibv.RemoteRead | ibv.RemoteAtomic

// side is one end in a check: a device that is open, with memory and a CQ.
type side struct {
	*box
	end *End
	dev *ibv.Device
	pd  *ibv.PD
	cq  *ibv.CQ
	qp  *ibv.QP
	mr  *ibv.MR
}

// side opens end i. Two ends on one device are two contexts of it, as two programs have them.
func (b *box) side(i, memory int, path ibv.DataPath, cq *mlx5dv.CQOptions) *side {
	s := &side{box: b, end: &b.at[i]}
	s.dev = own(ibv.Open(s.end.Device))(b)
	s.pd = own(s.dev.AllocPD())(b)
	s.cq = s.newCQ(512, path, cq)
	s.mr = own(s.pd.AllocMR(memory, allAccess, nil))(b)
	return s
}

// newCQ makes a CQ with an engine; with options of mlx5 if there are some.
func (s *side) newCQ(n int, path ibv.DataPath, opt *mlx5dv.CQOptions) *ibv.CQ {
	if opt != nil {
		o := *opt
		o.DataPath = path
		return own(mlx5dv.CreateCQ(s.dev, n, &o))(s.box)
	}
	return own(s.dev.CreateCQ(n, &ibv.CQOptions{DataPath: path}))(s.box)
}

// newQP makes a QP on the CQ; with options of mlx5 if flags has some.
func (s *side) newQP(opt ibv.QPOptions, flags mlx5dv.QPCreateFlags) *ibv.QP {
	if flags != 0 {
		s.qp = own(mlx5dv.CreateQP(s.pd, s.cq, s.cq, &mlx5dv.QPOptions{QPOptions: opt, Flags: flags}))(s.box)
	} else {
		s.qp = own(s.pd.CreateQP(s.cq, s.cq, &opt))(s.box)
	}
	return s.qp
}

// address is that of a QP of this side.
func (s *side) address(qp *ibv.QP) ibv.Endpoint {
	return must(qp.Endpoint(uint8(s.end.Port), s.end.GIDIndex))(s.box)
}

// srq makes an SRQ with the engine of the CQ.
func (s *side) srq(wrs, sges int) *ibv.SRQ {
	path, _ := s.cq.DataPath()
	return own(s.pd.CreateSRQ(&ibv.SRQOptions{MaxWR: wrs, MaxSGE: sges, DataPath: path}))(s.box)
}

// connect connects two QPs.
func connect(a, b *side, qa, qb *ibv.QP, opt *ibv.ConnectOptions) {
	ea, eb := a.address(qa), b.address(qb)
	a.ok(qa.Connect(eb, opt))
	a.ok(qb.Connect(ea, opt))
}

// pairOptions are those of both ends, if not said otherwise.
type pairOptions struct {
	path    ibv.DataPath
	memory  int // bytes of each end
	cq      *mlx5dv.CQOptions
	qp      ibv.QPOptions
	flags   mlx5dv.QPCreateFlags
	srqSGEs int // b receives from an SRQ with so many SGEs; 0: from its own queue
	connect *ibv.ConnectOptions
}

// pair connects a QP of end 0, a, with one of end 1, b, which receives from q.
func (b *box) pair(o pairOptions) (x, y *side, q receiver) {
	x, y = b.side(0, o.memory, o.path, o.cq), b.side(1, o.memory, o.path, o.cq)
	other := o.qp
	if o.srqSGEs > 0 {
		other.SRQ, other.MaxRecvWR, other.MaxRecvSGE = y.srq(64, o.srqSGEs), 0, 0
		q = other.SRQ
	}
	connect(x, y, x.newQP(o.qp, o.flags), y.newQP(other, o.flags), o.connect)
	b.engine(x.qp)
	if q == nil {
		q = y.qp
	}
	return x, y, q
}

// engine records the engine of a QP.
func (b *box) engine(qp *ibv.QP) {
	p, why := qp.DataPath()
	b.check.DataPath = p.String()
	if why != "" {
		b.check.DataPath += ": " + why
	}
}

// patience is how long a check waits for a completion.
const patience = 20 * time.Second

// next waits for a completion.
func (s *side) next() ibv.WC {
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	var wc [1]ibv.WC
	if _, err := s.cq.Wait(ctx, wc[:]); errors.Is(err, context.DeadlineExceeded) {
		s.fail("%s: no completion in %v", s.end.Device, patience)
	} else if err != nil {
		s.fail("%s: %w", s.end.Device, err)
	}
	return wc[0]
}

// good waits for a completion, which must be of a work request and without an error.
func (s *side) good(id uint64) ibv.WC {
	wc := s.next()
	if err := wc.Err(); err != nil {
		s.fail("%s: %w", s.end.Device, err)
	}
	if wc.ID != id {
		s.fail("%s: completion of work request %d, want %d", s.end.Device, wc.ID, id)
	}
	return wc
}

func (s *side) post(wrs ...ibv.SendWR) {
	n, err := s.qp.PostSend(wrs)
	if err == nil && n != len(wrs) {
		err = fmt.Errorf("posted %d of %d", n, len(wrs))
	}
	s.ok(err)
}

// receiver is a receive queue, or an SRQ.
type receiver interface {
	PostRecv([]ibv.RecvWR) (int, error)
}

func (b *box) recv(q receiver, id uint64, sges ...ibv.SGE) {
	n, err := q.PostRecv([]ibv.RecvWR{{ID: id, SGEs: sges}})
	if err == nil && n != 1 {
		err = errors.New("receive not posted")
	}
	b.ok(err)
}

// fill writes a pattern, which differs by seed and position.
func fill(p []byte, seed int) {
	for i := range p {
		p[i] = byte(i*7 + i>>8*13 + seed)
	}
}

// set writes one value to each byte.
func set(p []byte, value byte) {
	for i := range p {
		p[i] = value
	}
}

// same compares with the pattern.
func (b *box) same(what string, p []byte, seed int) {
	for i, have := range p {
		if want := byte(i*7 + i>>8*13 + seed); have != want {
			b.fail("%s: byte %d of %d is %#02x, want %#02x", what, i, len(p), have, want)
		}
	}
}

// all compares each byte with one value.
func (b *box) all(what string, p []byte, want byte) {
	for i, have := range p {
		if have != want {
			b.fail("%s: byte %d is %#02x, want %#02x: nothing should have written there", what, i, have, want)
		}
	}
}
