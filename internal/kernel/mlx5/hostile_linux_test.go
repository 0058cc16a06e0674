package mlx5

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
	"github.com/pureverbs/pureverbs/internal/sysfs"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// fakeKernel answers as a kernel with a good device, but for what spoil does to its answers.
type fakeKernel struct {
	t      testing.TB
	next   uint32
	calls  int
	spoil  func(k *fakeKernel, what string, b []byte) // of the answer to a command
	fail   func(object, method uint16) syscall.Errno  // of a command; nil: it succeeds
	static bool                                       // registers come with the context
	pipes  []int

	uar       func(kind uint64) syscall.Errno // is called for each doorbell page; nil for nothing
	destroyed func()                          // is called for each object of DevX that ends; nil for nothing
}

const (
	uhwIn  = 1 << 12
	uhwOut = uhwIn + 1
)

func goodContext(static bool) contextInfo {
	i := contextInfo{abi.MLX5IBAllocUcontextResp{QPTabSize: 1 << 17, BFRegSize: 512, CacheLineSize: 64,
		MaxSQDescSz: 1024, MaxRQDescSz: 512, MaxSendWqebb: 32768, MaxRecvWR: 32768, MaxSRQRecvWR: 32768, NumPorts: 1,
		ResponseLength: 72, CQEVersion: 1, CmdsSuppUhw: 3, EthMinInline: 1, LogUARSize: 12, NumUarsPerPage: 1,
		CompMask: abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_SQD2RTS | abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_MKEY_UPDATE_TAG}}
	if static {
		i.TotBFRegs, i.NumDynBFRegs = 16, 32
	}
	return i
}

// outs are the attributes that the kernel answers, by object and method.
var outs = map[[2]uint16][]uint16{
	{0, 0}: {1}, {0, 2}: {1}, {0, 3}: {0, 1}, {0, 5}: {2, 3}, {0, 6}: {3}, {3, 0}: {6}, {3, 1}: {1}, {4, 0}: {13, 14},
	{4, 1}: {1}, {5, 0}: {11, 12, 13}, {5, 1}: {1}, {7, 5}: {9, 10}, {12, 0}: {9, 10, 11}, {12, 1}: {1},
	{objectCounters, 2}: {1},
	{objectDM, 0}:       {attr0, attr0 + 1}, {objectDM, driverNamespace}: {attr0 + 2, attr0 + 3},
	{objectUAR, methodAlloc}: {uhwIn + 2, uhwIn + 3, uhwIn + 4},
	{uhwIn, uhwIn}:           {uhwIn + 1},

	{objectDevX, devxOther}: {attr0 + 1}, {objectDevX, devxQueryUAR}: {attr0 + 1},
	{objectDevX, devxQueryEQN}: {attr0 + 1},
	{objectObj, methodCreate}:  {attr0 + 2}, {objectObj, methodQuery}: {attr0 + 2},
	{objectObj, methodModify}:  {attr0 + 2},
	{objectUmem, methodCreate}: {attr0 + 4}, {objectVAR, methodCreate}: {attr0 + 1, attr0 + 2, attr0 + 3},
	{objectPP, methodCreate}: {attr0 + 3}, {objectAnchor, methodCreate}: {attr0 + 3},
}

// creates has the attribute of a new object.
var creates = map[[2]uint16]uint16{{3, 0}: 0, {4, 0}: 0, {5, 0}: 0, {7, 5}: 0, {12, 0}: 0, {16, 0}: 0,
	{objectCounters, 0}: 0, {objectDM, 0}: 0, {objectUAR, methodAlloc}: uhwIn,

	{objectObj, methodCreate}: attr0, {objectUmem, methodCreate}: attr0, {objectVAR, methodCreate}: attr0,
	{objectPP, methodCreate}: attr0, {objectMatcher, methodCreate}: attr0, {objectAnchor, methodCreate}: attr0,
	{objectFlow, methodCreate}: attr0, {objectFlowAction, methodHeader}: attr0,
	{objectFlowAction, methodReformat}: attr0,
	{objectEvents, methodCreate}:       attr0, {objectAnswers, methodCreate}: attr0}

