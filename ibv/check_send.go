package ibv

import (
	"fmt"
	"math"

	"github.com/pureverbs/pureverbs/internal/work"
)

// opcodesOf returns the set of opcodes that a QP of the given transport takes.
func opcodesOf(t QPType) uint32 { return work.OpcodesOf(workType(t)) }

// workType returns the number by which package work knows a type.
func workType(t QPType) uint32 {
	if t == DCI {
		t = work.DCI
	} else if t == SRD {
		t = work.SRD
	}
	return uint32(t)
}

// plainOf returns the set of opcodes whose WQEs may consist of control, remote address and data
// segments alone, as SQ.Post builds them. UD, DCI and XRC have none, whose WQEs need an address or
// the number of an SRQ, nor has RawPacket, whose WQEs need a segment for the frame and whose frames have a least size.
func plainOf(t QPType) (set uint32) {
	switch t {
	case UD, SRD, DCI, XRCSend, RawPacket:
		return 0
	}
	for op := range uint32(32) {
		if f := work.FieldsOf(op); opcodesOf(t)>>op&1 != 0 && f&work.Data != 0 && f&work.Atomic == 0 {
			set |= 1 << op
		}
	}
	return set
}

// plainOps returns the opcodes whose work requests checkSend takes on the ops engine, and which
// have nothing but data, a remote address and 32 bits.
func (qp *QP) plainOps() uint32 {
	set := plainOf(qp.typ)
	if qp.dev.legacy {
		set &^= 1 << OpSendInv
	}
	return set & qp.ops
}

