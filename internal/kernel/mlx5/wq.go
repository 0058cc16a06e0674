package mlx5

import (
	"math/bits"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// CreateWQ makes a receive queue, and tells the caller how large it is.
func (v *Verbs) CreateWQ(_ handle, a *abi.WQInitAttr) (handle, error) {
	return newWQ(v, a, nil)
}

// CreateWQ makes a receive queue with attributes of mlx5.
func (r *Rings) CreateWQ(_ handle, a *abi.WQInitAttr, dv *abi.MLX5DVWQInitAttr) (handle, error) {
	switch dv.CompMask {
	case 0:
		return newWQ(r.v, a, nil)
	case abi.MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ:
		return newWQ(r.v, a, &dv.StridingRQAttrs)
	}
	return 0, syscall.EINVAL
}

// checkStrides compares the sizes of strides with the device's limits.
func (c *context) checkStrides(s *abi.MLX5DVStridingRQInitAttr) error {
	d, err := c.driver()
	if err != nil {
		return err
	}
	l := &d.StridingRQCaps
	bytes, n := s.SingleStrideLogNumOfBytes, s.SingleWQELogNumOfStrides
	if bytes < l.MinSingleStrideLogNumOfBytes || bytes > l.MaxSingleStrideLogNumOfBytes ||
		n < l.MinSingleWQELogNumOfStrides || n > l.MaxSingleWQELogNumOfStrides {
		return syscall.EINVAL
	}
	return nil
}

// newWQ makes a receive queue. strides may be nil.
func newWQ(v *Verbs, a *abi.WQInitAttr, strides *abi.MLX5DVStridingRQInitAttr) (handle, error) {
	p, err := get[pd](v, a.PD)
	if err != nil {
		return 0, err
	}
	q, err := get[cq](v, a.CQ)
	if err != nil {
		return 0, err
	}
	c := p.c
	if a.WQType != abi.IBV_WQT_RQ || a.MaxWR == 0 || a.MaxWR > c.info.MaxRecvWR || q.c != c {
		return 0, syscall.EINVAL
	}
	var s sizes
	if strides != nil {
		if err := c.checkStrides(strides); err != nil {
			return 0, err
		}
		s.head = nextSize
	}
	if err := s.receive(&c.info, &abi.QPCap{MaxRecvWR: a.MaxWR, MaxRecvSGE: a.MaxSGE}); err != nil {
		return 0, err
	}
	w := &wq{ringed: of(c), wqes: uint32(s.wqes), stride: uint32(s.stride)}
	if w.queue, err = c.memory.queue(s.bytes()); err != nil {
		return 0, err
	}
	k := &abi.UverbsExCreateWQ{WQType: a.WQType, PDHandle: p.number, CQHandle: q.kernel, MaxWR: a.MaxWR,
		MaxSGE: a.MaxSGE}
	if a.CompMask&abi.IBV_WQ_INIT_ATTR_FLAGS != 0 {
		k.CreateFlags = a.CreateFlags
	}
	n, err := w.enter(w, ring{}, func() error { return w.create(k, strides) })
	if err == nil {
		a.MaxWR, a.MaxSGE = s.granted.MaxRecvWR, s.granted.MaxRecvSGE
	}
	return n, err
}

func (w *wq) create(k *abi.UverbsExCreateWQ, strides *abi.MLX5DVStridingRQInitAttr) error {
	k.UserHandle = uint64(w.handle)
	d := &abi.MLX5IBCreateWQ{BufAddr: w.queue.ring.addr(), DbAddr: uint64(w.queue.record.addr()), RQWQECount: w.wqes,
		RQWQEShift: uint32(bits.TrailingZeros32(w.stride)), UserIndex: w.c.userIndex()}
	if strides != nil {
		d.CompMask, d.TwoByteShiftEn = abi.MLX5_IB_CREATE_WQ_STRIDING_RQ, uint32(strides.TwoByteShiftEn)
		d.SingleStrideLogNumOfBytes = strides.SingleStrideLogNumOfBytes
		d.SingleWQELogNumOfStrides = strides.SingleWQELogNumOfStrides
	}
	r, err := w.c.file.CreateWQ(k, uverbs.Driver{In: uverbs.Bytes(d), Out: make([]byte, 8)})
	if err != nil {
		return err
	}
	w.kernel, w.number = r.WQHandle, r.Wqn
	if err = deviceNumber24("create_wq", "wqn", r.Wqn); err != nil {
		_, e := w.c.file.DestroyWQ(w.kernel)
		return w.c.undo(err, e)
	}
	return nil
}

// ModifyWQ changes a WQ. When it leaves RESET its counters begin again.
func (w *wq) ModifyWQ(a *abi.WQAttr) error {
	ready := a.AttrMask&abi.IBV_WQ_ATTR_STATE != 0 && a.WQState == abi.IBV_WQS_RDY
	if ready && w.state.Load() == abi.IBV_WQS_RESET {
		w.queue.record.zero()
	}
	k := &abi.UverbsExModifyWQ{AttrMask: a.AttrMask, WQHandle: w.kernel}
	choose(a.AttrMask, abi.IBV_WQ_ATTR_STATE, &k.WQState, a.WQState)
	choose(a.AttrMask, abi.IBV_WQ_ATTR_CURR_STATE, &k.CurrWQState, a.CurrWQState)
	choose(a.AttrMask, abi.IBV_WQ_ATTR_FLAGS, &k.Flags, a.Flags)
	choose(a.AttrMask, abi.IBV_WQ_ATTR_FLAGS, &k.FlagsMask, a.FlagsMask)
	if err := w.c.file.ModifyWQ(k, make([]byte, 8)); err != nil {
		return err
	}
	if a.AttrMask&abi.IBV_WQ_ATTR_STATE != 0 {
		w.state.Store(a.WQState)
	}
	return nil
}

// DestroyWQ ends a WQ, when its events were acknowledged.
func (w *wq) DestroyWQ() error {
	n, err := w.c.file.DestroyWQ(w.kernel)
	return w.retire("destroy_wq", err, ring{}, reported{&w.async, n})
}

// WQNumber returns the number of a WQ.
func (w *wq) WQNumber() uint32 { return w.number }

// InitRWQ returns the ring of a WQ.
func (w *wq) InitRWQ() (*abi.MLX5DVRWQ, error) {
	return &abi.MLX5DVRWQ{Buf: uintptr(w.queue.ring.addr()), DBRec: w.queue.record.addr(), WQECnt: w.wqes,
		Stride: w.stride}, nil
}

// CreateRWQIndTable makes an indirection table.
func (c *context) CreateRWQIndTable(log uint32, wqs []handle) (*indTable, error) {
	if log > 16 || len(wqs) != 1<<log {
		return nil, syscall.EINVAL
	}
	list := make([]uint32, len(wqs))
	for i, h := range wqs {
		w, err := get[wq](c.v, h)
		if err != nil {
			return nil, err
		}
		list[i] = w.kernel
	}
	number, err := c.file.CreateTable(log, list, uverbs.Driver{Out: make([]byte, 8)})
	return &indTable{numbered(c, number)}, err
}

// DestroyRWQIndTable ends an indirection table.
func (t *indTable) DestroyRWQIndTable() error { return t.c.destroyed(t.c.file.DestroyTable(t.number)) }
