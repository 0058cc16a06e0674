package ibv

import (
	"errors"
	"fmt"
	"math"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
)

// ofAll is MR.fixed of an MR of RegImplicit.
const ofAll = "of the whole address space"

// RegImplicit registers the whole address space of the process on demand: now mapped or later, any
// memory is within it, and none is pinned. Addr is 0, so that an offset is an address, as in
// mr.SGE(address, n). Bytes returns nil. OnDemand is implied.
//
// The device needs ODPImplicit. Memory of the Go heap must be kept alive, and out of the way of the
// garbage collector, by the caller: use memory of AllocMR, or a runtime.Pinner.
//
// C: ibv_reg_mr(3) with address 0 and length SIZE_MAX.
func (pd *PD) RegImplicit(access AccessFlags) (*MR, error) {
	mr := &MR{pd: pd, length: -1, fixed: ofAll, access: access | OnDemand} // as a size_t the largest
	m, err := mr.open("register mr", func() (uintptr, error) {
		if ex := pd.dev.attr.Ex; ex != nil && ex.ODP.General&ODPImplicit == 0 {
			return 0, pd.dev.noPaging("registration of the whole address space")
		}
		return mr.register()
	})
	mr.length = math.MaxInt
	return m, err
}

// pages reports whether the device may know on-demand paging.
func (d *Device) pages() bool { return d.attr.Ex == nil || d.attr.Ex.ODP.General&ODPSupport != 0 }

func (d *Device) noPaging(feature string) error {
	have := d.Name() + " without it"
	if ex := d.attr.Ex; ex != nil && ex.ODP.General != 0 {
		have = fmt.Sprintf("%s with %v", d.Name(), ex.ODP.General)
	}
	return &UnsupportedError{Feature: feature, Need: "a device with on-demand paging (DeviceAttrEx.ODP)",
		Have: have + "; register without OnDemand"}
}

// Advise announces that the device will use memory registered with OnDemand, so that its pages are
// there before the first access. With wait, Advise returns when they are; without, the kernel may
// fetch them later, and does not report what it could not fetch.
//
// C: ibv_advise_mr(3); wait is IBV_ADVISE_MR_FLAG_FLUSH.
func (pd *PD) Advise(advice Advice, wait bool, sges ...SGE) error {
	return within("advise mr", pd.dev.Name(), func() error {
		if len(sges) == 0 {
			return &ArgError{Arg: "sges", Got: "none", Want: "at least one"}
		}
		c := make([]abi.SGE, len(sges))
		for i := range sges {
			if sges[i].Length > MaxSGELength {
				return sges[i].tooLong(i)
			}
			c[i] = abi.SGE{Addr: sges[i].Addr, Length: sges[i].Length, LKey: sges[i].LKey}
		}
		var f uint32
		if wait {
			f = abi.IBV_ADVISE_MR_FLAG_FLUSH
		}
		err := pd.dev.v.AdviseMR(pd.dev.handle, pd.handle, uint32(advice), f, c)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, control.ErrNoOp):
			return pd.dev.v.lacks("advice on memory", "libibverbs of rdma-core v22 or later",
				"; the first access fetches the pages")
		case advice > AdvicePrefetchNoFault:
			return &ArgError{Arg: "advice", Got: advice.String(),
				Want: "AdvicePrefetch, AdvicePrefetchWrite or AdvicePrefetchNoFault"}
		case unsupported(err):
			return &UnsupportedError{Feature: "advice " + advice.String() + " on memory",
				Need: "a driver with support for it, such as mlx5",
				Have: pd.dev.Name() + " without it; the first access fetches the pages"}
		}
		return explainAdvice(err)
	}, &pd.node)
}

// explainAdvice returns the meaning of the kernel's errno for one of the SGEs.
func explainAdvice(err error) error {
	for errno, reason := range map[syscall.Errno]string{
		syscall.EINVAL: "the memory of an SGE is not registered with OnDemand",
		syscall.ENOENT: "the LKey of an SGE is of no MR on demand",
		syscall.EPERM:  "the MR of an SGE is of another PD, or is to be written without LocalWrite",
		syscall.EFAULT: "an SGE is outside of its MR, or its memory is not mapped",
	} {
		if errors.Is(err, errno) {
			return fmt.Errorf("%s: %w", reason, err)
		}
	}
	return err
}
