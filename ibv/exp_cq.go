package ibv

import (
	"errors"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ops"
)

// CQs by the experimental verbs of MLNX_OFED 4: its libibverbs has no ibv_create_cq_ex, and no ibv_query_rt_values_ex.

// haveExp is the name in errors of a library with the experimental verbs.
const haveExp = "MLNX_OFED 4, whose experimental verbs have none"

// expOp returns the address of an experimental verb, 0 if the library has none.
func (d *Device) expOp(dist uintptr) uintptr { return d.v.ExpOp(d.handle, dist) }

// expFields are those that an experimental CQ can have.
const expFields = FieldsStandard | FieldTimestamp | FieldWallClock

// stamped reports whether completions carry times.
func (f WCFields) stamped() bool { return f&(FieldTimestamp|FieldWallClock) != 0 }

// checkExp reports what an experimental CQ lacks.
func (f WCFields) checkExp() error {
	if odd := f &^ expFields; odd != 0 {
		return &UnsupportedError{Feature: "completions with " + odd.String(), Need: "libibverbs of rdma-core or " +
			"MLNX_OFED 5", Have: haveExp}
	}
	if odd := f & (FieldSLID | FieldSL); odd != 0 && f.stamped() {
		return &UnsupportedError{Feature: "completions with both times and " + odd.String(),
			Need: "libibverbs of rdma-core or MLNX_OFED 5, or CQOptions.Fields without one of these",
			Have: "MLNX_OFED 4, where a time takes their place"}
	}
	return nil
}

// makeExpCQ makes the C object of a CQ with fields. Without times a plain one has them all.
func (d *Device) makeExpCQ(cq *CQ, cqe int, channel uintptr, vector int) (uintptr, error) {
	if err := cq.fields.checkExp(); err != nil {
		return 0, err
	}
	if !cq.fields.stamped() {
		return d.v.CreateCQ(d.handle, cqe, cq.cookie, channel, vector)
	}
	attr := &abi.ExpCQInitAttr{CompMask: abi.IBV_EXP_CQ_INIT_ATTR_FLAGS, Flags: abi.IBV_EXP_CQ_TIMESTAMP}
	h, err := d.v.ExpCreateCQ(d.handle, cqe, cq.cookie, channel, vector, attr)
	if unsupported(err) {
		err = &UnsupportedError{Feature: "completions with times", Need: "a driver of MLNX_OFED 4 and a device with " +
			"a clock; or no FieldTimestamp and FieldWallClock among CQOptions.Fields", Have: d.Name()}
	}
	return h, err
}

// initExpFields prepares polling of such a CQ.
func (cq *CQ) initExpFields() (err error) {
	d := cq.dev
	if !cq.fields.stamped() {
		cq.poller, err = ops.NewPoller(d.table, cq.handle)
		return err
	}
	if err = cq.pollByExp(); err != nil || cq.fields&FieldWallClock == 0 {
		return err
	}
	fn := d.expOp(abi.DistExpQueryValues)
	if fn != 0 {
		cq.clock, err = ops.NewExpClock(fn, d.handle)
	}
	// libmlx5 41mlnx1 returns EINVAL if the kernel shares no such page.
	if fn == 0 || unsupported(err) || errors.Is(err, syscall.EINVAL) {
		err = noClock(d.Name() + " by MLNX_OFED 4")
	}
	if err != nil {
		err = errors.Join(err, cq.exp.Free())
	}
	return err
}

// pollByExp makes the CQ be polled by ibv_exp_poll_cq.
func (cq *CQ) pollByExp() (err error) {
	d := cq.dev
	fn := d.expOp(abi.DistExpPollCQ)
	if fn == 0 {
		return &UnsupportedError{Feature: "ibv_exp_poll_cq", Need: "a provider with it", Have: d.Name()}
	}
	cq.exp, err = ops.NewExpPoller(d.table, fn, cq.handle)
	return err
}

// switchToExp makes a CQ be polled by ibv_exp_poll_cq, if it is not: opcodes of atomics with masks mean something else
// to ibv_poll_cq.
func (cq *CQ) switchToExp() error {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if cq.poller == nil {
		return nil
	}
	if err := cq.pollByExp(); err != nil {
		return err
	}
	err := cq.poller.Free()
	cq.poller = nil
	return err
}

// pollExp polls by ibv_exp_poll_cq.
// Preconditions: cq.mu is held, nothing is held.
func (cq *CQ) pollExp(wcs []WC) (int, error) {
	n := 0
	for n < len(wcs) {
		got, ret := cq.exp.Poll(len(wcs) - n)
		if ret < 0 {
			if n > 0 {
				return n, nil // the provider will report it again
			}
			return 0, cq.errPoll
		}
		for i := range got {
			wcs[n+i].fromExp(&got[i], cq.sl)
		}
		n += len(got)
		if len(got) < ops.PollBatch {
			break
		}
	}
	return n, nil
}

// fromExp copies a completion, as fromC does.
func (wc *WC) fromExp(e *abi.ExpWC, sl uint8) {
	fromC(wc, &abi.WC{WRID: e.WRID, Status: e.Status, Opcode: expWCOpcode(e.ExpOpcode), VendorErr: e.VendorErr,
		ByteLen: e.ByteLen, ImmData: abi.Be32(e.ImmData), QPNum: e.QPNum, SrcQP: e.SrcQP,
		WCFlags: uint32(e.ExpWCFlags), PKeyIndex: e.PKeyIndex, SLID: e.SLID, SL: e.SL, DLIDPathBits: e.DLIDPathBits}, 1,
		sl)
	if e.Status == 0 && e.ExpWCFlags&abi.IBV_EXP_WC_WITH_TIMESTAMP != 0 {
		wc.Timestamp, wc.SLID, wc.SL = e.Timestamp, 0, 0
	}
}

// expWCOpcode returns the opcode of classic verbs.
func expWCOpcode(op uint32) uint32 {
	switch op {
	case abi.IBV_EXP_WC_MASKED_COMP_SWAP:
		return abi.IBV_WC_COMP_SWAP
	case abi.IBV_EXP_WC_MASKED_FETCH_ADD:
		return abi.IBV_WC_FETCH_ADD
	}
	return op
}

// queryExpClock is QueryRTValuesEx by an experimental verb.
func (d *Device) queryExpClock(v *abi.ValuesEx) error {
	e := new(abi.ExpValues)
	if err := d.v.ExpQueryValues(d.handle, abi.IBV_EXP_VALUES_HW_CLOCK, e); err != nil {
		return err
	}
	v.CompMask, v.RawClock.Sec, v.RawClock.Nsec = 0, 0, int64(e.HWClock)
	if e.CompMask&abi.IBV_EXP_VALUES_HW_CLOCK != 0 {
		v.CompMask = abi.IBV_VALUES_MASK_RAW_CLOCK
	}
	return nil
}
