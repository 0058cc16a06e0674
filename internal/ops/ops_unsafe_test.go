package ops

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/dma"
	"github.com/pureverbs/pureverbs/internal/testutil/fakeverbs"
	"github.com/pureverbs/pureverbs/internal/work"
)

// The fake library records what its post functions are given.
var (
	fake    uintptr
	fakeErr error
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fakeverbs")
	if err == nil {
		var path string
		if path, err = fakeverbs.Build(dir, "../../ibv/testdata/fakeverbs"); err == nil {
			fake, err = purego.Dlopen(path, purego.RTLD_NOW)
		}
	}
	if err != nil && !errors.Is(err, fakeverbs.ErrNoCompiler) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fakeErr = err
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func symbol(t testing.TB, name string) uintptr {
	t.Helper()
	if fakeErr != nil {
		t.Skip(fakeErr)
	}
	fn, err := purego.Dlsym(fake, name)
	if err != nil {
		t.Fatal(err)
	}
	return fn
}

// call calls a function of the fake library.
func call(t testing.TB, name string, args ...uintptr) uintptr {
	t.Helper()
	var a [3]uintptr
	copy(a[:], args)
	return ccall.Slow(symbol(t, name), a[0], a[1], a[2])
}

// record starts recording: work request number at is refused with ret; with at 0
// ret is what the whole call returns.
func record(t testing.TB, at, ret int) { call(t, "fv_record", uintptr(at), uintptr(ret)) }

type sent struct {
	WR   abi.SendWR
	SGE  [4]abi.SGE
	Data [32]byte
}

type received struct {
	WR  abi.RecvWR
	SGE [4]abi.SGE
}

func table(t testing.TB) Table {
	return Table{
		PollCQ:      symbol(t, "fv_record_poll"),
		ReqNotifyCQ: symbol(t, "fv_record_notify"),
		PostSRQRecv: symbol(t, "fv_record_recv"),
		PostSend:    symbol(t, "fv_record_send"),
		PostRecv:    symbol(t, "fv_record_recv"),
	}
}

func free(t testing.TB, x interface{ Free() error }) {
	t.Cleanup(func() {
		if err := x.Free(); err != nil {
			t.Error(err)
		}
	})
}

const queue = 0x1234

func sendChain(t testing.TB, depth, maxSGE, maxInline int) *SendChain {
	t.Helper()
	c, err := NewSendChain(table(t), queue, depth, maxSGE, maxInline)
	if err != nil {
		t.Fatal(err)
	}
	free(t, c)
	return c
}

// lookupContext is a global so that it does not move, like C's memory.
var lookupContext [48]uintptr

func TestLookup(t *testing.T) {
	// A context is memory of C; here it is an array with the address of each
	// slot in the slot.
	ctx := &lookupContext
	for i := range ctx {
		ctx[i] = uintptr(i * 8)
	}
	got := Lookup(uintptr(unsafe.Pointer(ctx)))
	if want := (Table{PollCQ: 96, ReqNotifyCQ: 104, PostSRQRecv: 168, PostSend: 208, PostRecv: 216}); got != want {
		t.Errorf("table %+v, want %+v", got, want)
	}
}

// All fields of all slots arrive in C as they were set. No field that an opcode reads keeps a value from an earlier use
// of the slot.
func TestSendChain(t *testing.T) {
	const depth = 7
	c := sendChain(t, depth, 3, 32)
	if c.Len() != depth {
		t.Fatalf("%d slots", c.Len())
	}
	for round := range 3 {
		record(t, 0, 0)
		n := depth - round
		for i := range n {
			w := c.Slot(i, uint64(1000*round+i), uint32(i), 2)
			w.SetRDMA(uint64(i)<<32, uint32(i))
			if i%3 == 2 {
				w.SendFlags |= 8
				c.Inline(i, []byte(fmt.Sprintf("inline %d of %d", i, round)))
				continue
			}
			list := c.SGEs(i, i%4)
			for k := range list {
				list[k].Addr, list[k].Length, list[k].LKey = uint64(100*i+k), uint32(10*i+k), uint32(round)
			}
		}
		if took, errno := c.Post(n); took != n || errno != 0 {
			t.Fatalf("%d taken, errno %d", took, errno)
		}
		if calls, got, q := call(t, "fv_calls"), call(t, "fv_recorded"), call(t, "fv_queue"); calls != 1 ||
			got != uintptr(n) || q != queue {
			t.Fatalf("%d work requests in %d calls for %#x", got, calls, q)
		}
		for i := range n {
			s := cmem.At[sent](call(t, "fv_send", uintptr(i)))
			w := &s.WR
			if w.WRID != uint64(1000*round+i) || w.Opcode != uint32(i) || w.Wr[0] != uint64(i)<<32 ||
				uint32(w.Wr[1]) != uint32(i) {
				t.Errorf("round %d, slot %d: %+v", round, i, w)
			}
			if i%3 == 2 {
				want := fmt.Sprintf("inline %d of %d", i, round)
				if w.NumSGE != 1 || int(s.SGE[0].Length) != len(want) || string(s.Data[:len(want)]) != want ||
					s.SGE[0].LKey != 0 {
					t.Errorf("round %d, slot %d: %+v with %q", round, i, w, s.Data)
				}
				continue
			}
			if w.NumSGE != int32(i%4) || w.SendFlags != 2 {
				t.Errorf("round %d, slot %d: %d entries, flags %#x", round, i, w.NumSGE, w.SendFlags)
			}
			for k := range i % 4 {
				if g := s.SGE[k]; g.Addr != uint64(100*i+k) || g.Length != uint32(10*i+k) || g.LKey != uint32(round) {
					t.Errorf("round %d, slot %d, entry %d: %+v", round, i, k, g)
				}
			}
		}
	}
}

func TestSendChainEmptyInline(t *testing.T) {
	c := sendChain(t, 2, 1, 16)
	record(t, 0, 0)
	c.Slot(0, 1, 2, 8)
	c.Inline(0, []byte("something"))
	c.Post(1)
	record(t, 0, 0)
	c.Slot(0, 1, 2, 8)
	c.Inline(0, nil)
	c.Post(1)
	if s := cmem.At[sent](call(t, "fv_send", 0)); s.WR.NumSGE != 0 {
		t.Errorf("%d entries for no data", s.WR.NumSGE)
	}
}

func TestChainDepth(t *testing.T) {
	for _, c := range []struct{ ask, want int }{{0, 1}, {-5, 1}, {1, 1}, {MaxBatch, MaxBatch}, {1 << 20, MaxBatch}} {
		s := sendChain(t, c.ask, 0, 0)
		if s.Len() != c.want {
			t.Errorf("%d slots for a depth of %d", s.Len(), c.ask)
		}
		record(t, 0, 0)
		for i := range s.Len() {
			s.Slot(i, uint64(i), 0, 0)
		}
		if n, errno := s.Post(s.Len()); n != s.Len() || errno != 0 {
			t.Errorf("%d posted, errno %d", n, errno)
		}
		if got := int(call(t, "fv_recorded")); got != s.Len() {
			t.Errorf("%d of %d arrived", got, s.Len())
		}
	}
}

// The address of the bad work request tells how many were accepted.
func TestRefused(t *testing.T) {
	s := sendChain(t, 8, 1, 0)
	r, err := NewRecvChain(table(t).PostRecv, queue, 8, 1)
	if err != nil {
		t.Fatal(err)
	}
	free(t, r)
	for i := range 8 {
		s.Slot(i, uint64(i), 0, 0)
	}
	post := map[string]func(n int) (int, int){
		"send": func(n int) (int, int) {
			for i := range n {
				s.Slot(i, uint64(i), 0, 0)
			}
			return s.Post(n)
		},
		"recv": func(n int) (int, int) {
			for i := range n {
				r.Slot(i, uint64(i), 1)
			}
			return r.Post(n)
		},
	}
	for name, post := range post {
		for _, c := range []struct{ at, ret, n, took, errno int }{
			{1, int(syscall.ENOMEM), 8, 0, int(syscall.ENOMEM)},
			{5, int(syscall.EINVAL), 8, 4, int(syscall.EINVAL)},
			{8, -int(syscall.EIO), 8, 7, int(syscall.EIO)},
			{8, int(syscall.EIO), 7, 7, 0},                // beyond the batch
			{0, int(syscall.EIO), 8, 0, int(syscall.EIO)}, // none named
		} {
			record(t, c.at, c.ret)
			took, errno := post(c.n)
			if took != c.took || errno != c.errno {
				t.Errorf("%s %+v: %d taken, errno %d", name, c, took, errno)
			}
		}
	}
}

// A provider that cannot ring its doorbell has queued what it was given; Doorbell rings it.
func TestDoorbell(t *testing.T) {
	const n = 8
	post := map[string]func(s *SendChain) (int, int){
		"Post": func(s *SendChain) (int, int) {
			for i := range n {
				s.Slot(i, uint64(i), abi.IBV_WR_SEND, 0)
			}
			return s.Post(n)
		},
		"Run": func(s *SendChain) (int, int) {
			s.Plain(allPlain)
			wrs := plainWRs(n)
			done := s.Run(&wrs[0], n)
			if done == n {
				return done, 0
			}
			return done, s.Errno()
		},
	}
	for name, post := range post {
		for _, c := range []struct {
			at          int // of the one that is not queued, 0 for none
			ret         int
			bell        error
			took, errno int
			rings       int
		}{
			{0, int(syscall.EACCES), nil, n, 0, 1},
			{0, -1, nil, n, 0, 1}, // libsiw
			{0, int(syscall.EACCES), syscall.EINVAL, 0, int(syscall.EACCES), 1},
			{5, int(syscall.EACCES), nil, 4, int(syscall.ENOMEM), 1},
			{0, int(syscall.EIO), nil, 0, int(syscall.EIO), 0},
		} {
			s, rings := sendChain(t, n, 1, 0), 0
			s.Doorbell(func() error { rings++; return c.bell })
			record(t, c.at, c.ret)
			if took, errno := post(s); took != c.took || errno != c.errno || rings != c.rings {
				t.Errorf("%s %+v: %d taken, errno %d, %d rings", name, c, took, errno, rings)
			}
		}
	}
}

func TestAccepted(t *testing.T) {
	const first, size = 0x1000, 128
	for _, c := range []struct {
		bad  uintptr
		want int
	}{{0, 0}, {first - 1, 0}, {first, 0}, {first + size, 1}, {first + 3*size + 5, 3}, {first + 100*size, 8},
		{^uintptr(0), 8}} {
		if got := accepted(c.bad, first, size, 8); got != c.want {
			t.Errorf("bad at %#x: %d taken, want %d", c.bad, got, c.want)
		}
	}
}

// mkeySetters is a global so that it does not move, like C's memory.
var mkeySetters abi.MLX5DVQPEx

// A change of a memory key calls a setter for each thing that it changes, and no others.
func TestMkeySetters(t *testing.T) {
	fn := symbol(t, "fv_record_notify") // counts calls
	x := &extended{Extended: Extended{DV: uintptr(unsafe.Pointer(&mkeySetters))}}
	mkeySetters = abi.MLX5DVQPEx{WRMRInterleaved: fn, WRMRList: fn, WRMkeyConfigure: fn, WRSetMkeyAccessFlags: fn,
		WRSetMkeyLayoutList: fn, WRSetMkeyLayoutInterleaved: fn, WRSetMkeySigBlock: fn, WRSetMkeyCrypto: fn}
	list, blocks := make([]work.SGE, 1), make([]work.MkeyBlock, 1)
	for _, c := range []struct {
		name string
		m    work.MkeyUpdate
		want uintptr
	}{
		{"a list", work.MkeyUpdate{List: list}, 1},
		{"blocks", work.MkeyUpdate{Blocks: blocks}, 1},
		{"nothing", work.MkeyUpdate{Setup: true}, 1},
		{"access", work.MkeyUpdate{Setup: true, SetAccess: true}, 2},
		{"a list, set up", work.MkeyUpdate{Setup: true, List: list}, 2},
		{"blocks, set up", work.MkeyUpdate{Setup: true, Blocks: blocks}, 2},
		{"a signature", work.MkeyUpdate{Setup: true, Signature: new(work.Signature)}, 2},
		{"encryption", work.MkeyUpdate{Setup: true, Crypto: new(abi.MLX5DVCryptoAttr)}, 2},
		{"all", work.MkeyUpdate{Setup: true, SetAccess: true, List: list, Signature: new(work.Signature),
			Crypto: new(abi.MLX5DVCryptoAttr)}, 5},
	} {
		record(t, 0, 0)
		mkey(x.DV, &c.m)
		if n := call(t, "fv_calls"); n != c.want {
			t.Errorf("%s: %d calls, want %d", c.name, n, c.want)
		}
	}
}

// other is a Poster with memory.
type other struct{ *dma.Mem }

func (other) Post(n int) (int, int) { return n, 0 }

// Free frees all that a chain has.
func TestSendChainFree(t *testing.T) {
	c, err := NewSendChain(Table{}, queue, 4, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := dma.Alloc(64, nil)
	if err != nil {
		t.Fatal(err)
	}
	by := func(uintptr, []abi.SendWR, []work.MaskedAtomic) (control.Poster, error) { return other{mem}, nil }
	if err := errors.Join(c.Headers(64), c.WQEs(), c.PostBy(true, true, by)); err != nil {
		t.Fatal(err)
	}
	all := map[string]*dma.Mem{"chain": c.mem, "headers": c.headMem, "WQEs": c.wqeMem, "poster": mem}
	if err := c.Free(); err != nil {
		t.Fatal(err)
	}
	for name, m := range all {
		if m.Addr() != 0 {
			t.Errorf("the memory of %s is not free", name)
		}
	}
}

func TestRecvChain(t *testing.T) {
	tab := table(t)
	for name, make := range map[string]func() (*RecvChain, error){
		"qp":  func() (*RecvChain, error) { return NewRecvChain(tab.PostRecv, queue, 5, 2) },
		"srq": func() (*RecvChain, error) { return NewRecvChain(tab.PostSRQRecv, queue, 5, 2) },
	} {
		c, err := make()
		if err != nil {
			t.Fatal(err)
		}
		free(t, c)
		record(t, 0, 0)
		for i := range c.Len() {
			list := c.Slot(i, uint64(i)+7, i%3)
			for k := range list {
				list[k].Addr, list[k].Length, list[k].LKey = uint64(i), uint32(k), 3
			}
		}
		if n, errno := c.Post(c.Len()); n != 5 || errno != 0 {
			t.Errorf("%s: %d posted, errno %d", name, n, errno)
		}
		for i := range c.Len() {
			r := cmem.At[received](call(t, "fv_recv", uintptr(i)))
			if r.WR.WRID != uint64(i)+7 || r.WR.NumSGE != int32(i%3) {
				t.Errorf("%s: slot %d: %+v", name, i, r.WR)
			}
			for k := range i % 3 {
				if g := r.SGE[k]; g.Addr != uint64(i) || g.Length != uint32(k) || g.LKey != 3 {
					t.Errorf("%s: slot %d, entry %d: %+v", name, i, k, g)
				}
			}
		}
	}
}

func TestPoller(t *testing.T) {
	p, err := NewPoller(table(t), queue)
	if err != nil {
		t.Fatal(err)
	}
	free(t, p)
	for _, c := range []struct{ ask, found, asked, got, ret int }{
		{1, 0, 1, 0, 0},
		{16, 5, 16, 5, 0},
		{16, 16, 16, 16, 0},
		{1000, PollBatch, PollBatch, PollBatch, 0},
		{4, -2, 4, 0, -2},
		{4, -int(syscall.EIO), 4, 0, -int(syscall.EIO)},
		{4, 1000, 4, 4, 0}, // a provider that counts wrong
	} {
		record(t, 0, c.found)
		got := p.Poll(c.ask)
		if got != c.got+c.ret {
			t.Errorf("%+v: %d", c, got)
		}
		wcs := unsafe.Slice(p.First(), max(got, 0))
		if asked, q := int(call(t, "fv_recorded")), call(t, "fv_queue"); asked != c.asked || q != queue {
			t.Errorf("%+v: asked for %d of %#x", c, asked, q)
		}
		for i := range wcs {
			if wcs[i].WRID != uint64(100+i) || wcs[i].ByteLen != uint32(i) {
				t.Errorf("%+v: completion %d is %+v", c, i, wcs[i])
			}
		}
	}
	for _, c := range []struct {
		solicited  bool
		ret, errno int
	}{{false, 0, 0}, {true, 0, 0}, {false, 5, 5}, {true, -5, 5}} {
		record(t, 0, c.ret)
		if e := p.Arm(c.solicited); e != c.errno {
			t.Errorf("%+v: errno %d", c, e)
		}
		if got := call(t, "fv_recorded") == 1; got != c.solicited {
			t.Errorf("%+v: armed for solicited ones: %v", c, got)
		}
	}
}

func TestNoAllocs(t *testing.T) {
	record(t, 0, 4)
	p, err := NewPoller(table(t), queue)
	if err != nil {
		t.Fatal(err)
	}
	free(t, p)
	record(t, 1, int(syscall.ENOMEM)) // records nothing, so that it never fills
	s := sendChain(t, 16, 2, 64)
	r, err := NewRecvChain(table(t).PostRecv, queue, 16, 2)
	if err != nil {
		t.Fatal(err)
	}
	free(t, r)
	data := make([]byte, 64)
	for name, f := range map[string]func(){
		"poll": func() { p.Poll(16) },
		"arm":  func() { p.Arm(true) },
		"send": func() {
			for i := range 16 {
				s.Slot(i, 1, 2, 3)
				s.SGEs(i, 2)
			}
			s.Inline(15, data)
			s.Post(16)
		},
		"recv": func() {
			for i := range 16 {
				r.Slot(i, 1, 2)
			}
			r.Post(16)
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
