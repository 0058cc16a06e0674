package mlx5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
)

// goodDevX fills in the answer of a good device: it is a bond and has all capabilities, and its QPs send from port 1.
func goodDevX(method uint16, number uint32, b []byte) {
	clear(b)
	switch {
	case len(b) > 4096: // capabilities
		for i := range b[16:] {
			b[16+i] = 0xff
		}
		setBits(b[16:], 0x27c, 4, 2) // num_lag_ports
		setBits(b[16:], 0x93, 5, 1)  // log_reserved_qpn_granularity
	case method == methodQuery && len(b) > 64:
		setBits(b, affinityAt, 4, 1)
		setBits(b, 0x84, 4, 1)
		setBits(b, 0x11a, 1, 1)
	case len(b) >= 16:
		binary.BigEndian.PutUint32(b[8:], number)
	}
}

// usePaths chooses paths and shares of QPs.
func usePaths(v *Verbs, ctx, pd, cq handle, later func(error, func() error) bool) (errs []error) {
	r := v.Rings()
	add := func(err error) { errs = append(errs, err) }
	node, err := r.SchedNodeCreate(ctx, &abi.MLX5DVSchedAttr{})
	if later(err, func() error { return r.SchedNodeDestroy(node) }) {
		leaf, err := r.SchedLeafCreate(ctx, &abi.MLX5DVSchedAttr{Parent: node, Flags: 3, BWShare: 1, MaxAvgBW: 2})
		if later(err, func() error { return r.SchedLeafDestroy(leaf) }) {
			a := &abi.MLX5DVSchedAttr{Parent: node}
			errs = append(errs, r.SchedLeafModify(leaf, a), r.SchedNodeModify(node, a))
		}
		for _, typ := range []uint32{abi.IBV_QPT_RC, abi.IBV_QPT_RAW_PACKET} {
			qp, err := v.CreateQP(pd, &abi.QPInitAttrEx{SendCQ: cq, RecvCQ: cq, QPType: typ,
				Cap: abi.QPCap{MaxSendWR: 4, MaxSendSGE: 1}})
			if !later(err, func() error { return v.DestroyQP(qp) }) {
				continue
			}
			add(v.ModifyQP(qp, &abi.QPAttr{QPState: abi.IBV_QPS_RTS}, abi.IBV_QP_STATE))
			if _, _, err := r.QueryQPLAGPort(qp); err != nil {
				add(err)
			}
			errs = append(errs, r.ModifyQPLAGPort(qp, 2), r.ModifyQPSchedElem(qp, leaf, 0),
				r.ModifyQPSchedElem(qp, 0, 0))
			if typ == abi.IBV_QPT_RC {
				add(r.ModifyQPUDPSport(qp, 0xc123))
			}
			if n, err := v.QueryQPDataInOrder(qp, 0, abi.IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY); err != nil || n > 1 {
				add(fmt.Errorf("data in order: %d, %w", n, err))
			}
		}
	}
	var numbers []uint32
	for range 3 { // a block has 2
		n, err := r.ReservedQPNAlloc(ctx)
		if n >= 1<<24 {
			err = fmt.Errorf("a number that no QP has: %#x", n)
		}
		if add(err); err == nil {
			numbers = append(numbers, n)
		}
	}
	for _, n := range numbers {
		add(r.ReservedQPNDealloc(ctx, n))
	}
	ah, err := v.CreateAH(pd, &abi.AHAttr{IsGlobal: 1, PortNum: 1})
	if later(err, func() error { return v.DestroyAH(ah) }) {
		errs = append(errs, r.MapAHToQP(ah, 5), r.MapAHToQP(ah, 5))
	}
	for _, typ := range []uint32{abi.MLX5DV_DM_TYPE_MEMIC, abi.MLX5DV_DM_TYPE_STEERING_SW_ICM} {
		dm, err := r.AllocDM(ctx, &abi.AllocDMAttr{Length: 64}, &abi.MLX5DVAllocDMAttr{Type: typ})
		if !later(err, func() error { return v.FreeDM(ctx, dm) }) {
			continue
		}
		p, err := r.DMMapOpAddr(dm, 1)
		copied := v.MemcpyToDM(dm, 60, make([]byte, 4))
		switch {
		case typ == abi.MLX5DV_DM_TYPE_MEMIC:
			if errs = append(errs, err, copied); err == nil {
				cmem.Slice[byte](p, 64)[63] = 1 // it is mapped
			}
		case err == nil || copied == nil:
			add(errors.New("memory without data is mapped"))
		}
	}
	wq, err := r.CreateWQ(ctx, &abi.WQInitAttr{PD: pd, CQ: cq, WQType: abi.IBV_WQT_RQ, MaxWR: 4, MaxSGE: 1},
		&abi.MLX5DVWQInitAttr{CompMask: abi.MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ,
			StridingRQAttrs: abi.MLX5DVStridingRQInitAttr{SingleStrideLogNumOfBytes: 6, SingleWQELogNumOfStrides: 9}})
	if later(err, func() error { return v.DestroyWQ(ctx, wq) }) {
		w, err := r.InitRWQ(wq)
		if add(err); err == nil && (w.Stride != 32 || w.WQECnt != 4) {
			add(fmt.Errorf("a ring of %d receives of %d bytes", w.WQECnt, w.Stride))
		}
	}
	return errs
}

// TestRefusals: each status of the firmware has the errno of libmlx5.
func TestRefusals(t *testing.T) {
	out := make([]byte, 16)
	for status, want := range map[byte]error{0: nil, 1: syscall.EIO, 3: syscall.EINVAL, 6: syscall.EBUSY,
		8: syscall.ENOMEM, 15: syscall.EAGAIN, 0x50: syscall.EIO, 0xff: syscall.EIO} {
		out[0] = status
		for _, err := range []error{nil, syscall.Errno(remoteIO)} {
			if status == 0 {
				want = err
			}
			if got := answered(out, err); got != want {
				t.Errorf("status %d, %v: %v, want %v", status, err, got, want)
			}
		}
	}
	if err := answered(out, syscall.ENODEV); err != syscall.ENODEV {
		t.Errorf("the kernel's own error is %v", err)
	}
}
