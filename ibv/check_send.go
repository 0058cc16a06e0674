package ibv

import (
	"fmt"
	"strings"

	"github.com/pureverbs/pureverbs/internal/work"
)

// opcodesOf returns the set of opcodes of verbs that a QP of the given transport takes.
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
	return opcodesOf(t) & work.WithFields(work.Data) &^ work.WithFields(work.Atomic)
}

// checkSend reports what is wrong with a work request, whichever engine posts it. It returns
// the number of bytes to copy into the work request: those of Inline or, with that flag, of the
// SGEs.
func (sq *sender) checkSend(wr *SendWR) (inline int, err error) {
	qp := sq.qp
	if wr.Opcode > 31 || sq.ops>>wr.Opcode&1 == 0 {
		return 0, sq.opcodeError(wr)
	}
	if wr.Flags&^(Fence|Signaled|Solicited|Inline) != 0 {
		if err := sq.checkFlags(wr.Flags); err != nil {
			return 0, err
		}
	}
	f := work.FieldsOf(uint32(wr.Opcode))
	if f&work.Data != 0 {
		switch {
		case wr.Inline != nil && len(wr.SGEs) > 0:
			return 0, &ArgError{Arg: "Inline and SGEs", Got: "both set", Want: "one of them"}
		case (wr.Inline != nil || wr.Flags&Inline != 0) && f&work.Inline == 0:
			return 0, &ArgError{Arg: "Inline", Got: "set",
				Want: "not with " + wr.Opcode.String() + ", which receives data"}
		case len(wr.SGEs) > qp.cap.MaxSendSGE:
			return 0, &LimitError{What: "sge", Asked: uint64(len(wr.SGEs)), Limit: uint64(qp.cap.MaxSendSGE),
				Where: "qp " + qp.name + " (QPOptions.MaxSendSGE)"}
		}
		inline = len(wr.Inline)
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
	}
	if f&work.Inline == 0 { // all but plain sends and writes
		if err := checkKind(qp, wr); err != nil {
			return 0, err
		}
	}
	if f&work.Remote != 0 && wr.Remote.outside != 0 {
		return 0, wr.Remote.outsideError()
	}
	if qp.typ > UC || wr.AH != nil {
		err = sq.checkType(wr, f)
	}
	return inline, err
}

// checkType reports what is wrong with the parts of a work request that depend on the type of the QP.
func (sq *sender) checkType(wr *SendWR, f work.Fields) error {
	qp := sq.qp
	if qp.typ == RawPacket {
		if err := sq.checkFrame(wr); err != nil {
			return err
		}
	}
	if !qp.typ.named() || f&work.Data == 0 {
		switch {
		case qp.typ == XRCSend && wr.RemoteSRQN > max24:
			return &LimitError{What: "remote srqn", Asked: uint64(wr.RemoteSRQN), Limit: max24,
				Where: "a 24-bit field"}
		case wr.AH != nil:
			return &ArgError{Arg: "AH", Got: "set", Want: "nil on a " + qp.typ.String() + " QP"}
		}
		return nil
	}
	switch {
	case wr.AH == nil:
		return &ArgError{Arg: "AH", Got: "nil", Want: "the address of the peer, on a " + sq.wantAddress()}
	case wr.AH.pd.root != qp.pd.root:
		return &ArgError{Arg: "AH", Got: "one of another PD", Want: "one of the QP's PD"}
	case wr.RemoteQPN > max24:
		return &LimitError{What: "remote qpn", Asked: uint64(wr.RemoteQPN), Limit: max24, Where: "a 24-bit field"}
	case qp.typ == DCI && wr.DCStream != 0 && !qp.make.streams:
		return &ArgError{Arg: "DCStream", Got: fmt.Sprint(wr.DCStream),
			Want: "0, or a DCI with streams (mlx5dv.DCOptions.LogStreams)"}
	}
	return nil
}

// named reports whether the work requests of a QP that have data name their peer.
func (t QPType) named() bool { return t.datagrams() || t == DCI }

func (sq *sender) wantAddress() string {
	if sq.qp.typ == DCI {
		return "DCI QP: set SendWR.AH, RemoteQPN and DCKey"
	}
	return sq.qp.typ.String() + " QP: use SendTo, or set SendWR.AH"
}

// mayChecksum reports whether the QP takes the flag IPCsum. libmlx5 takes it on UD, with an effect on underlay QPs only
// (rdma-core v44.0, providers/mlx5/qp.c), which this package does not create.
func (sq *sender) mayChecksum() bool {
	qp := sq.qp
	if qp.typ == UD {
		_, is := qp.dev.mlx5()
		return !is
	}
	return qp.typ == RawPacket
}

// checkFlags reports the flags that the QP does not take.
func (sq *sender) checkFlags(flags SendFlags) error {
	known, of := Fence|Signaled|Solicited|Inline, " on a "+sq.qp.typ.String()+" QP"
	if sq.mayChecksum() {
		known, of = known|IPCsum, ""
	}
	if odd := flags &^ known; odd != 0 {
		return &ArgError{Arg: "Flags", Got: odd.String(), Want: strings.ReplaceAll(known.String(), "|", ", ") + of}
	}
	return nil
}

const needAtomics = "a device with atomics (DeviceAttr.AtomicCap)"

// lackedOps returns the opcodes that QPs of the device cannot post.
func (d *Device) lackedOps() (set uint32) {
	if d.attr.AtomicCap == AtomicNone {
		set = work.Granted(work.ByAtomics)
	}
	if d.keys != nil {
		set |= work.WithFields(work.InvalidateRKey)
	}
	return set
}

// opcodeError returns the error of an opcode that the QP does not take.
func (sq *sender) opcodeError(wr *SendWR) error {
	qp := sq.qp
	op := wr.Opcode
	set := fmt.Sprintf("an opcode of a %v QP", qp.typ)
	has := func(set uint32) bool { return op < 32 && set>>op&1 != 0 }
	granted := func(by work.Grant) bool { return has(work.GrantedTo(workType(qp.typ), by)) }
	switch {
	case opcodesOf(qp.typ) == 0:
		return &ArgError{Arg: "Opcode", Got: op.String(), Want: "nothing: a " + qp.typ.String() + " QP does not send"}
	case granted(work.BySendOps):
		return &UnsupportedError{Feature: "posting " + op.String(), Need: "a QP whose QPOptions.SendOps include it",
			Have: "one whose do not"}
	case granted(work.ByAtomics) && has(qp.dev.lackedOps()):
		return &UnsupportedError{Feature: "posting " + op.String(), Need: needAtomics,
			Have: qp.dev.Name() + " without them"}
	case granted(work.ByType) && has(qp.dev.lackedOps()):
		return qp.dev.needKeys("invalidating a key")
	case granted(work.ByMasks):
		if wr.Masked == nil {
			return needMasked(op)
		}
		return sq.maskedError(op)
	case sq.onlySendOps:
		set += " that is in its QPOptions.SendOps"
	}
	return &ArgError{Arg: "Opcode", Got: op.String(),
		Want: set + ": " + opcodeNamesOf(sq.ops&^work.Granted(work.ByMasks))}
}