// files are the objects that are descriptors.
var files = map[[2]uint16]bool{{16, 0}: true, {objectEvents, methodCreate}: true, {objectAnswers, methodCreate}: true}

func (k *fakeKernel) ioctl(_ int, c *uverbs.Command) syscall.Errno {
	id := [2]uint16{c.Object, c.Method}
	if k.destroyed != nil && id == [2]uint16{objectObj, methodDestroy} {
		k.destroyed()
	}
	if k.fail != nil {
		if e := k.fail(c.Object, c.Method); e != 0 {
			return e
		}
	}
	if k.uar != nil && id == [2]uint16{objectUAR, methodAlloc} {
		i := slices.IndexFunc(c.Attrs[:], func(a uverbs.Attr) bool { return a.ID == driverNamespace+1 })
		if e := k.uar(c.Attrs[i].Data); e != 0 {
			return e
		}
	}
	k.next++
	var number uint64 // of INVOKE_WRITE
	var entries uint32
	for _, a := range c.Attrs[:c.Num] {
		switch {
		case id == [2]uint16{} && a.ID == 2:
			number = a.Data
		case id == [2]uint16{3, 0} && a.ID == 1, id == [2]uint16{5, 0} && a.ID == 5:
			entries = uint32(a.Data)
		}
	}
	for i := range c.Attrs[:c.Num] {
		a := &c.Attrs[i]
		at, isNew := creates[id]
		switch {
		case isNew && a.ID == at:
			n := k.next
			if files[id] {
				n = k.fd()
			}
			b := uverbs.Bytes(&n)
			k.answer("new object", b)
			a.Data = uint64(n)
		case a.ID == uhwOut && max(id[0], id[1]) < uhwIn, slices.Contains(outs[id], a.ID):
			b := cmem.Slice[byte](uintptr(a.Data), int(a.Len))
			k.good(id, a.ID, number, entries, b)
			k.answer("answer", b)
			a.Flags |= uverbs.ValidOutput
		}
	}
	return 0
}

// good fills in what a good kernel answers.
func (k *fakeKernel) good(id [2]uint16, attr uint16, number uint64, entries uint32, b []byte) {
	word := func(v uint32) { copy(b, uverbs.Bytes(&v)) }
	switch {
	case id == [2]uint16{0, 3} && attr == uhwOut:
		i := goodContext(k.static)
		copy(b, uverbs.Bytes(&i))
	case id == [2]uint16{4, 0} && attr == uhwOut:
		r := abi.MLX5IBCreateQPResp{BfregIndex: k.next % 16}
		copy(b, uverbs.Bytes(&r))
	case id == [2]uint16{0, 3} && attr == 0:
		word(8)
	case id == [2]uint16{} && number == 1<<31|26 && attr == uhwOut:
		r := abi.MLX5IBModifyQPResp{ResponseLength: 16, Dctn: k.next & 0xffff}
		copy(b, uverbs.Bytes(&r))
	case id == [2]uint16{objectVAR, methodCreate} && attr == attr0+1:
		off := uint64(k.next) << 12
		copy(b, uverbs.Bytes(&off))
	case id == [2]uint16{objectVAR, methodCreate} && attr == attr0+2:
		word(4096)
	case id[0] == objectUAR && attr == uhwIn+2:
		off := uint64(k.next) << 12
		copy(b, uverbs.Bytes(&off))
	case id[0] == objectUAR && attr == uhwIn+3:
		word(4096)
	case id[1] == 0 && (attr == 6 || attr == 11):
		word(entries)
	case id == [2]uint16{} && number == 17 && attr == 1:
		word(k.fd())
	case id == [2]uint16{objectDevX, devxOther}, id[0] == objectObj:
		goodDevX(id[1], k.next&0xffff, b)
	case id == [2]uint16{} && number == 1<<31|1 && attr == uhwOut:
		var d abi.MLX5IBQueryDeviceResp
		copy(uverbs.Bytes(&d.StridingRQCaps), uverbs.BytesOf([]uint32{6, 13, 9, 16, 1 << abi.IBV_QPT_RAW_PACKET}))
		copy(b, uverbs.Bytes(&d))
	case id == [2]uint16{} && number == 1<<31|1 && attr == 1:
		e := abi.UverbsExQueryDeviceResp{ResponseLength: 304}
		copy(b, uverbs.Bytes(&e))
	case id == [2]uint16{0, 5} && attr == 3:
		word(1)
	case id == [2]uint16{0, 2}:
		p := abi.UverbsQueryPortResp{GIDTblLen: 4, LinkLayer: abi.IBV_LINK_LAYER_ETHERNET, State: 4}
		copy(b, uverbs.Bytes(&p))
	case id == [2]uint16{} && number == 1 && attr == 1:
		d := abi.UverbsQueryDeviceResp{MaxQP: 1000, MaxCQE: 1 << 22}
		copy(b, uverbs.Bytes(&d))
	case id[1] == 1: // no events
	case len(b) >= 4:
		word(k.next & 0xffff)
	}
}