// checkSend reports what is wrong with a work request, whichever engine posts it. It returns
// the number of bytes to copy into the work request: those of Inline or, with that flag, of the
// SGEs.
func (qp *QP) checkSend(wr *SendWR) (inline int, err error) {
	if wr.Opcode > 31 || qp.ops>>wr.Opcode&1 == 0 {
		return 0, qp.opcodeError(wr)
	}
	f := work.FieldsOf(uint32(wr.Opcode))
	if odd := wr.Flags &^ (Fence | Signaled | Solicited | Inline); odd != 0 {
		if qp.mayChecksum() {
			odd &^= IPCsum
		}
		if odd != 0 {
			return 0, &ArgError{Arg: "Flags", Got: odd.String(), Want: qp.wantFlags()}
		}
	}
	if f&work.InvalidateRKey != 0 && qp.dev.legacy {
		return 0, &UnsupportedError{Feature: "invalidating a key", Need: "libibverbs of rdma-core or MLNX_OFED 5",
			Have: "MLNX_OFED 4"}
	}
	switch {
	case f&work.Flush != 0 || f&work.Value != 0:
		if err := checkExtended(wr, f); err != nil {
			return 0, err
		}
	case f&(work.Copy|work.WholeWQE) != 0:
		if err := qp.checkMLX5(wr, f); err != nil {
			return 0, err
		}
	case f&work.Data == 0:
		if len(wr.SGEs) > 0 || wr.Inline != nil || wr.Flags&Inline != 0 {
			return 0, &ArgError{Arg: "SGEs and Inline", Got: "set", Want: "nothing with " + wr.Opcode.String()}
		}
	case wr.Inline != nil && len(wr.SGEs) > 0:
		return 0, &ArgError{Arg: "Inline and SGEs", Got: "both set", Want: "one of them"}
	case (wr.Inline != nil || wr.Flags&Inline != 0) && f&work.Inline == 0:
		return 0, &ArgError{Arg: "Inline", Got: "set", Want: "not with " + wr.Opcode.String() + ", which receives data"}
	case wr.Inline != nil:
		inline = len(wr.Inline)
	case len(wr.SGEs) > qp.cap.MaxSendSGE:
		return 0, &LimitError{What: "sge", Asked: uint64(len(wr.SGEs)), Limit: uint64(qp.cap.MaxSendSGE),
			Where: "qp " + qp.name + " (QPOptions.MaxSendSGE)"}
	case wr.Opcode == OpRead && len(wr.SGEs) > qp.dev.attr.MaxSGERead && qp.dev.attr.MaxSGERead > 0:
		return 0, &LimitError{What: "sge", Asked: uint64(len(wr.SGEs)), Limit: uint64(qp.dev.attr.MaxSGERead),
			Where: "a read on " + qp.dev.Name() + " (DeviceAttr.MaxSGERead)"}
	}
	if f&work.Window != 0 {
		if err := wr.Bind.checkPosted(qp); err != nil {
			return 0, err
		}
	}
	if f&work.MkeyChange != 0 {
		if err := qp.checkMkey(wr.Mkey); err != nil {
			return 0, err
		}
	}
	for i := range wr.SGEs {
		s := &wr.SGEs[i]
		if s.Length > MaxSGELength {
			return 0, s.tooLong(i)
		}
		if wr.Flags&Inline != 0 {
			inline += int(s.Length)
		}
	}
	if inline > qp.cap.MaxInline {
		return 0, &LimitError{What: "inline bytes", Asked: uint64(inline), Limit: uint64(qp.cap.MaxInline),
			Where: "qp " + qp.name + " (what was granted of QPOptions.MaxInline)"}
	}
	if f&work.Remote != 0 && wr.Remote.outside != 0 {
		return 0, wr.Remote.outsideError()
	}
	if qp.typ == RawPacket {
		if err := qp.checkFrame(wr); err != nil {
			return 0, err
		}
	}
	if f&work.TSO != 0 {
		if err := qp.checkTSO(wr); err != nil {
			return 0, err
		}
	}
	if f&work.Atomic != 0 && (len(wr.SGEs) != 1 || wr.SGEs[0].Length != 8) {
		return 0, &ArgError{Arg: "SGEs", Got: describeSGEs(wr.SGEs), Want: "one of 8 bytes, for the previous value"}
	}
	if qp.checksTargets() && (f&work.Atomic != 0 || wr.Opcode == OpRead && lengthOf(wr.SGEs) <= mostCarried) {
		if err := qp.dev.checkTarget(wr.SGEs, false); err != nil {
			return 0, err
		}
	}
	if f&work.Masked != 0 {
		if err := qp.checkMasked(wr); err != nil {
			return 0, err
		}
	}
	if !qp.typ.datagrams() && qp.typ != DCI || f&work.Data == 0 {
		if qp.typ == XRCSend && wr.RemoteSRQN > max24 {
			return 0, &LimitError{What: "remote srqn", Asked: uint64(wr.RemoteSRQN), Limit: max24,
				Where: "a 24-bit field"}
		}
		if wr.AH != nil {
			return 0, &ArgError{Arg: "AH", Got: "set", Want: "nil on a " + qp.typ.String() + " QP"}
		}
		return inline, nil
	}
	switch {
	case wr.AH == nil:
		return 0, &ArgError{Arg: "AH", Got: "nil",
			Want: "the address of the peer, on a " + qp.wantAddress()}
	case wr.AH.pd.root != qp.pd.root:
		return 0, &ArgError{Arg: "AH", Got: "one of another PD", Want: "one of the QP's PD"}
	case wr.RemoteQPN > 0xffffff:
		return 0, &LimitError{What: "remote qpn", Asked: uint64(wr.RemoteQPN), Limit: 0xffffff, Where: "a 24-bit field"}
	}
	if qp.typ == DCI && wr.DCStream != 0 && !qp.streams {
		return 0, &ArgError{Arg: "DCStream", Got: fmt.Sprint(wr.DCStream),
			Want: "0, or a DCI with streams (mlx5dv.DCOptions.LogStreams)"}
	}
	return inline, nil
}

func (qp *QP) wantAddress() string {
	if qp.typ == DCI {
		return "DCI QP: set SendWR.AH, RemoteQPN and DCKey"
	}
	return qp.typ.String() + " QP: use SendTo, or set SendWR.AH"
}

// mayChecksum reports whether the QP takes the flag IPCsum. libmlx5 takes it on UD, with an effect on underlay QPs only
// (rdma-core v44.0, providers/mlx5/qp.c), which this package does not create.
func (qp *QP) mayChecksum() bool {
	if qp.typ == UD {
		_, is := qp.dev.mlx5()
		return !is
	}
	return qp.typ == RawPacket
}

