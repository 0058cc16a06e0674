package abi

import (
	"encoding/binary"
	"runtime"
	"testing"
	"unsafe"
)

// fakeContext is a verbs_context in Go memory.
type fakeContext struct {
	words []uint64
}

const fakeBelow = 512 // bytes below the ibv_context

// newFakeContext makes one whose sz is size, with a mutex as given.
func newFakeContext(size uint64, mutex uintptr) (*fakeContext, uintptr) {
	f := &fakeContext{make([]uint64, 1024/8)}
	ctx := uintptr(unsafe.Pointer(&f.words[fakeBelow/8]))
	f.set(-8, size)
	if mutex != 0 {
		f.set(280+int(mutex), ^uint64(0))
	}
	return f, ctx
}

func (f *fakeContext) set(off int, v uint64) { f.words[(fakeBelow+off)/8] = v }

func TestContextOp(t *testing.T) {
	for _, mutex := range []uintptr{40, 48} {
		context := 288 + mutex // sizeof(struct ibv_context)
		f, ctx := newFakeContext(uint64(DistQueryPort+context), mutex)
		f.set(-DistQueryPort, 0x1234)
		f.set(-328, 0x5678) // beyond sz: another library's memory

		if shift, ok := TailShift(ctx); !ok || shift != mutex-40 {
			t.Errorf("mutex %d: TailShift = %d, %v", mutex, shift, ok)
		}
		if got := ContextSize(ctx); got != DistQueryPort+context {
			t.Errorf("mutex %d: ContextSize = %d", mutex, got)
		}
		if got := ContextOp(ctx, DistQueryPort); got != 0x1234 {
			t.Errorf("mutex %d: the last op that there is: %#x", mutex, got)
		}
		if got := ContextOp(ctx, 328); got != 0 {
			t.Errorf("mutex %d: an op beyond sz: %#x, want 0", mutex, got)
		}
		if got := ContextOp(ctx, DistAdviseMR); got != 0 {
			t.Errorf("mutex %d: an op left empty: %#x, want 0", mutex, got)
		}
		f.set(-8, uint64(DistQueryPort+context)-8)
		if got := ContextOp(ctx, DistQueryPort); got != 0 {
			t.Errorf("mutex %d: an op one word beyond sz: %#x, want 0", mutex, got)
		}
		runtime.KeepAlive(f)
	}
}

func TestContextNotExtended(t *testing.T) {
	f, ctx := newFakeContext(648, 0)
	f.set(-DistQueryPort, 0x1234)
	if _, ok := TailShift(ctx); ok || ContextSize(ctx) != 0 || ContextOp(ctx, DistQueryPort) != 0 || Legacy(ctx) {
		t.Errorf("a context without abi_compat: size %d, op %#x", ContextSize(ctx), ContextOp(ctx, DistQueryPort))
	}
	runtime.KeepAlive(f)
}

func TestLegacyContext(t *testing.T) {
	f, ctx := newFakeContext(424, 40)
	for _, dist := range []int{DistOpenQP, DistCreateFlow, DistDestroyFlow} {
		f.set(-dist, 0x1000+uint64(dist))
	}
	if Legacy(ctx) || ContextOp(ctx, DistCreateFlow) == 0 || ContextOp(ctx, DistDestroyFlow) == 0 {
		t.Error("a context without the mark is taken for a legacy one")
	}
	f.set(-16, 1<<62)
	if !Legacy(ctx) {
		t.Error("the mark is not seen")
	}
	if ContextOp(ctx, DistCreateFlow) != 0 || ContextOp(ctx, DistDestroyFlow) != 0 {
		t.Error("reserved slots of a legacy context are taken for flow ops")
	}
	if got := ContextOp(ctx, DistOpenQP); got != 0x1000+DistOpenQP {
		t.Errorf("open_qp of a legacy context: %#x", got)
	}
	if got := ContextOp(ctx, DistQueryDeviceEx); got != 0 {
		t.Errorf("query_device_ex of a legacy context: %#x, want 0", got)
	}
	runtime.KeepAlive(f)
}