func (k *fakeKernel) answer(what string, b []byte) {
	k.calls++
	if k.spoil != nil {
		k.spoil(k, what, b)
	}
}

// fd returns a descriptor that the package closes, or end.
func (k *fakeKernel) fd() uint32 {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		k.t.Fatal(err)
	}
	k.pipes = append(k.pipes, p[1])
	return uint32(p[0])
}

func (k *fakeKernel) mapPages(_ int, _ int64, n int, _ uverbs.Access) ([]byte, error) {
	if n > 16*uverbs.PageSize() {
		k.t.Errorf("%d bytes are mapped", n)
		return nil, syscall.ENOMEM
	}
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

// device makes a device of the fake kernel.
func (k *fakeKernel) device() (*Verbs, handle) {
	v := New()
	v.openFile = func(_ sysfs.Root, d *device) (*uverbs.File, error) {
		fd := k.fd()
		return uverbs.NewFile(int(fd), driverID, &d.forms, uverbs.System{Ioctl: k.ioctl, Map: k.mapPages,
			Write: func(int, []byte) (int, error) { k.t.Error("written"); return 0, syscall.EIO }}), nil
	}
	return v, v.handleOf(facts{name: "mlx5_9", node: uverbs.Node{Name: "uverbs9"}})
}

// use makes one of each object, uses it, and ends all. It returns what went wrong.
func use(v *Verbs, dev handle, cqe int) (errs []error) {
	var closers []func() error
	later := func(err error, f func() error) bool {
		if err != nil {
			errs = append(errs, err)
			return false
		}
		closers = append(closers, f)
		return true
	}
	ctx, err := v.OpenDevice(dev)
	if err != nil {
		return []error{err}
	}
	defer func() {
		all := true
		for _, f := range slices.Backward(closers) {
			if err := f(); err != nil {
				errs, all = append(errs, err), false
			}
		}
		if all {
			errs = append(errs, v.nothingLeft(ctx))
		}
		errs = append(errs, v.CloseDevice(ctx))
	}()
	errs = append(errs, v.QueryDevice(ctx, new(abi.DeviceAttr)), v.QueryDeviceEx(ctx, new(abi.DeviceAttrEx)),
		v.QueryPort(ctx, 1, new(abi.PortAttr)), v.QueryGID(ctx, 1, 0, new(abi.GID)),
		second(v.QueryGIDTable(ctx, make([]abi.GIDEntry, 3))))
	pd, err := v.AllocPD(ctx)
	later(err, func() error { return v.DeallocPD(pd) })
	ch, err := v.CreateCompChannel(ctx)
	later(err, func() error { return v.DestroyCompChannel(ch) })
	td, err := v.AllocTD(ctx)
	later(err, func() error { return v.DeallocTD(ctx, td) })
	parent, err := v.AllocParentDomain(ctx, pd, td)
	later(err, func() error { return v.DeallocPD(parent) })
	mr, err := v.RegMR(pd, 4096, 4096, 1)
	later(err, func() error { return v.DeregMR(mr) })
	cq, err := v.CreateCQ(ctx, cqe, 1, ch, 1)
	if later(err, func() error { return v.DestroyCQ(cq) }) {
		errs = append(errs, second(v.Rings().InitCQ(cq)))
	}
	srq, err := v.CreateSRQ(pd, &abi.SRQInitAttr{Attr: abi.SRQAttr{MaxWR: 5, MaxSGE: 1}})
	if later(err, func() error { return v.DestroySRQ(srq) }) {
		errs = append(errs, v.QuerySRQ(srq, new(abi.SRQAttr)), second(v.Rings().InitSRQ(srq, 0)))
	}
	for _, domain := range []handle{pd, parent} {
		a := &abi.QPInitAttrEx{SendCQ: cq, RecvCQ: cq, SRQ: srq, QPType: abi.IBV_QPT_RC,
			Cap: abi.QPCap{MaxSendWR: 4, MaxSendSGE: 1, MaxRecvWR: 4, MaxRecvSGE: 1}}
		qp, err := v.CreateQP(domain, a)
		if !later(err, func() error { return v.DestroyQP(qp) }) {
			continue
		}
		o, err := v.Rings().InitQP(qp, 0)
		if err == nil && a.Cap.MaxInlineData > 64 {
			err = errors.New("more inline data than a WQE holds")
		}
		errs = append(errs, err, v.ModifyQP(qp, &abi.QPAttr{QPState: 1}, abi.IBV_QP_STATE),
			v.QueryQP(qp, new(abi.QPAttr), 0, nil))
		if err == nil {
			cmem.Slice[byte](o.BF.Reg, int(max(o.BF.Size*2, 8)))[0] = 1 // it is mapped
		}
	}
	errs = append(errs, useOwn(v, ctx, pd, cq, srq, later)...)
	ah, err := v.CreateAH(pd, &abi.AHAttr{IsGlobal: 1, PortNum: 1})
	later(err, func() error { return v.DestroyAH(ah) })
	errs = append(errs, v.GetAsyncEvent(ctx, new(abi.AsyncEvent)))
	if ch != 0 {
		errs = append(errs, v.GetCQEvent(ch, new(control.CQEvent)))
	}
	return errs
}

// errLeft is a handle, a ring or a doorbell record that nobody uses and nobody freed.
var errLeft = errors.New("something is left")

// nothingLeft returns errLeft if a context whose objects are closed has handles or memory of queues: the free doorbell
// records must fill all pages in use. What the kernel lost is kept on purpose.
func (v *Verbs) nothingLeft(ctx handle) error {
	c, err := get[context](v, ctx)
	if err != nil || c.file.Doubt.Load() {
		return err
	}
	used := 0
	for _, chunk := range c.memory.chunks {
		for _, u := range chunk.used {
			if u {
				used++
			}
		}
	}
	if free := len(c.memory.records) * recordRoom; free != used*uverbs.PageSize() {
		return fmt.Errorf("%w: %d pages are used, and %d bytes of records free", errLeft, used, free)
	}
	if n := len(v.table.objects); n != 2 { // of the device and the context
		return fmt.Errorf("%w: %d handles", errLeft, n)
	}
	return nil
}

// unheard are the commands whose failure no caller hears of, by object and method, and how many of each are sent at
// most.
var unheard = map[[2]uint16]int{
	{0, 3}:                   1,   // get_context with DevX: the device is opened again without
	{16, 0}:                  1,   // the file of events of such a context: the same
	{objectDevX, devxOther}:  100, // what the device has
	{objectObj, methodQuery}: 2,   // whether a QP's data arrives in order, which has no errors
	{objectUAR, methodFree}:  1,   // a register ends with the file
	{}:                       2,   // INVOKE_WRITE: objects of the package's own, which end with the context
}

// TestNothingLeft has each command fail in turn: the caller hears of it, and no handle, descriptor or memory of queues
// is left.
func TestNothingLeft(t *testing.T) {
	for _, static := range []bool{false, true} {
		for _, errno := range []syscall.Errno{syscall.ENOMEM, syscall.EINVAL, syscall.EIO} {
			most, silent := 0, make(map[[2]uint16]int)
			for n := 1; n == 1 || n <= most; n++ {
				k, sent := &fakeKernel{t: t, static: static}, 0
				var failed [2]uint16
				k.fail = func(object, method uint16) syscall.Errno {
					if sent++; sent == n {
						failed = [2]uint16{object, method}
						return errno
					}
					return 0
				}
				v, dev := k.device()
				heard := false
				for _, err := range use(v, dev, 10) {
					if errors.Is(err, errLeft) {
						t.Errorf("static %t, command %d, %v: %v", static, n, errno, err)
					}
					heard = heard || err != nil && !errors.Is(err, syscall.EAGAIN)
				}
				if !heard {
					if silent[failed]++; silent[failed] > unheard[failed] {
						t.Errorf("static %t, command %d (%d), %v: nobody heard of it", static, n, failed, errno)
					}
				}
				for _, p := range k.pipes {
					if _, err := unix.Write(p, []byte{0}); err != unix.EPIPE {
						t.Errorf("static %t, command %d, %v: a descriptor is left: %v", static, n, errno, err)
					}
				}
				most = max(most, sent)
				k.end()
			}
			if most < 50 {
				t.Errorf("static %t: %d commands", static, most)
			}
		}
	}
}

func (k *fakeKernel) end() {
	for _, p := range k.pipes {
		_ = unix.Close(p)
	}
}

// expected reports whether an error may come of an answer that is wrong: it is typed, of an object that was not made,
// or that there are no events to read.
func expected(err error) bool {
	var reply *uverbs.ReplyError
	var unknown *HandleError
	return err == nil || errors.Is(err, errLeft) || errors.As(err, &reply) || errors.As(err, &unknown) ||
		errors.Is(err, syscall.EAGAIN) ||
		errors.Is(err, syscall.EIO) || // a wrong descriptor, of a file that has ended
		errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EBUSY) || // the firmware refuses
		errors.Is(err, syscall.Errno(remoteIO)) ||
		errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSPC)
}

