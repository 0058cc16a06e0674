package ops

import (
	"syscall"
	"testing"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/work"
)

const allPlain = 1<<abi.IBV_WR_RDMA_WRITE | 1<<abi.IBV_WR_RDMA_WRITE_WITH_IMM | 1<<abi.IBV_WR_SEND |
	1<<abi.IBV_WR_SEND_WITH_IMM | 1<<abi.IBV_WR_SEND_WITH_INV | 1<<abi.IBV_WR_RDMA_READ

// plainWRs returns n work requests of all plain opcodes.
func plainWRs(n int) []work.SendWR {
	ops := []uint32{abi.IBV_WR_RDMA_WRITE, abi.IBV_WR_RDMA_WRITE_WITH_IMM, abi.IBV_WR_SEND, abi.IBV_WR_SEND_WITH_IMM,
		abi.IBV_WR_SEND_WITH_INV, abi.IBV_WR_RDMA_READ}
	wrs := make([]work.SendWR, n)
	for i := range wrs {
		k := uint64(i)
		wrs[i] = work.SendWR{ID: 100 + k, Opcode: ops[i%len(ops)], Flags: uint32(i) & plainFlags,
			SGEs:   []work.SGE{{Addr: k << 40, Length: uint32(1000 * k), LKey: uint32(7 * k)}},
			Remote: work.RemoteAddr{Addr: k<<33 + 1, RKey: uint32(9 * k)}, Imm: 0x01020304, InvalidateRKey: 0x0a0b0c0d}
	}
	return wrs
}

// Run writes what Fill writes, as far as the opcode reads it, whatever was in the slots.
func TestRun(t *testing.T) {
	const most = 16
	filled, c := sendChain(t, most, 3, 64), sendChain(t, most, 3, 64)
	c.Plain(allPlain)
	for i := range c.wrs {
		c.wrs[i] = abi.SendWR{SGList: 1, NumSGE: -1, Next: 2, Opcode: 3, SendFlags: 4, ImmData: 5, Wr: [4]uint64{6, 7}}
	}
	for n := 1; n <= most; n++ {
		wrs := plainWRs(n)
		for i := range wrs {
			filled.Fill(i, &wrs[i], 0)
		}
		record(t, 0, 0)
		if got := c.Run(&wrs[0], n); got != n || call(t, "fv_calls") != 1 || call(t, "fv_recorded") != uintptr(n) {
			t.Fatalf("%d of %d, in %d calls", got, n, call(t, "fv_calls"))
		}
		for i := range wrs {
			s, f := cmem.At[sent](call(t, "fv_send", uintptr(i))), work.FieldsOf(wrs[i].Opcode)
			got, want := s.WR, filled.wrs[i]
			if s.SGE[0] != filled.sges[3*i] {
				t.Errorf("%d of %d: sge %+v, want %+v", i, n, s.SGE[0], filled.sges[3*i])
			}
			got.SGList, got.Next, want.SGList, want.Next = 0, 0, 0, 0
			if f&work.Remote == 0 {
				got.Wr, want.Wr = [4]uint64{}, [4]uint64{}
			}
			if f&(work.Imm|work.InvalidateRKey) == 0 {
				got.ImmData, want.ImmData = 0, 0
			}
			if got != want {
				t.Errorf("%d of %d:\n%+v, want\n%+v", i, n, got, want)
			}
		}
	}
}

// Of a list that it does not take Run posts nothing, wherever the odd work request is.
func TestRunNotPlain(t *testing.T) {
	c := sendChain(t, 8, 2, 64)
	c.Plain(allPlain &^ (1 << abi.IBV_WR_SEND_WITH_INV))
	sge := work.SGE{Length: 1}
	for name, change := range map[string]func(wr *work.SendWR){
		"opcode of no table": func(wr *work.SendWR) { wr.Opcode = 77 },
		"opcode 32":          func(wr *work.SendWR) { wr.Opcode = 32 },
		"opcode not taken":   func(wr *work.SendWR) { wr.Opcode = abi.IBV_WR_SEND_WITH_INV },
		"atomic":             func(wr *work.SendWR) { wr.Opcode = abi.IBV_WR_ATOMIC_FETCH_AND_ADD },
		"flag inline":        func(wr *work.SendWR) { wr.Flags |= abi.IBV_SEND_INLINE },
		"unknown flag":       func(wr *work.SendWR) { wr.Flags |= 1 << 31 },
		"inline":             func(wr *work.SendWR) { wr.SGEs, wr.Inline = nil, []byte{1} },
		"empty inline":       func(wr *work.SendWR) { wr.SGEs, wr.Inline = nil, []byte{} },
		"inline and an SGE":  func(wr *work.SendWR) { wr.Inline = []byte{1} },
		"no SGE":             func(wr *work.SendWR) { wr.SGEs = nil },
		"two SGEs":           func(wr *work.SendWR) { wr.SGEs = []work.SGE{sge, sge} },
		"long":               func(wr *work.SendWR) { wr.SGEs[0].Length = 1 << 31 },
		"outside":            func(wr *work.SendWR) { wr.Remote.Outside = 1 },
		"AH":                 func(wr *work.SendWR) { wr.AH = (*work.Theirs)(unsafe.Pointer(wr)) },
	} {
		for at := range 4 {
			wrs := plainWRs(4)
			change(&wrs[at])
			record(t, 0, 0)
			if n := c.Run(&wrs[0], 4); n != -1 || call(t, "fv_calls") != 0 {
				t.Errorf("%s at %d: %d, and %d calls", name, at, n, call(t, "fv_calls"))
			}
		}
	}
	wrs := plainWRs(9)
	for _, n := range []int{0, 9} {
		if got := c.Run(&wrs[0], n); got != -1 {
			t.Errorf("%d work requests in 8 slots: %d", n, got)
		}
	}
}

// A refusal in the middle: what was accepted, the errno, and how many in a row give no completion.
func TestRunRefused(t *testing.T) {
	c := sendChain(t, 8, 1, 0)
	c.Plain(allPlain)
	wrs := plainWRs(8)
	for i := range wrs {
		wrs[i].Flags = 0
	}
	wrs[2].Flags = abi.IBV_SEND_SIGNALED
	for _, x := range []struct{ at, ret, n, took, errno, unsignaled int }{
		{0, 0, 2, 2, 0, 2},
		{1, int(syscall.ENOMEM), 8, 0, int(syscall.ENOMEM), 2},
		{3, -int(syscall.EIO), 8, 2, int(syscall.EIO), 4},
		{0, int(syscall.EIO), 8, 0, int(syscall.EIO), 4}, // none named
		{5, int(syscall.EINVAL), 8, 4, int(syscall.EINVAL), 1},
		{0, 0, 2, 2, 0, 3},
		{0, 0, 3, 3, 0, 0},
		{0, 0, 8, 8, 0, 5},
	} {
		record(t, x.at, x.ret)
		n := c.Run(&wrs[0], x.n)
		if n != x.took || n < x.n && c.Errno() != x.errno || c.Unsignaled() != x.unsignaled {
			t.Errorf("%+v: %d, errno %d, %d unsignaled", x, n, c.Errno(), c.Unsignaled())
		}
	}
	c.CountBind(0)
	if c.Unsignaled() != 6 {
		t.Errorf("%d after a bind", c.Unsignaled())
	}
	if c.CountBind(abi.IBV_SEND_SIGNALED); c.Unsignaled() != 0 {
		t.Errorf("%d after a bind that is signaled", c.Unsignaled())
	}
	if n := testing.AllocsPerRun(100, func() { c.Run(&wrs[0], 8) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
