package work

import (
	"math/bits"
	"testing"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// The opcodes of each transport, as in ibv_post_send(3).
func TestOpcodesOf(t *testing.T) {
	const (
		write = 1<<abi.IBV_WR_RDMA_WRITE | 1<<abi.IBV_WR_RDMA_WRITE_WITH_IMM
		send  = 1<<abi.IBV_WR_SEND | 1<<abi.IBV_WR_SEND_WITH_IMM
		inv   = 1<<abi.IBV_WR_LOCAL_INV | 1<<abi.IBV_WR_BIND_MW
		rc    = write | send | inv | 1<<abi.IBV_WR_SEND_WITH_INV | 1<<abi.IBV_WR_RDMA_READ |
			1<<abi.IBV_WR_ATOMIC_CMP_AND_SWP | 1<<abi.IBV_WR_ATOMIC_FETCH_AND_ADD
	)
	for qpType, want := range map[uint32]uint32{
		abi.IBV_QPT_RC: rc | Granted(BySendOps), abi.IBV_QPT_XRC_SEND: rc, DCI: rc &^ (1 << abi.IBV_WR_BIND_MW),
		abi.IBV_QPT_UC: write | send | inv, abi.IBV_QPT_UD: send,
		abi.IBV_QPT_RAW_PACKET: 1<<abi.IBV_WR_SEND | 1<<abi.IBV_WR_TSO,
		abi.IBV_QPT_XRC_RECV:   0, abi.IBV_QPT_DRIVER: 0, 0: 0,
	} {
		if got := OpcodesOf(qpType); got != want {
			t.Errorf("type %d: opcodes %#x, want %#x", qpType, got, want)
		}
	}
}

// Fields that imply or exclude each other, and unknown opcodes.
func TestFieldsOf(t *testing.T) {
	for op := range uint32(100) {
		f := FieldsOf(op)
		switch {
		case f == 0:
			if OpcodesOf(abi.IBV_QPT_RC)>>op&1 != 0 {
				t.Errorf("opcode %d: no fields", op)
			}
		case f&Inline != 0 && f&Data == 0, f&Swap != 0 && f&Atomic == 0, f&Atomic != 0 &&
			f&(Remote|Data) != Remote|Data,
			f&Imm != 0 && f&InvalidateRKey != 0, f&Atomic != 0 && f&Inline != 0,
			f&Window != 0 && f != Window:
			t.Errorf("opcode %d: fields %#x", op, f)
		}
	}
}

func TestImmOrKey(t *testing.T) {
	w := &SendWR{Imm: 1, InvalidateRKey: 2}
	if w.ImmOrKey(Data) != 0 || w.ImmOrKey(Data|Imm) != 1 || w.ImmOrKey(InvalidateRKey) != 2 {
		t.Error("the immediate data, the key, or nothing")
	}
}

// Each opcode has a flag of its own, by which it is asked for.
func TestSendOpsOf(t *testing.T) {
	all := uint32(0)
	for flag := range 64 {
		set := SendOpsOf(1 << flag)
		if all&set != 0 || bits.OnesCount32(set) > 1 {
			t.Errorf("flag %d names %#x", flag, set)
		}
		all |= set
	}
	if want := OpcodesOf(abi.IBV_QPT_RC) | OpcodesOf(abi.IBV_QPT_UD); all&want != want {
		t.Errorf("no flag for %#x", want&^all)
	}
	for flag, op := range map[uint64]uint32{abi.IBV_QP_EX_WITH_RDMA_WRITE: abi.IBV_WR_RDMA_WRITE,
		abi.IBV_QP_EX_WITH_SEND_WITH_INV: abi.IBV_WR_SEND_WITH_INV, abi.IBV_QP_EX_WITH_FLUSH: abi.IBV_WR_FLUSH} {
		if set := SendOpsOf(flag); set != 1<<op {
			t.Errorf("flag %#x names %#x", flag, set)
		}
	}
	if SendOpsOf(0) != 0 || SendOpsOf(abi.IBV_QP_EX_WITH_FLUSH|abi.IBV_QP_EX_WITH_ATOMIC_WRITE) != Granted(BySendOps) {
		t.Error("nothing, or what needs ibv_wr_*")
	}
}
