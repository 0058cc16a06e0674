package ibv

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/life"
	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/ops"
)

// SRQ is a shared receive queue: one pool of receive buffers for many QPs.
//
// It belongs to its PD. Methods are safe for concurrent use, unless the option
// SingleThreaded forgoes that. Close fails while QPs use it.
//
// C: struct ibv_srq.
type SRQ struct {
	node
	pd      *PD
	typ     SRQType
	cq      *CQ // of receives, nil if each QP has its own
	handle  uintptr
	maxSGE  int
	errGone error
	errFull error

	mu     lock
	maxWR  int
	chain  *ops.RecvChain // nil once closed, on the direct data path, or before the choice
	direct *mlx5.SRQ
	path   DataPath // DataPathAuto before the choice
	why    string
	gone   bool

	carriers atomic.Int32 // QPs whose completions may carry payloads of its receives

	// Of type SRQTM; the CQ's lock guards handles.
	maxTagSGE int
	handles   map[uint32]uint64 // tags in the CQ's table, by the library's handle
}

// SRQOptions are the choices at the creation of an SRQ.
type SRQOptions struct {
	MaxWR  int // receive buffers, 0 means 128, or DeviceAttr.MaxSRQWR if that is less
	MaxSGE int // entries for each, 0 means 1, None none

	// Type is SRQBasic, SRQXRC or SRQTM. The last two need a CQ, on which all receives complete.
	Type SRQType
	CQ   *CQ
	XRCD *XRCD // with SRQXRC

	// With SRQTM: how many tags the list holds, and how many operations on it may be outstanding.
	// DeviceAttrEx.TagMatching has the limits. The CQ has DataPathOps and Fields, FieldTMInfo among them.
	MaxTags, MaxTagOps int

	// SingleThreaded takes no lock: one goroutine at a time uses the SRQ, the QPs
	// on it and their CQs, Close included.
	SingleThreaded bool

	// DataPath must be that of the CQs of the QPs that will use the SRQ. With
	// DataPathAuto the first QP decides, or the first PostRecv if it comes before.
	DataPath DataPath
}

// CreateSRQ makes a shared receive queue; opt may be nil.
//
// Peers reach an XRC SRQ by its number: SRQ.Num. On the direct data path a CQ takes one XRC SRQ,
// because completions do not name it. If that CQ is SingleThreaded, the goroutine that uses it
// must also create the QPs on it.
//
// C: ibv_create_srq(3), ibv_create_srq_ex(3).
func (pd *PD) CreateSRQ(opt *SRQOptions) (*SRQ, error) {
	const op = "create srq"
	if opt == nil {
		opt = &SRQOptions{}
	}
	o := *opt
	o.MaxWR, o.MaxSGE = orDefault(o.MaxWR, usualWR(pd.dev.attr.MaxSRQWR)), orDefault(o.MaxSGE, 1)
	name := pd.dev.Name()
	dev := &pd.dev.attr
	wr, sge := numSRQWR.of(dev, o.MaxWR), numSRQSGE.of(dev, o.MaxSGE)
	err := fitOptional(name, wr, sge)
	if o.MaxWR == 0 {
		err = &ArgError{Arg: "max_wr", Got: "0", Want: fmt.Sprintf("1 to %d", dev.MaxSRQWR)}
	}
	if err == nil {
		err = o.checkType(pd)
	}
	if err != nil {
		return nil, &OpError{Op: op, Object: name, Err: err}
	}
	parents := o.parents(pd)
	if err := enterAll(op, parents...); err != nil {
		return nil, err
	}
	defer leaveAll(parents...)
	if !pd.dev.v.native && pd.dev.table.PostSRQRecv == 0 {
		return nil, &OpError{Op: op, Object: name, Err: &UnsupportedError{Feature: "post_srq_recv",
			Need: "a provider with SRQs", Have: name}}
	}
	h, got, err := o.create(pd)
	if err != nil {
		err = explainLimits(pd.dev.blameSignatures("MLX5_SRQ_SIGNATURE", err), name, wr, sge)
		return nil, &OpError{Op: op, Object: name, Err: pd.dev.usedUp(err, "SRQs", pd.dev.attr.MaxSRQ)}
	}
	s := &SRQ{pd: pd, typ: o.Type, cq: o.CQ, handle: h, maxWR: granted(got.MaxWR), maxSGE: granted(got.MaxSGE)}
	if err := checkGranted(name, grant{wr, s.maxWR}, grant{sge, s.maxSGE}); err != nil {
		return nil, &OpError{Op: op, Object: name, Err: errors.Join(err, pd.dev.v.DestroySRQ(h))}
	}
	s.mu.Off = o.SingleThreaded
	if o.CQ != nil {
		o.DataPath = o.CQ.path
	}
	if o.DataPath != DataPathAuto {
		err := s.settle(o.DataPath)
		if err == nil {
			err = s.joinCQ()
		}
		if err != nil {
			return nil, &OpError{Op: op, Object: name, Err: errors.Join(err, pd.dev.v.DestroySRQ(h))}
		}
	}
	if s.typ == SRQTM {
		s.joinTags()
	}
	s.node.initNumbered("srq", name, parents...)
	s.errGone = &OpError{Op: "post srq recv", Object: s.name, Err: ErrClosed}
	s.errFull = &OpError{Op: "post srq recv", Object: s.name, Err: ErrQueueFull}
	pd.dev.register(h, s)
	life.Watch(s, &s.life)
	return s, nil
}