// TestFake_Good proves that the fake kernel is one that the package can use.
func TestFake_Good(t *testing.T) {
	for _, static := range []bool{false, true} {
		k := &fakeKernel{t: t, static: static}
		v, dev := k.device()
		for _, err := range use(v, dev, 2*manyCQEs) {
			if err != nil && !errors.Is(err, syscall.EAGAIN) {
				t.Errorf("static %t: %v", static, err)
			}
		}
		if n := len(v.table.objects); n != 1 {
			t.Errorf("static %t: %d objects are left", static, n-1)
		}
		ctx, err := v.OpenDevice(dev)
		pd, err2 := v.AllocPD(ctx)
		if err := errors.Join(err, err2, v.CloseDevice(ctx)); err != nil {
			t.Error(err)
		}
		if err := v.DeallocPD(pd); !errors.Is(err, syscall.EINVAL) || len(v.table.objects) != 1 {
			t.Errorf("static %t: a PD is left of a closed device: %v", static, err)
		}
		k.end()
	}
}

// spoilers are ways in which an answer is wrong.
var spoilers = []func(rnd *rand.Rand, b []byte){
	func(_ *rand.Rand, b []byte) { clear(b) },
	func(_ *rand.Rand, b []byte) {
		for i := range b {
			b[i] = 0xff
		}
	},
	func(rnd *rand.Rand, b []byte) {
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
	},
	func(rnd *rand.Rand, b []byte) { b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8) },
	func(rnd *rand.Rand, b []byte) { clear(b[rnd.IntN(len(b)):]) },              // short
	func(rnd *rand.Rand, b []byte) { clear(b); b[0] = byte(1 + rnd.IntN(255)) }, // small
}

