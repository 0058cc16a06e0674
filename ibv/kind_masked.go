package ibv

import (
	"encoding/binary"
	"fmt"

	"github.com/pureverbs/pureverbs/internal/work"
)

// OpMaskedCompareSwap and OpMaskedFetchAdd are atomics of 8 to 32 bytes: see MaskedAtomic.
// C: IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP and _FETCH_AND_ADD of MLNX_OFED 4.
const (
	OpMaskedCompareSwap Opcode = 18
	OpMaskedFetchAdd    Opcode = 19
)

func (m *MaskedAtomic) bytes() uint32 { return (*work.MaskedAtomic)(m).Bytes() }

func needMasked(op Opcode) error {
	return &ArgError{Arg: "Masked", Got: "nil", Want: "the operands of " + op.String()}
}

// checkMasked reports what is wrong with an atomic with masks.
//
//kind:check OpMaskedCompareSwap OpMaskedFetchAdd
func checkMasked(qp *QP, wr *SendWR) error {
	m := wr.Masked
	if m == nil {
		return needMasked(wr.Opcode)
	}
	switch n := m.bytes(); {
	case n != 8 && n != 16 && n != 32:
		return &ArgError{Arg: "Masked.Size", Got: fmt.Sprint(n), Want: "8, 16 or 32 bytes"}
	case len(wr.SGEs) != 1 || wr.SGEs[0].Length != n:
		return &ArgError{Arg: "SGEs", Got: describeSGEs(wr.SGEs),
			Want: fmt.Sprintf("one of %d bytes, for the previous value", n)}
	case qp.make.maxAtomic > 0 && n > qp.make.maxAtomic:
		return &LimitError{What: "Masked.Size", Asked: uint64(n), Limit: uint64(qp.make.maxAtomic),
			Where: "qp " + qp.name + " (mlx5dv.QPOptions.MaxAtomic)"}
	case qp.make.maxAtomic > 0:
		return nil
	case qp.sq.signalAll:
		return qp.sq.maskedInCQE(wr.Opcode, "SignalAll", "the flag Signaled instead")
	case qp.inCQE.asked:
		return qp.sq.maskedInCQE(wr.Opcode, "mlx5dv.AllowScatterToCQE", "a QP without it")
	}
	return qp.sq.checkReply(wr, m.bytes())
}

// checkReply reports why the previous value of an atomic with masks of n bytes cannot be returned in memory's order.
func (sq *sender) checkReply(wr *SendWR, n uint32) error {
	qp := sq.qp
	caps, err := qp.dev.maskedAtomics()
	if err != nil {
		return &UnsupportedError{Feature: "posting " + wr.Opcode.String(),
			Need: "DevX, by which the device reports the order of bytes of the previous value", Have: err.Error()}
	}
	sizes := caps.QP
	if qp.typ == DCI {
		sizes = caps.DC
	}
	switch {
	case sizes&n == 0:
		return &UnsupportedError{Feature: fmt.Sprintf("posting %v of %d bytes", wr.Opcode, n),
			Need: "a device that executes them (mlx5dv.QueryMaskedAtomics)",
			Have: fmt.Sprintf("%s with the set of sizes %#x", qp.dev.Name(), sizes)}
	case caps.BigEndian&n == 0:
		return nil
	case wr.Flags&Signaled == 0:
		return &ArgError{Arg: "Flags", Got: wr.Flags.String(), Want: fmt.Sprintf("Signaled: Poll swaps the words of a "+
			"previous value of %d bytes when it takes the completion", n)}
	case !qp.dev.elsewhere.any.Load():
		return nil
	}
	if kind, _ := qp.dev.elsewhere.check(wr.SGEs, false); kind != "" {
		return &ArgError{Arg: "SGEs", Got: kind, Want: fmt.Sprintf("an MR of this process's memory: the CPU swaps the "+
			"words of a previous value of %d bytes", n)}
	}
	return nil
}

// maskedSizes has the sizes in bytes of atomics with masks, as bits: 8|16 are 8 and 16 bytes.
type maskedSizes struct{ QP, DC, BigEndian uint32 }

// MaskedAtomics returns the atomics with masks that the device reports by DevX.
func (friends) MaskedAtomics(d *Device, op string) (maskedSizes, error) {
	if err := d.enter(op); err != nil {
		return maskedSizes{}, err
	}
	defer d.leave()
	return d.maskedAtomics()
}

// maskedAtomics asks the device once.
// Preconditions: the device is open.
func (d *Device) maskedAtomics() (maskedSizes, error) {
	m := &d.direct.masked
	m.once.Do(func() {
		if m.sizes, m.err = d.queryMasked(); m.err == nil {
			d.direct.qps.BigEndian(m.sizes.BigEndian)
		}
	})
	return m.sizes, m.err
}

// queryMasked reads the group of capabilities that describes atomics.
func (d *Device) queryMasked() (s maskedSizes, err error) {
	const (
		queryHCACap   = 0x100
		atomicCurrent = 3<<1 | 1
	)
	lib, ok := d.mlx5()
	if !ok {
		return s, &UnsupportedError{Feature: "DevX", Need: "an mlx5 device", Have: d.Name()}
	}
	in, out := make([]byte, 16), make([]byte, 16+4096)
	binary.BigEndian.PutUint16(in, queryHCACap)
	binary.BigEndian.PutUint16(in[6:], atomicCurrent)
	if err := lib.DevXGeneralCmd(d.handle, in, out); err != nil {
		if why := d.whyNoDevX(); why != nil {
			err = why
		}
		return s, fmt.Errorf("QUERY_HCA_CAP: %w", err)
	}
	return maskedOf(out[16:]), nil
}

// maskedOf decodes the capabilities of atomics. The previous value is big-endian for all sizes, but of 8 bytes only
// without the mode of 8 bytes.
//
// C: struct mlx5_ifc_atomic_caps_bits (rdma-core v64.0, providers/mlx5/mlx5_ifc.h); ext_atomic_arg_sizes_be (UCX
// v1.18, src/uct/ib/mlx5/dv/ib_mlx5dv_md.c).
func maskedOf(caps []byte) (s maskedSizes) {
	const masked = 3 << 2 // of the operations
	be := binary.BigEndian
	if be.Uint16(caps[18:])&masked != masked {
		return s
	}
	s.QP, s.DC = uint32(be.Uint16(caps[22:])), uint32(be.Uint16(caps[26:]))
	if s.BigEndian = s.QP | s.DC; caps[8]>>6 != 0 {
		s.BigEndian &^= 8
	}
	return s
}

// maskedInCQE is the error of a QP that takes no atomics with masks because of an option: no source documents the order
// of bytes of a previous value that is in a completion.
func (sq *sender) maskedInCQE(op Opcode, option, instead string) error {
	return &UnsupportedError{Feature: "posting " + op.String() + " on a QP with " + option,
		Need: instead + ", with which no completion carries the previous value",
		Have: "a QP whose completions may carry it, in an order of bytes that is not known"}
}

// maskedError returns the requirements of an atomic with masks.
func (sq *sender) maskedError(op Opcode) error {
	have := "a QP of the data path " + sq.qp.path().String()
	if sq.direct != nil {
		have = "one with QPOptions.SendOps, which do not name them"
	}
	return &UnsupportedError{Feature: "posting " + op.String(), Have: have,
		Need: "a QP of the direct data path, without SendOps; with MLNX_OFED 4, one with mlx5dv.QPOptions.MaxAtomic"}
}