// PD is the protection domain of the SRQ.
func (s *SRQ) PD() *PD { return s.pd }

// SRQCap is the size of an SRQ.
type SRQCap struct {
	MaxWR  int // receive buffers
	MaxSGE int // entries for each
}

// Cap returns the size of the SRQ, as granted.
func (s *SRQ) Cap() SRQCap {
	s.mu.Lock()
	defer s.mu.Unlock()
	return SRQCap{s.maxWR, s.maxSGE}
}

// PostRecv posts receive buffers. See QP.PostRecv.
//
// C: ibv_post_srq_recv(3).
func (s *SRQ) PostRecv(wrs []RecvWR) (int, error) {
	s.mu.Lock()
	n := 0
	if d := s.direct; d != nil && !d.Watched() {
		if n = d.Post(mlx5Recvs(wrs)); n == len(wrs) {
			s.mu.Unlock()
			return n, nil
		}
	}
	return s.postRest(wrs, n)
}

// postRest returns why no more than n of wrs were posted on the direct data path, or posts the rest elsewhere.
// Preconditions: s.mu is held, and is given back.
func (s *SRQ) postRest(wrs []RecvWR, n int) (int, error) {
	var err, bad error
	if s.direct == nil && s.path == DataPathAuto && !s.gone {
		err = s.choose(DataPathAuto)
	}
	if n == 0 && s.carriers.Load() > 0 && s.pd.dev.elsewhere.any.Load() {
		var most int
		most, bad = s.pd.dev.takable(wrs, s.chain != nil)
		wrs = wrs[:most]
	}
	switch {
	case err != nil:
	case s.direct != nil:
		if n += s.direct.Post(mlx5Recvs(wrs[n:])); n < len(wrs) {
			err = recvError(&wrs[n], s.maxSGE)
		}
	case s.chain != nil:
		n, err = postRecv(s.chain, s.maxSGE, wrs)
	case s.path == DataPathRaw && !s.gone:
		err = ErrRaw
	default:
		err = ErrClosed
	}
	if err == nil {
		err = bad
	}
	s.mu.Unlock()
	switch err {
	case nil:
		return n, nil
	case ErrQueueFull:
		return n, s.errFull
	case ErrClosed:
		return n, s.errGone
	}
	return n, &OpError{Op: "post srq recv", Object: s.name, Err: err, Detail: fmt.Sprintf("work request %d", n)}
}

// settle makes sure that the SRQ is of the data path of a QP that wants it.
func (s *SRQ) settle(path DataPath) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.path == DataPathAuto {
		return s.choose(path)
	}
	if s.path != path {
		return &ArgError{Arg: "SRQ", Got: fmt.Sprintf("one with %v (%s)", s.path, s.why),
			Want: fmt.Sprintf("one made with SRQOptions.DataPath %v, as the CQs", path)}
	}
	return nil
}

// choose decides on the data path.
// Preconditions: s.mu is held, nothing was posted.
func (s *SRQ) choose(want DataPath) error {
	dev := s.pd.dev
	path, why, err := dev.choosePath(want, dev.directError)
	if err != nil {
		return err
	}
	switch path {
	case DataPathDirect:
		err = s.takeSRQ()
	case DataPathOps:
		s.chain, err = ops.NewRecvChain(dev.table.PostSRQRecv, s.handle, s.maxWR, s.maxSGE)
	}
	if err != nil {
		return err
	}
	s.path, s.why = path, why
	return nil
}

// DataPath is the engine of the SRQ, and why it is that one; DataPathAuto while
// that is open.
func (s *SRQ) DataPath() (DataPath, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.path, s.why
}

// SRQAttr are the attributes of an SRQ.
//
// C: struct ibv_srq_attr.
type SRQAttr struct {
	MaxWR  int
	MaxSGE int
	Limit  int // number of buffers below which EventSRQLimitReached comes; 0 when disarmed
}