// TestSendWRUnions checks the words that the Set methods write against the
// members of the unions in C.
func TestSendWRUnions(t *testing.T) {
	c := readLayout(t, newest)["struct ibv_send_wr"]
	info := readLayout(t, newest)["struct ibv_mw_bind_info"]
	const a, b, d = 0x1122334455667788, 0x99aabbccddeeff00, 0x0102030405060708
	for _, s := range []struct {
		name string
		set  func(*SendWR)
		want map[string]uint64
	}{
		{"RDMA", func(w *SendWR) { w.SetRDMA(a, 0xcafe) }, map[string]uint64{"wr.rdma.remote_addr": a,
			"wr.rdma.rkey": 0xcafe}},
		{"Atomic", func(w *SendWR) { w.SetAtomic(a, b, d, 0xcafe) }, map[string]uint64{
			"wr.atomic.remote_addr": a, "wr.atomic.compare_add": b, "wr.atomic.swap": d, "wr.atomic.rkey": 0xcafe}},
		{"UD", func(w *SendWR) { w.SetUD(0x7f0011223344, 0xabcdef, 0x80010203) }, map[string]uint64{
			"wr.ud.ah": 0x7f0011223344, "wr.ud.remote_qpn": 0xabcdef, "wr.ud.remote_qkey": 0x80010203}},
		{"Imm", func(w *SendWR) { w.SetImm(0x01020304) }, map[string]uint64{"imm_data": 0x04030201}},
		{"InvalidateRKey", func(w *SendWR) { w.SetInvalidateRKey(0x01020304) },
			map[string]uint64{"invalidate_rkey": 0x01020304}},
		{"TSO", func(w *SendWR) { w.SetTSO(0x7f0011223344, 54, 1460) }, map[string]uint64{
			"tso.hdr": 0x7f0011223344, "tso.hdr_sz": 54, "tso.mss": 1460}},
		{"XRC", func(w *SendWR) { w.XRCRemoteSRQN = 0xabcdef }, map[string]uint64{"qp_type.xrc.remote_srqn": 0xabcdef}},
		{"BindMW", func(w *SendWR) { w.Bind = BindMW{MW: 0x7f0011223344, RKey: 0xcafe} }, map[string]uint64{
			"bind_mw.mw": 0x7f0011223344, "bind_mw.rkey": 0xcafe}},
	} {
		var w SendWR
		s.set(&w)
		got := unsafe.Slice((*byte)(unsafe.Pointer(&w)), unsafe.Sizeof(w))
		want := make([]byte, len(got))
		for field, v := range s.want {
			f, ok := c.Fields[field]
			if !ok {
				t.Fatalf("C has no %s", field)
			}
			var le [8]byte
			binary.LittleEndian.PutUint64(le[:], v)
			copy(want[f[0]:f[0]+f[1]], le[:])
		}
		if string(got) != string(want) {
			t.Errorf("Set%s\n got % x\nwant % x", s.name, got, want)
		}
	}
	if got, want := int(unsafe.Offsetof(SendWR{}.Bind)+unsafe.Offsetof(BindMW{}.BindInfo)),
		c.Fields["bind_mw.bind_info"]; got != want[0] || info.Size != want[1] {
		t.Errorf("bind_info is at %d, in C at %d", got, want[0])
	}
}

func TestWCInvalidatedRKey(t *testing.T) {
	w := WC{}
	*(*uint32)(unsafe.Pointer(&w.ImmData)) = 0x01020304
	if got := w.InvalidatedRKey(); got != 0x01020304 {
		t.Errorf("InvalidatedRKey() = %#x, want the word as it is", got)
	}
	if got := w.ImmData.Get(); got != 0x04030201 {
		t.Errorf("ImmData = %#x, want the word reversed", got)
	}
}

func TestBigEndian(t *testing.T) {
	var v struct {
		a Be16
		b Be32
		c Be64
	}
	v.a.Set(0x0102)
	v.b.Set(0x01020304)
	v.c.Set(0x0102030405060708)
	if got := *(*[2]byte)(unsafe.Pointer(&v.a)); got != [2]byte{1, 2} {
		t.Errorf("Be16 is stored as %v", got)
	}
	if got := *(*[4]byte)(unsafe.Pointer(&v.b)); got != [4]byte{1, 2, 3, 4} {
		t.Errorf("Be32 is stored as %v", got)
	}
	if got := *(*[8]byte)(unsafe.Pointer(&v.c)); got != [8]byte{1, 2, 3, 4, 5, 6, 7, 8} {
		t.Errorf("Be64 is stored as %v", got)
	}
	if v.a.Get() != 0x0102 || v.b.Get() != 0x01020304 || v.c.Get() != 0x0102030405060708 {
		t.Error("Get does not return what Set stored")
	}
}

func TestAsyncEventPort(t *testing.T) {
	// C writes an int and leaves the rest of the union as it was.
	e := AsyncEvent{Element: 0xdeadbeef_00000002}
	if got := e.PortNum(); got != 2 {
		t.Errorf("PortNum() = %d, want 2", got)
	}
}
