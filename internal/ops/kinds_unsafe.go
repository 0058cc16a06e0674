package ops

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/work"
)

// What only some opcodes have: where their slot keeps it, and the function that posts them. A function of struct
// ibv_qp_ex takes it from the slot, also where struct ibv_send_wr has no place for it.

// fillOwn writes the fields of a slot that only some opcodes have. It reports whether the slot is complete without
// data.
func fillOwn(w *abi.SendWR, f work.Fields, wr *work.SendWR) (done bool) {
	switch {
	case f&work.Atomic != 0:
		w.SetAtomic(wr.Remote.Addr, wr.CompareAdd, wr.Swap, wr.Remote.RKey)
	case f&work.Flush != 0:
		*flushOf(w) = flush{wr.Flush.Length, uint8(wr.Flush.Type), uint8(wr.Flush.Level)}
	case f&work.Value != 0:
		copy(atomicValueOf(w)[:], wr.Inline)
		return true
	case f&work.Copy != 0:
		*copyOf(w) = [2]abi.SGE{sgeOf(&wr.SGEs[0]), sgeOf(&wr.SGEs[1])}
		return true
	}
	return false
}

// operation begins a work request on the struct ibv_qp_ex at qp. dv is its struct mlx5dv_qp_ex, 0 if it has none.
func operation(fn *abi.QPEx, qp, dv uintptr, w *abi.SendWR) {
	addr, rkey, imm := uintptr(w.Wr[0]), uintptr(uint32(w.Wr[1])), uintptr(w.ImmData)
	switch w.Opcode {
	case abi.IBV_WR_RDMA_WRITE:
		ccall.Hot(fn.RDMAWrite, qp, rkey, addr)
	case abi.IBV_WR_RDMA_WRITE_WITH_IMM:
		ccall.Hot6(fn.RDMAWriteImm, qp, rkey, addr, imm, 0, 0)
	case abi.IBV_WR_SEND:
		ccall.Hot(fn.Send, qp, 0, 0)
	case abi.IBV_WR_SEND_WITH_IMM:
		ccall.Hot(fn.SendImm, qp, imm, 0)
	case abi.IBV_WR_SEND_WITH_INV:
		ccall.Hot(fn.SendInv, qp, imm, 0)
	case abi.IBV_WR_RDMA_READ:
		ccall.Hot(fn.RDMARead, qp, rkey, addr)
	case abi.IBV_WR_ATOMIC_CMP_AND_SWP:
		ccall.Hot6(fn.AtomicCmpSwp, qp, uintptr(uint32(w.Wr[3])), addr, uintptr(w.Wr[1]), uintptr(w.Wr[2]), 0)
	case abi.IBV_WR_ATOMIC_FETCH_AND_ADD:
		ccall.Hot6(fn.AtomicFetchAdd, qp, uintptr(uint32(w.Wr[3])), addr, uintptr(w.Wr[1]), 0, 0)
	case abi.IBV_WR_LOCAL_INV:
		ccall.Hot(fn.LocalInv, qp, imm, 0)
	case abi.IBV_WR_BIND_MW:
		ccall.Hot6(fn.BindMW, qp, w.Bind.MW, uintptr(w.Bind.RKey), address(&w.Bind.BindInfo), 0, 0)
	case abi.IBV_WR_TSO:
		ccall.Hot6(fn.SendTSO, qp, w.Bind.MW, uintptr(w.Bind.RKey&0xffff), uintptr(w.Bind.RKey>>16), 0, 0)
	case abi.IBV_WR_FLUSH:
		f := flushOf(w)
		ccall.Hot6(fn.Flush, qp, rkey, addr, uintptr(f.length), uintptr(f.typ), uintptr(f.level))
	case abi.IBV_WR_ATOMIC_WRITE:
		ccall.Hot6(fn.AtomicWrite, qp, rkey, addr, address(atomicValueOf(w)), 0, 0)
	case work.RawWQE:
		ccall.Hot(cmem.At[abi.MLX5DVQPEx](dv).WRRawWQE, dv, w.Bind.MW, 0)
	case work.Memcpy:
		s := copyOf(w)
		ccall.Hot6(cmem.At[abi.MLX5DVQPEx](dv).WRMemcpy, dv, uintptr(s[0].LKey), uintptr(s[0].Addr),
			uintptr(s[1].LKey), uintptr(s[1].Addr), uintptr(s[1].Length))
	case work.Mkey:
		mkey(dv, cmem.At[work.MkeyUpdate](mkeyOf(w).update))
	}
}

// flush has the fields of a slot of IBV_WR_FLUSH in addition to an address and a key. C has no struct for it.
type flush struct {
	length     uint64
	typ, level uint8
}

// flushOf returns the place of a slot that holds its flush.
func flushOf(w *abi.SendWR) *flush { return (*flush)(unsafe.Pointer(&w.Bind)) }

// atomicValueOf returns the place of a slot that holds the value of IBV_WR_ATOMIC_WRITE.
func atomicValueOf(w *abi.SendWR) *[8]byte { return (*[8]byte)(unsafe.Pointer(&w.Bind)) }

// copyOf returns the place of a slot that holds to where and from where memory is copied.
func copyOf(w *abi.SendWR) *[2]abi.SGE { return (*[2]abi.SGE)(unsafe.Pointer(&w.Bind)) }

func sgeOf(s *work.SGE) abi.SGE { return abi.SGE{Addr: s.Addr, Length: s.Length, LKey: s.LKey} }