// SetLimit arms EventSRQLimitReached: it comes once, when fewer than n buffers
// are left. 0 disarms.
//
// C: ibv_modify_srq(3) with IBV_SRQ_LIMIT.
func (s *SRQ) SetLimit(n int) error {
	return s.do("set srq limit", func() error {
		var err error = errInvalid
		if n >= 0 && n <= mostInt {
			err = s.pd.dev.v.ModifySRQ(s.handle, &abi.SRQAttr{SRQLimit: uint32(n)}, abi.IBV_SRQ_LIMIT)
		}
		if err == nil {
			return nil
		}
		l := limit{"limit", n, s.Cap().MaxWR}
		if a := new(abi.SRQAttr); s.pd.dev.v.QuerySRQ(s.handle, a) == nil {
			l.most = granted(a.MaxWR) // mlx5's kernel driver grants more than libmlx5 says
		}
		return explainLimits(cmp.Or(fitInt(s.pd.dev.Name(), l), err), s.String(), l)
	})
}

// Resize changes the number of receive buffers to at least maxWR, where the
// device can; Cap returns how many there are then. mlx5 devices cannot.
//
// An SRQ of the direct data path has the size that it was made with.
//
// C: ibv_modify_srq(3) with IBV_SRQ_MAX_WR.
func (s *SRQ) Resize(maxWR int) error {
	return s.do("resize srq", func() error {
		// Posting during the change would use a ring that is going, and a QP that
		// comes meanwhile would take it over.
		s.mu.Lock()
		defer s.mu.Unlock()
		l := numSRQWR.of(&s.pd.dev.attr, maxWR)
		switch {
		case s.path == DataPathDirect || s.path == DataPathRaw:
			return &UnsupportedError{Feature: fmt.Sprintf("resizing an SRQ with %v", s.path),
				Need: "an SRQ made with DataPathOps, on a device that can, or one that is large enough",
				Have: "a ring that is filled from Go"}
		case maxWR == 0:
			return &ArgError{Arg: "max_wr", Got: "0", Want: fmt.Sprintf("1 to %d", l.most)}
		}
		err := fitInt(s.pd.dev.Name(), l)
		if err == nil {
			err = s.pd.dev.v.ModifySRQ(s.handle, &abi.SRQAttr{MaxWR: uint32(maxWR)}, abi.IBV_SRQ_MAX_WR)
			err = s.explainResize(err, l)
		}
		if err != nil {
			return err
		}
		s.maxWR = maxWR
		a := new(abi.SRQAttr)
		if err := s.pd.dev.v.QuerySRQ(s.handle, a); err == nil {
			s.maxWR = granted(a.MaxWR)
		}
		return nil
	})
}

// explainResize returns why the size cannot be changed.
func (s *SRQ) explainResize(err error, l limit) error {
	switch {
	case err == nil || errors.Is(err, ErrDeviceRemoved):
		return err
	case s.pd.dev.attr.CapFlags&DeviceSRQResize == 0:
		return &UnsupportedError{Feature: "resizing an SRQ", Need: "a device with SRQResize among its CapFlags, " +
			"or an SRQ that is large enough", Have: s.pd.dev.Name() + " without it"}
	case errors.Is(err, errInvalid) && l.asked <= l.most:
		return fmt.Errorf("max_wr %d is less than what is posted, or than the limit of SetLimit: %w", l.asked, err)
	}
	return explainLimits(err, s.pd.dev.Name(), l)
}

// Query asks the device for the state of the SRQ.
//
// C: ibv_query_srq(3).
func (s *SRQ) Query() (*SRQAttr, error) {
	a := new(abi.SRQAttr)
	if err := s.do("query srq", func() error { return s.pd.dev.v.QuerySRQ(s.handle, a) }); err != nil {
		return nil, err
	}
	return &SRQAttr{MaxWR: granted(a.MaxWR), MaxSGE: granted(a.MaxSGE), Limit: granted(a.SRQLimit)}, nil
}

// Close destroys the SRQ; it fails with a *BusyError while QPs use it. Completions on the CQ of an XRC SRQ stay there.
//
// C: ibv_destroy_srq(3).
func (s *SRQ) Close() error {
	var c *ops.RecvChain
	return s.node.close(func() error {
		unlock := s.takeOut()
		defer unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.pd.dev.v.DestroySRQ(s.handle); err != nil {
			return err
		}
		s.leaveCQ()
		s.pd.dev.unregister(s.handle)
		c, s.chain, s.direct, s.gone = s.chain, nil, nil, true
		return nil
	}, func() error { return c.Free() })
}
