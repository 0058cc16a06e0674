package mlx5

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// A WQE of an SRQ begins with the number of the next one.
const (
	nextSize = 16
	sgeSize  = 16
)

// CreateSRQ makes a shared receive queue, and tells the caller how large it is.
func (v *Verbs) CreateSRQ(h handle, a *abi.SRQInitAttr) (handle, error) {
	return v.createSRQ(h, &a.Attr, nil)
}

// CreateSRQEx makes a shared receive queue of a type.
func (v *Verbs) CreateSRQEx(_ handle, a *abi.SRQInitAttrEx) (handle, error) {
	if a.CompMask&abi.IBV_SRQ_INIT_ATTR_TYPE == 0 || a.SRQType == abi.IBV_SRQT_BASIC {
		return v.createSRQ(a.PD, &a.Attr, nil)
	}
	if a.SRQType != abi.IBV_SRQT_XRC {
		return 0, control.ErrNoOp
	}
	x, err := get[xrcd](v, a.XRCD)
	if err != nil {
		return 0, err
	}
	q, err := get[cq](v, a.CQ)
	if err != nil {
		return 0, err
	}
	return v.createSRQ(a.PD, &a.Attr, &uverbs.XRC{XRCD: x.number, CQ: q.kernel})
}

func (v *Verbs) createSRQ(h handle, a *abi.SRQAttr, x *uverbs.XRC) (handle, error) {
	p, err := get[pd](v, h)
	if err != nil {
		return 0, err
	}
	c, i := p.c, &p.c.info
	if a.MaxWR > i.MaxSRQRecvWR || a.MaxSGE > uint32(i.MaxRQDescSz)/sgeSize {
		return 0, syscall.EINVAL
	}
	stride := pow2(max(32, nextSize+uint64(a.MaxSGE)*sgeSize))
	wqes := pow2(uint64(a.MaxWR) + 1)
	if stride > uint64(i.MaxRecvWR) || wqes > 1<<16 { // the number of the next one has 16 bits
		return 0, syscall.EINVAL
	}
	s := &srq{ringed: of(c), stride: uint32(stride), tail: uint32(wqes) - 1}
	if s.queue, err = c.memory.queue(int(wqes * stride)); err != nil {
		return 0, err
	}
	for w := range s.tail {
		binary.BigEndian.PutUint16(s.queue.ring.bytes[uint64(w)*stride+2:], uint16(w+1))
	}
	sges := uint32(stride-nextSize) / sgeSize
	n, err := s.enter(s, ring{}, func() error { return s.create(p, sges, a.SRQLimit, x) })
	if err == nil {
		a.MaxWR, a.MaxSGE = s.tail, sges
	}
	return n, err
}

func (s *srq) create(p *pd, sges, limit uint32, x *uverbs.XRC) error {
	d := &abi.MLX5IBCreateSRQ{BufAddr: s.queue.ring.addr(), DbAddr: uint64(s.queue.record.addr()),
		Uidx: s.c.userIndex()}
	resp := new(abi.MLX5IBNumberResp)
	r, err := s.c.file.CreateSRQ(&abi.UverbsCreateSRQ{UserHandle: uint64(s.handle), PDHandle: p.number,
		MaxWR: s.tail, MaxSGE: sges, SRQLimit: limit}, x, uverbs.Driver{In: uverbs.Bytes(d), Out: uverbs.Bytes(resp)})
	if err != nil {
		return err
	}
	s.kernel, s.number = r.SRQHandle, resp.Number
	err = deviceNumber24("create_srq", "srqn", s.number)
	if err == nil && r.MaxWR < s.tail {
		err = &uverbs.ReplyError{Command: "create_srq", Field: "max_wr", Got: uint64(r.MaxWR), Want: fmt.Sprint(s.tail)}
	}
	if err != nil {
		_, e := s.c.file.DestroySRQ(s.kernel)
		return s.c.undo(err, e)
	}
	return nil
}

// ModifySRQ changes an SRQ.
func (s *srq) ModifySRQ(a *abi.SRQAttr, mask uint32) error {
	return s.c.file.ModifySRQ(s.kernel, mask, a.MaxWR, a.SRQLimit)
}

// QuerySRQ returns the attributes of an SRQ.
func (s *srq) QuerySRQ(a *abi.SRQAttr) error {
	maxWR, maxSGE, limit, err := s.c.file.QuerySRQ(s.kernel)
	if err != nil {
		return err
	}
	a.MaxWR, a.MaxSGE, a.SRQLimit = maxWR, maxSGE, limit
	return nil
}

// GetSRQNum returns the number of an SRQ.
func (s *srq) GetSRQNum() (uint32, error) { return s.number, nil }

// DestroySRQ ends an SRQ, when its events were acknowledged.
func (s *srq) DestroySRQ() error {
	n, err := s.c.file.DestroySRQ(s.kernel)
	return s.retire("destroy_srq", err, ring{}, reported{&s.async, n})
}

// InitSRQ returns the ring of an SRQ.
func (s *srq) InitSRQ(mask uint64) (*abi.MLX5DVSRQ, error) {
	const num = 1 << 0 // C: MLX5DV_SRQ_MASK_SRQN
	return &abi.MLX5DVSRQ{Buf: uintptr(s.queue.ring.addr()), DBRec: s.queue.record.addr(), Stride: s.stride,
		Tail: s.tail, CompMask: mask & num, SRQN: s.number}, nil
}
