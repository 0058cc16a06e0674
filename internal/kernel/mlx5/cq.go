package mlx5

import (
	"fmt"
	"math"
	"math/bits"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
	rings "github.com/pureverbs/pureverbs/internal/mlx5"
)

const (
	mostCQEs = 1 << 24 // C: the limit of mlx5_create_cq
	manyCQEs = 1 << 16 // for more the device is asked for its limit, before memory is used

	numberBits = 24 // of QPs, CQs and SRQs
)

// deviceNumber24 checks the number of a new object.
func deviceNumber24(command, field string, n uint32) error {
	return uverbs.Check(n>>numberBits == 0, command, field, uint64(n), "at most 24 bits")
}

// pow2 rounds up to a power of two.
func pow2(n uint64) uint64 { return 1 << bits.Len64(max(n, 1)-1) }

// cqEntries returns how many entries a CQ for cqe completions has.
func (c *context) cqEntries(cqe int) (uint32, error) {
	if cqe <= 0 || cqe >= mostCQEs {
		return 0, syscall.EINVAL
	}
	n := uint32(pow2(uint64(cqe) + 1))
	if n > manyCQEs {
		most, err := c.maxCQE()
		if err != nil {
			return 0, err
		}
		if uint32(cqe) > most {
			return 0, syscall.EINVAL
		}
	}
	return n, nil
}

func (c *context) queryMaxCQE() (uint32, error) {
	a, err := c.file.QueryDevice(true)
	if err != nil {
		return 0, err
	}
	return a.MaxCQE, nil
}

// CreateCQ makes a CQ.
func (c *context) CreateCQ(cqe int, cookie uintptr, ch handle, vector int) (handle, error) {
	if uint64(cqe) > math.MaxUint32 || uint64(vector) > math.MaxUint32 {
		return 0, syscall.EINVAL
	}
	return c.CreateCQEx(&abi.CQInitAttrEx{CQE: uint32(cqe), CQContext: cookie, Channel: ch,
		CompVector: uint32(vector)})
}

func (q *cq) create(fd int, vector, flags uint32, d *abi.MLX5IBCreateCQ) error {
	c, entries := q.c, q.entries.Load()
	d.BufAddr, d.DbAddr = q.queue.ring.addr(), uint64(q.queue.record.addr())
	if p := c.bars.common; p.dynamic {
		if p.page > 1<<16-1 { // this struct has 16 bits for it
			return fmt.Errorf("doorbell page %#x has a number of more than 16 bits: %w", p.page, syscall.EOPNOTSUPP)
		}
		d.Flags, d.UARPageIndex = d.Flags|abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX, uint16(p.page)
	}
	resp := new(abi.MLX5IBNumberResp)
	r, err := c.file.CreateCQ(&abi.UverbsCreateCQ{UserHandle: uint64(q.handle), CQE: entries - 1,
		CompVector: vector, CompChannel: int32(fd)}, flags, uverbs.Driver{In: uverbs.Bytes(d), Out: uverbs.Bytes(resp)})
	if err != nil {
		return err
	}
	q.kernel, q.number = r.CQHandle, resp.Number
	if err := deviceNumber24("create_cq", "cqn", q.number); err != nil {
		_, _, e := c.file.DestroyCQ(q.kernel)
		return c.undo(err, e)
	}
	return nil
}

// CreateCQEx makes a CQ with attributes.
func (c *context) CreateCQEx(a *abi.CQInitAttrEx) (handle, error) {
	size, err := cqeSize()
	if err != nil {
		return 0, err
	}
	return c.createCQ(a, &abi.MLX5IBCreateCQ{CQESize: size})
}