func (qp *QP) wantFlags() string {
	if qp.mayChecksum() {
		return "Fence, Signaled, Solicited, Inline, IPCsum"
	}
	return "Fence, Signaled, Solicited, Inline on a " + qp.typ.String() + " QP"
}

const needAtomics = "a device with atomics (DeviceAttr.AtomicCap)"

// plainAtomics are the atomics that a device may lack. Those with masks have capabilities of their own.
const plainAtomics = 1<<OpCompareSwap | 1<<OpFetchAdd

// lackedOps returns the opcodes that QPs of the device cannot post.
func (d *Device) lackedOps() uint32 {
	if d.attr.AtomicCap == AtomicNone {
		return plainAtomics
	}
	return 0
}

// opcodeError returns the error of an opcode that the QP does not take.
func (qp *QP) opcodeError(wr *SendWR) error {
	op := wr.Opcode
	set := fmt.Sprintf("an opcode of a %v QP", qp.typ)
	switch {
	case opcodesOf(qp.typ) == 0:
		return &ArgError{Arg: "Opcode", Got: op.String(), Want: "nothing: a " + qp.typ.String() + " QP does not send"}
	case op < 32 && opcodesOf(qp.typ)&work.ExtendedOnly>>op&1 != 0:
		return &UnsupportedError{Feature: "posting " + op.String(), Need: "a QP whose QPOptions.SendOps include it",
			Have: "one whose do not"}
	case op < 32 && opcodesOf(qp.typ)&plainAtomics>>op&1 != 0 && qp.dev.attr.AtomicCap == AtomicNone:
		return &UnsupportedError{Feature: "posting " + op.String(), Need: needAtomics,
			Have: qp.dev.Name() + " without them"}
	case op < 32 && work.MLX5OpcodesOf(workType(qp.typ))&work.MaskedAtomics>>op&1 != 0:
		if wr.Masked == nil {
			return needMasked(op)
		}
		return qp.maskedError(op)
	case qp.onlySendOps:
		set += " that is in its QPOptions.SendOps"
	}
	return &ArgError{Arg: "Opcode", Got: op.String(), Want: set + ": " + opcodeNamesOf(qp.ops&^work.MaskedAtomics)}
}

// checkExtended reports what is wrong with a work request that struct ibv_send_wr has no room for.
func checkExtended(wr *SendWR, f work.Fields) error {
	switch r := wr.Flush; {
	case len(wr.SGEs) > 0 || wr.Flags&Inline != 0:
		return &ArgError{Arg: "SGEs and the flag Inline", Got: "set", Want: "nothing with " + wr.Opcode.String()}
	case f&work.Value != 0:
		if len(wr.Inline) != 8 {
			return &ArgError{Arg: "Inline", Got: fmt.Sprintf("%d bytes", len(wr.Inline)),
				Want: "the 8 bytes to write with " + wr.Opcode.String()}
		}
	case wr.Inline != nil:
		return &ArgError{Arg: "Inline", Got: "set", Want: "nothing with " + wr.Opcode.String()}
	case r == nil:
		return &ArgError{Arg: "Flush", Got: "nil", Want: "what to flush"}
	case r.Type == 0 || r.Type&^(FlushToMemory|FlushToPersistence) != 0:
		return &ArgError{Arg: "Flush.Type", Got: r.Type.String(), Want: "FlushToMemory, FlushToPersistence or both"}
	case r.Level > FlushMR:
		return &ArgError{Arg: "Flush.Level", Got: r.Level.String(), Want: "FlushBytes or FlushMR"}
	case r.Length > math.MaxUint32:
		return &LimitError{What: "Flush.Length", Asked: r.Length, Limit: math.MaxUint32, Where: "a 32-bit field"}
	}
	return nil
}

func describeSGEs(sges []SGE) string {
	if len(sges) == 1 {
		return fmt.Sprintf("one of %d bytes", sges[0].Length)
	}
	return fmt.Sprint(len(sges))
}
