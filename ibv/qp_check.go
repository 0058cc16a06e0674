package ibv

import (
	"errors"
	"fmt"
)

// field is a value for a field of fewer bits than its Go type has. Devices and drivers truncate
// such values silently: a timeout of 32 would become 0, no timeout.
type field struct {
	name  string
	value uint32
	bits  int
}

func checkFields(fields ...field) error {
	var errs []error
	for _, f := range fields {
		if most := uint32(1)<<f.bits - 1; f.value > most {
			errs = append(errs, &LimitError{What: f.name, Asked: uint64(f.value), Limit: uint64(most),
				Where: fmt.Sprintf("a field of %d bits", f.bits)})
		}
	}
	return errors.Join(errs...)
}

// check reports the attributes named by mask that are invalid on any device.
func (a *QPAttr) check(mask QPAttrMask) error {
	var errs []error
	for _, f := range []struct {
		mask QPAttrMask
		field
	}{
		{MaskDestQPN, field{"dest_qpn", a.DestQPN, 24}},
		{MaskRQPSN, field{"rq_psn", a.RQPSN, 24}},
		{MaskSQPSN, field{"sq_psn", a.SQPSN, 24}},
		{MaskTimeout, field{"timeout", uint32(a.Timeout), 5}},
		{MaskAltPath, field{"alt_timeout", uint32(a.AltTimeout), 5}},
		{MaskRetryCnt, field{"retry_cnt", uint32(a.RetryCnt), 3}},
		{MaskRNRRetry, field{"rnr_retry", uint32(a.RNRRetry), 3}},
		{MaskMinRNRTimer, field{"min_rnr_timer", uint32(a.MinRNRTimer), 5}},
	} {
		if mask&f.mask != 0 {
			errs = append(errs, checkFields(f.field))
		}
	}
	if mask&MaskPathMTU != 0 && a.PathMTU.Bytes() == 0 {
		errs = append(errs, &ArgError{Arg: "PathMTU", Got: fmt.Sprintf("MTU(%d)", uint32(a.PathMTU)),
			Want: "one of MTU256 to MTU4096"})
	}
	if mask&MaskAccessFlags != 0 {
		errs = append(errs, a.Access.checkPeer())
	}
	if mask&MaskAV != 0 {
		errs = append(errs, a.AV.check())
	}
	if mask&MaskAltPath != 0 {
		errs = append(errs, a.AltAV.check())
	}
	if mask&MaskCap != 0 {
		errs = append(errs, &UnsupportedError{Feature: "resizing the queues of a qp",
			Need: "a new qp with other QPOptions"})
	}
	return errors.Join(errs...)
}

// check reports values that do not fit in a packet.
func (a *AHAttr) check() error {
	errs := []error{checkFields(field{"sl", uint32(a.SL), 4}, field{"src_path_bits", uint32(a.SrcPathBits), 7})}
	if a.Global {
		errs = append(errs, checkFields(field{"flow_label", a.FlowLabel, 20}))
	}
	return errors.Join(errs...)
}

const remoteAccess = RemoteWrite | RemoteRead | RemoteAtomic | FlushGlobal | FlushPersistent

// knownAccess are the flags that some device takes for memory.
const knownAccess = LocalWrite | RemoteWrite | RemoteRead | RemoteAtomic | MWBind | ZeroBased | OnDemand | HugeTLB |
	FlushGlobal | FlushPersistent | AccessOptional

// checkPeer checks the access of a QP's peer.
func (f AccessFlags) checkPeer() error {
	if f&AccessNone != 0 && f&remoteAccess != 0 {
		return &ArgError{Arg: "access", Got: f.String(), Want: "AccessNone or what the peer may do, not both"}
	}
	return nil
}

// checkMemory checks the access to an MR.
func (f AccessFlags) checkMemory() error {
	if f&AccessNone != 0 {
		return &ArgError{Arg: "access", Got: f.String(), Want: "without AccessNone, which is for queue pairs: " +
			"memory is closed to peers unless a flag opens it"}
	}
	return nil
}

// beyond returns the values of a refused change that exceed what the device or its port takes.
// The kernel returns EINVAL for each of them.
func (qp *QP) beyond(a *QPAttr, mask QPAttrMask) []error {
	d := qp.dev
	name := d.Name()
	var limits []limit
	if mask&MaskMaxQPRdAtomic != 0 {
		limits = append(limits, limit{"max_rd_atomic", int(a.MaxRdAtomic), d.attr.MaxQPInitRdAtom})
	}
	if mask&MaskMaxDestRdAtomic != 0 {
		limits = append(limits, limit{"max_dest_rd_atomic", int(a.MaxDestRdAtomic), d.attr.MaxQPRdAtom})
	}
	var errs []error
	if mask&MaskAccessFlags != 0 && a.Access&RemoteAtomic != 0 && d.attr.AtomicCap == AtomicNone {
		errs = append(errs, &UnsupportedError{Feature: "RemoteAtomic", Need: needAtomics, Have: name + " without them"})
	}
	port := a.Port
	if mask&MaskPort == 0 {
		port = a.AV.Port
	}
	if mask&(MaskPort|MaskAV) != 0 {
		switch pa, err := d.QueryPort(port); {
		case err != nil:
			errs = append(errs, err)
		default:
			if mask&MaskPort != 0 && mask&MaskPKeyIndex != 0 {
				limits = append(limits, limit{pkeyEntry, int(a.PKeyIndex), pa.PKeyTableLen - 1})
			}
			if mask&MaskAV != 0 && a.AV.Global {
				limits = append(limits, limit{gidEntry, int(a.AV.SGIDIndex), pa.GIDTableLen - 1})
			}
			if mask&MaskPathMTU != 0 && pa.ActiveMTU.Bytes() != 0 {
				limits = append(limits, limit{"path MTU", a.PathMTU.Bytes(), pa.ActiveMTU.Bytes()})
			}
		}
	}
	for _, l := range limits {
		if l.asked > l.most && l.most >= 0 {
			errs = append(errs, l.error(name))
		}
	}
	return errs
}