// createCQ makes a CQ. The caller has set what d has of mlx5.
func (c *context) createCQ(a *abi.CQInitAttrEx, d *abi.MLX5IBCreateCQ) (handle, error) {
	const masks = abi.IBV_CQ_INIT_ATTR_MASK_FLAGS | abi.IBV_CQ_INIT_ATTR_MASK_PD
	if a.CompMask&^masks != 0 {
		return 0, syscall.EINVAL
	}
	const flags = abi.IBV_CREATE_CQ_ATTR_SINGLE_THREADED | abi.IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN
	var kernel uint32
	if a.CompMask&abi.IBV_CQ_INIT_ATTR_MASK_FLAGS != 0 {
		if a.Flags&^flags != 0 {
			return 0, control.ErrNoOp
		}
		if a.Flags&abi.IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN != 0 {
			kernel = uverbs.CQIgnoreOverrun
		}
	}
	entries, err := c.cqEntries(int(a.CQE))
	if err != nil {
		return 0, err
	}
	fd := -1
	if a.Channel != 0 {
		o, err := get[channel](c.v, a.Channel)
		if err != nil {
			return 0, err
		}
		fd = o.fd
	}
	if a.CompVector >= c.core.CompVectors {
		return 0, syscall.EINVAL
	}
	q := &cq{ringed: of(c), cookie: a.CQContext, size: d.CQESize}
	if q.queue, err = c.memory.queue(int(entries) * int(q.size)); err != nil {
		return 0, err
	}
	rings.InitRing(cmem.Pointer(uintptr(q.queue.ring.addr())), entries, q.size)
	q.entries.Store(entries)
	return q.enter(q, ring{}, func() error { return q.create(fd, a.CompVector, kernel, d) })
}

// DVCreateCQ makes a CQ with attributes of mlx5.
func (c *context) DVCreateCQ(a *abi.CQInitAttrEx, dv *abi.MLX5DVCQInitAttr) (handle, error) {
	const masks = abi.MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE | abi.MLX5DV_CQ_INIT_ATTR_MASK_FLAGS |
		abi.MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE
	own, err := c.driver()
	if err != nil {
		return 0, err
	}
	size, err := cqeSize()
	if dv.CompMask&abi.MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE != 0 {
		size, err = uint32(dv.CQESize), nil
	}
	if err != nil || dv.CompMask&^masks != 0 || size != 64 && size != 128 {
		return 0, syscall.EINVAL
	}
	d := &abi.MLX5IBCreateCQ{CQESize: size}
	if dv.CompMask&abi.MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE != 0 {
		if own.CQECompCaps.MaxNum == 0 || own.CQECompCaps.SupportedFormat&uint32(dv.CQECompResFormat) == 0 {
			return 0, syscall.EINVAL
		}
		d.CQECompEn, d.CQECompResFormat = 1, dv.CQECompResFormat
	}
	if dv.CompMask&abi.MLX5DV_CQ_INIT_ATTR_MASK_FLAGS != 0 {
		if dv.Flags&^abi.MLX5DV_CQ_INIT_ATTR_FLAGS_CQE_PAD != 0 ||
			own.Flags&abi.MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD == 0 || size != 128 {
			return 0, syscall.EINVAL
		}
		d.Flags = abi.MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD
	}
	return c.createCQ(a, d)
}

// ModifyCQ sets the moderation of a CQ.
func (q *cq) ModifyCQ(a *abi.ModifyCQAttr) error {
	const moderate = 1 << 0 // C: IBV_CQ_ATTR_MODERATE
	if a.AttrMask != moderate {
		return syscall.EINVAL
	}
	return q.c.file.ModerateCQ(q.kernel, a.Moderate.CQCount, a.Moderate.CQPeriod)
}

// DestroyCQ ends a CQ, when its events were acknowledged.
func (q *cq) DestroyCQ() error {
	completions, async, err := q.c.file.DestroyCQ(q.kernel)
	return q.retire("destroy_cq", err, ring{}, reported{&q.completions, completions}, reported{&q.async, async})
}

// CQCapacity returns the entries of a CQ that completions may use.
func (q *cq) CQCapacity() int { return int(q.entries.Load()) - 1 }

// InitCQ returns the ring of a CQ.
func (q *cq) InitCQ() (*abi.MLX5DVCQ, error) {
	return &abi.MLX5DVCQ{Buf: uintptr(q.queue.ring.addr()), DBRec: q.queue.record.addr(), CQECnt: q.entries.Load(),
		CQESize: q.size, CQUAR: cmem.SliceAddr(q.c.bars.common.mem), CQN: q.number}, nil
}

// SwapCQ makes the device use another ring for a CQ. It is the caller's.
func (q *cq) SwapCQ(buf uintptr, entries, size uint32) error {
	d := &abi.MLX5IBResizeCQ{BufAddr: uint64(buf), CQESize: uint16(size)}
	if err := q.c.file.ResizeCQ(q.kernel, entries-1, uverbs.Bytes(d)); err != nil {
		return err
	}
	q.entries.Store(entries)
	return nil
}