// TestHostile spoils each answer in turn, in each way: no call panics, hangs or uses an answer that it did not check.
// A short run has one seed of three.
func TestHostile(t *testing.T) {
	seeds := uint64(1)
	if testutil.Full() {
		seeds = 3
	}
	for _, static := range []bool{false, true} {
		for n := 1; ; n++ {
			reached := false
			for i, spoil := range spoilers {
				for seed := range seeds {
					rnd := rand.New(rand.NewPCG(seed, uint64(n)))
					k := &fakeKernel{t: t, static: static}
					k.spoil = func(k *fakeKernel, what string, b []byte) {
						if k.calls != n || len(b) == 0 {
							return
						}
						reached = true
						if old := slices.Clone(b); k.isFD(old) { // a descriptor of this test must not be closed
							for i := range b {
								b[i] = 0x6f
							}
							return
						}
						spoil(rnd, b)
					}
					v, dev := k.device()
					for _, err := range use(v, dev, 10) {
						if !expected(err) {
							t.Errorf("static %t, answer %d, spoiler %d: %v", static, n, i, err)
						}
					}
					k.end()
				}
			}
			if !reached {
				break
			}
		}
	}
}

// isFD reports whether an answer is the newest descriptor.
func (k *fakeKernel) isFD(b []byte) bool {
	if len(b) != 4 || len(k.pipes) == 0 {
		return false
	}
	n := int(b[0]) | int(b[1])<<8
	return n == k.pipes[len(k.pipes)-1]-1
}

