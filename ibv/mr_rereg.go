package ibv

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/dma"
)

// ReregOptions are the changes of MR.Rereg; zero fields change nothing.
type ReregOptions struct {
	PD     *PD          // another PD of the same Device
	Buf    []byte       // another slice, pinned as by RegMR
	Access *AccessFlags // new access flags
}

// Rereg changes the PD, the memory or the access of the MR; a nil opt changes nothing. The keys
// change. No operation on the MR may be in progress. If the error reports that the MR is lost, the MR can only be
// closed. A device may refuse the change of an MR that a memory window is bound to; such an MR is unchanged.
//
// C: ibv_rereg_mr(3).
func (mr *MR) Rereg(opt *ReregOptions) error {
	const op = "reregister mr"
	if opt == nil {
		opt = &ReregOptions{}
	}
	if !mr.life.Lock() {
		return mr.errClosed(op)
	}
	defer mr.life.Unlock()
	name := mr.name
	if mr.fixed != "" {
		return &OpError{Op: op, Object: name, Err: &ArgError{Arg: "the MR", Got: mr.fixed,
			Want: "one of RegMR, AllocMR or RegMemory: close it and register again"}}
	}
	var (
		flags  uint32
		pd     uintptr
		addr   = mr.addr
		length = mr.length
		access AccessFlags
		pin    *dma.Pinned
	)
	if opt.Access != nil {
		if err := errors.Join(opt.Access.checkMemory(), opt.Access.checkRereg()); err != nil {
			return &OpError{Op: op, Object: name, Err: err, Detail: "the MR is unchanged"}
		}
	}
	if opt.PD != nil {
		if opt.PD.dev != mr.pd.dev {
			return &OpError{Op: op, Object: name, Err: &ArgError{Arg: "PD", Got: "a PD of another Device",
				Want: "a PD of the same Device"}}
		}
		if err := opt.PD.enter(op); err != nil {
			return err
		}
		defer opt.PD.leave()
		flags, pd = flags|abi.IBV_REREG_MR_CHANGE_PD, opt.PD.handle
	}
	if opt.Buf != nil {
		if len(opt.Buf) == 0 {
			return &OpError{Op: op, Object: name, Err: &ArgError{Arg: "Buf", Got: "0 bytes", Want: "at least 1 byte"}}
		}
		pin = dma.Pin(opt.Buf)
		flags, addr, length = flags|abi.IBV_REREG_MR_CHANGE_TRANSLATION, cmem.SliceAddr(opt.Buf), len(opt.Buf)
	}
	if opt.Access != nil {
		flags, access = flags|abi.IBV_REREG_MR_CHANGE_ACCESS, *opt.Access
		if !mr.pd.dev.v.HasRegMRIOVA2() {
			access &^= optionalAccess
		}
	}
	if flags == 0 {
		return nil
	}
	if opt.Buf != nil {
		mr.pd.dev.holdCompletions()
	}
	code, err := mr.pd.dev.v.ReregMR(mr.handle, flags, pd, addr, length, uint32(access))
	changed := code == 0 || code == reregOldForked
	if !changed {
		pin.Unpin()
	}
	if code != 0 {
		if err == nil {
			err = errInvalid
		}
		detail := reregFailure(code)
		if why := mr.unchanged(err); why != "" {
			detail = why + "; the MR is unchanged"
		}
		err = &OpError{Op: op, Object: name, Err: mr.pd.dev.explainRegister(err, length, access), Detail: detail}
	}
	if !changed {
		return err
	}
	if opt.Buf != nil {
		mr.pin.Unpin()
		mr.pin = pin
		old := mr.mem
		mr.buf, mr.addr, mr.length, mr.iova, mr.mem = opt.Buf, addr, length, uint64(addr), nil
		if old != nil {
			err = errors.Join(err, old.Free())
		}
	}
	if opt.PD != nil && opt.PD != mr.pd {
		mr.life.Move(0, &opt.PD.life)
		mr.pd = opt.PD
	}
	if opt.Access != nil {
		mr.access = *opt.Access
	}
	mr.takeKeys()
	return err
}

// unchanged returns why a refused change has left the MR as it was, "" if it may not have.
func (mr *MR) unchanged(err error) string {
	switch {
	case unsupported(err):
		return "the device does not support it"
	case mr.access&MWBind != 0 && errors.Is(err, syscall.EBUSY):
		return "memory windows are bound to it, which must be closed first"
	}
	return ""
}

// checkRereg checks rights that the kernel refuses before it asks the device (Linux, include/rdma/ib_verbs.h,
// ib_check_mr_access): C then says that the MR is lost.
func (f AccessFlags) checkRereg() error {
	switch {
	case f&^knownAccess != 0:
		return &ArgError{Arg: "access", Got: f.String(), Want: fmt.Sprintf("of %v", knownAccess&^AccessOptional|
			RelaxedOrdering)}
	case f&(RemoteWrite|RemoteAtomic) != 0 && f&LocalWrite == 0:
		return &ArgError{Arg: "access", Got: f.String(), Want: "with LocalWrite"}
	}
	return nil
}

// reregOldForked is the one failure that leaves the MR changed.
// C: IBV_REREG_MR_ERR_DO_FORK_OLD.
const reregOldForked = -3

// reregFailure returns the meaning of an enum ibv_rereg_mr_err_code.
func reregFailure(code int) string {
	switch code {
	case -1:
		return "the input is invalid; the MR is unchanged"
	case -2:
		return "the new memory could not be protected against fork; the MR is unchanged"
	case reregOldForked:
		return "the old memory could not be unprotected; the MR has changed"
	case -4:
		return "the command failed; the MR is lost and can only be closed"
	case -5:
		return "the command failed and fork protection could not be restored; the MR is lost and can only be closed"
	}
	return fmt.Sprintf("library code %d", code)
}