// TestRegisters: CQs and the first QP share a page, if it may be write combining. The register that all others
// share is nobody's own. What a program wants without write combining is elsewhere, and made once.
func TestRegisters(t *testing.T) {
	for _, tt := range []struct {
		name    string
		refused bool
		shutUp  string
		want    []uint64 // the pages that are allocated
	}{
		{"write combining", false, "", []uint64{uarBF, uarBF, uarNC}},
		{"not on this host", true, "", []uint64{uarNC}},
		{"switched off", false, "1", []uint64{uarNC, uarBF, uarBF}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.shutUp != "" {
				t.Setenv("MLX5_SHUT_UP_BF", tt.shutUp)
			}
			var got []uint64
			k := &fakeKernel{t: t}
			defer k.end()
			k.uar = func(kind uint64) syscall.Errno {
				if kind == uarBF && tt.refused {
					return syscall.EOPNOTSUPP
				}
				got = append(got, kind)
				return 0
			}
			v, dev := k.device()
			h, err := v.OpenDevice(dev)
			if err != nil {
				t.Fatal(err)
			}
			c, err := get[context](v, h)
			if err != nil {
				t.Fatal(err)
			}
			b := &c.bars
			common := len(got) == 1 && got[0] == uarBF
			for i, apart := range []bool{false, true, false} {
				switch r, err := b.take(apart); {
				case (err != nil) != tt.refused:
					t.Errorf("register %d: %v", i, err)
				case err == nil && (r.bar == b.common) != (common && i == 0):
					t.Errorf("register %d is in page %d, the common page is %d", i, r.bar.page, b.common.page)
				case err == nil && r.bar == b.common && r.offset == regOffset:
					t.Error("a QP has the register that all others share")
				}
			}
			for range 2 {
				if p, err := b.uncached(); err != nil || p.taken != nil || (p == b.common) == common {
					t.Errorf("%+v, %v", p, err)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("allocated %v, want %v", got, tt.want)
			}
			if err := v.CloseDevice(h); err != nil {
				t.Error(err)
			}
		})
	}
}
