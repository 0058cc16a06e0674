package mlx5dv

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/bind"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/loader"
)

// cmd is a command of n bytes whose body is a pattern.
func cmd(op uint16, n int) []byte {
	b := make([]byte, n)
	for i := 16; i < n; i++ {
		b[i] = byte(i)
	}
	binary.BigEndian.PutUint16(b, op)
	return b
}

// wantArg checks that err is an ArgError that names arg and says what is wanted.
func wantArg(t *testing.T, what, arg string, err error) {
	t.Helper()
	var e *ibv.ArgError
	if !errors.As(err, &e) || e.Arg != arg || e.Want == "" {
		t.Errorf("%s: %v", what, err)
	}
}

func wantUnsupported(t *testing.T, what string, err error) {
	t.Helper()
	var e *ibv.UnsupportedError
	if !errors.As(err, &e) || e.Need == "" || e.Have == "" || !errors.Is(err, ibv.ErrNotSupported) {
		t.Errorf("%s: %v", what, err)
	}
}

// commands tries each way that a command can go, by do.
func commands(t *testing.T, what string, do func(in, out []byte) error) {
	t.Helper()
	in, out := cmd(0x80d, 24), []byte(strings.Repeat("x", 20))
	if err := do(in, out); err != nil || string(out) != string(append(make([]byte, 16), 16, 17, 18, 19)) {
		t.Errorf("%s: %v, answer % x", what, err, out)
	}
	var e *CommandError
	if err := do(cmd(0x100, 16), out); !errors.As(err, &e) || e.Opcode != 0x100 || e.Status != CommandBadParameter ||
		e.Syndrome != 0x11223344 || !errors.Is(err, syscall.Errno(121)) {
		t.Errorf("%s, refused by the device: %v", what, err)
	}
	if err := do(cmd(0x101, 16), out); !errors.As(err, &e) || e.Status != 0 || e.Err != syscall.EINVAL ||
		!strings.Contains(err.Error(), "DevX") {
		t.Errorf("%s, refused by the kernel: %v", what, err)
	}
	wantArg(t, what+" without a header", "in", do(in[:15], out))
	wantArg(t, what+" without room", "out", do(in, nil))
	var l *ibv.LimitError
	if err := do(make([]byte, 1<<16), out); !errors.As(err, &l) || l.Limit != 1<<16-1 {
		t.Errorf("%s of 64 KiB: %v", what, err)
	}
}

// TestFakeDevX is one process: building the libraries takes longer than the tests.
func TestFakeDevX(t *testing.T) {
	onFake(t, func(t *testing.T) {
		withFake(t, "commands", fakeCommands)
		withFake(t, "umem", fakeUmem)
		withFake(t, "uar", fakeUAR)
		withFake(t, "dm", fakeDM)
		withFake(t, "events", fakeEvents)
		withFake(t, "queries", fakeQueries)
		withFake(t, "mkeys", fakeMkeys)
		withFake(t, "posting", fakePosting)
		withFake(t, "crypto", fakeCrypto)
		withFake(t, "capabilities", fakeCapabilities)
		withFake(t, "path", fakePath)
		withFake(t, "closing", fakeClosing)
		fakeClosingDevice(t)
		withFake(t, "scheduler", fakeScheduler)
		withFake(t, "pacing", fakePacing)
	})
}

func fakeCommands(t *testing.T, dev *ibv.Device) {
	commands(t, "general command", func(in, out []byte) error { return DevXCommand(dev, in, out) })
	var made []*DevXObject
	commands(t, "create", func(in, out []byte) error {
		o, err := CreateDevXObject(dev, in, out)
		if err == nil {
			made = append(made, o)
		}
		return err
	})
	if len(made) != 1 {
		t.Fatalf("%d objects were made", len(made))
	}
	o := made[0]
	commands(t, "query", o.Query)
	commands(t, "modify", o.Modify)
	if s := o.String(); !strings.HasPrefix(s, "devx object of ") || o.Device() != dev {
		t.Errorf("%s of %v", s, o.Device())
	}
	var busy *ibv.BusyError
	if err := dev.Close(); !errors.As(err, &busy) {
		t.Errorf("closing the device under an object: %v", err)
	}
	fakeCall(t, "fake_busy", 1)
	if err := o.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("closing an object that the device still uses: %v", err)
	}
	ok(t, o.Close())
	ok(t, o.Close())
	if err := o.Query(cmd(0x80d, 16), make([]byte, 16)); !errors.Is(err, ibv.ErrClosed) {
		t.Errorf("query after Close: %v", err)
	}

	cq := closing(t, must(dev.CreateCQ(4, &ibv.CQOptions{DataPath: ibv.DataPathOps}))(t))
	pd := closing(t, must(dev.AllocPD())(t))
	srq := closing(t, must(pd.CreateSRQ(nil))(t))
	wq := closing(t, must(pd.CreateWQ(cq, nil))(t))
	table := closing(t, must(dev.CreateRWQIndTable([]*ibv.WQ{wq}))(t))
	qp := must(pd.CreateQP(cq, cq, nil))(t)
	for i, c := range []struct {
		what string
		do   func(in, out []byte) error
	}{
		{"QP query", func(in, out []byte) error { return DevXQuery(qp, in, out) }},
		{"QP modify", func(in, out []byte) error { return DevXModify(qp, in, out) }},
		{"CQ query", func(in, out []byte) error { return DevXQuery(cq, in, out) }},
		{"CQ modify", func(in, out []byte) error { return DevXModify(cq, in, out) }},
		{"SRQ query", func(in, out []byte) error { return DevXQuery(srq, in, out) }},
		{"SRQ modify", func(in, out []byte) error { return DevXModify(srq, in, out) }},
		{"WQ query", func(in, out []byte) error { return DevXQuery(wq, in, out) }},
		{"WQ modify", func(in, out []byte) error { return DevXModify(wq, in, out) }},
		{"table query", func(in, out []byte) error { return DevXQuery(table, in, out) }},
		{"table modify", func(in, out []byte) error { return DevXModify(table, in, out) }},
	} {
		commands(t, c.what, c.do)
		if n := lastArg(t, 0); n != i+1 {
			t.Errorf("%s: function %d was called, want %d", c.what, n, i+1)
		}
	}
	ok(t, qp.Close())
	if err := DevXQuery(qp, cmd(0x80d, 16), make([]byte, 16)); !errors.Is(err, ibv.ErrClosed) {
		t.Errorf("query of a closed QP: %v", err)
	}
	wantArg(t, "query of nothing", "obj", DevXQuery((*ibv.CQ)(nil), cmd(0x80d, 16), make([]byte, 16)))
	wantArg(t, "general command on nothing", "dev", DevXCommand(nil, cmd(0x80d, 16), make([]byte, 16)))
}

func fakeUmem(t *testing.T, dev *ibv.Device) {
	mem := make([]byte, 5000)
	u := must(RegUmem(dev, mem, nil))(t)
	if lastArg(t, 1) != 5000 || ibv.AccessFlags(lastArg(t, 2)) != ibv.LocalWrite || u.ID() != 77 ||
		&u.Bytes()[0] != &mem[0] {
		t.Errorf("registered %d bytes with %v as %d", lastArg(t, 1), lastArg(t, 2), u.ID())
	}
	fakeCall(t, "fake_busy", 1)
	if err := u.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("closing memory that the device still uses: %v", err)
	}
	ok(t, u.Close())
	_, err := RegUmem(dev, nil, nil)
	wantArg(t, "no memory", "mem", err)
	_, err = RegUmem(dev, mem, &UmemOptions{Access: ibv.RemoteAtomic})
	wantArg(t, "remote atomics", "Access", err)
	_, err = RegUmemDmabuf(dev, -1, 0, 1, 0)
	wantArg(t, "no descriptor", "fd", err)
	_, err = RegUmemDmabuf(dev, 3, 0, 0, 0)
	wantArg(t, "no bytes", "length", err)
	opt := &UmemOptions{Access: ibv.LocalWrite | ibv.RemoteRead, PageSizes: 1 << 12}
	undo := bind.Hide("v35", "mlx5dv_devx_umem_reg_ex")
	_, err = RegUmem(dev, mem, opt)
	if undo(); !errors.Is(err, ibv.ErrNotSupported) || !strings.Contains(err.Error(), "v35") {
		t.Errorf("page sizes with an old library: %v", err)
	}
	if u = must(RegUmem(dev, mem, opt))(t); lastArg(t, 3) != 1<<12 ||
		ibv.AccessFlags(lastArg(t, 2)) != ibv.LocalWrite|ibv.RemoteRead {
		t.Errorf("page sizes %#x, access %v", lastArg(t, 3), lastArg(t, 2))
	}
	ok(t, u.Close())
	u = must(RegUmemDmabuf(dev, 17, 4096, 8192, ibv.LocalWrite))(t)
	if lastArg(t, 0) != 4096 || lastArg(t, 1) != 8192 || lastArg(t, 3) != 17 || u.Bytes() != nil {
		t.Errorf("dma-buf %d, %d bytes at %d", lastArg(t, 3), lastArg(t, 1), lastArg(t, 0))
	}
	ok(t, u.Close())
}

func fakeUAR(t *testing.T, dev *ibv.Device) {
	u := closing(t, must(AllocUAR(dev, UARNonCached))(t))
	if u.PageID() != 10 || u.Register() != u.Page()+0x800 || u.MmapOffset() != 0x90000 {
		t.Errorf("page %d at %#x, register %#x, offset %#x", u.PageID(), u.Page(), u.Register(), u.MmapOffset())
	}
	_, err := AllocUAR(dev, UARNonCachedOwn)
	wantUnsupported(t, "a type that the library does not know", err)
	_, err = AllocUAR(dev, 7)
	wantArg(t, "type 7", "t", err)
	if n := must(QueryEQN(dev, 0))(t); n != 40 {
		t.Errorf("event queue %d", n)
	}
	_, err = QueryEQN(dev, dev.NumCompVectors())
	wantArg(t, "a vector beyond", "vector", err)
	_, err = QueryEQN(dev, -1)
	wantArg(t, "vector -1", "vector", err)

	v := closing(t, must(AllocVAR(dev))(t))
	if off, n := v.Mmap(); v.PageID() != 3 || off != 0x70000 || n != 4096 {
		t.Errorf("VAR %d, %d bytes at %#x", v.PageID(), n, off)
	}
	ok(t, SetAllocators(dev, Allocators{Alloc: 1, Free: 2, Data: 3}))
	if lastArg(t, 0) != 3 {
		t.Errorf("data of the allocators is %d", lastArg(t, 0))
	}
	wantArg(t, "no allocator", "a", SetAllocators(dev, Allocators{Alloc: 1}))
	if p := must(DataDirectPath(dev))(t); p != "/sys/devices/pci0000:00/0000:00:05.0" {
		t.Errorf("data direct: %s", p)
	}
	a, b := must(ReserveQPN(dev))(t), must(ReserveQPN(dev))(t)
	if a.Num() != 0x1000 || b.Num() != 0x1001 {
		t.Errorf("reserved %#x, %#x", a.Num(), b.Num())
	}
	ok(t, errors.Join(a.Close(), b.Close()))
}

// fakeDM makes device memory of each type, and maps an operation on it.
func fakeDM(t *testing.T, dev *ibv.Device) {
	lib := must(loader.Open(loader.IBVerbs))(t)
	set, knob := must(lib.Symbol("fv_set"))(t), append([]byte("max_dm_size"), 0)
	var pin runtime.Pinner
	pin.Pin(&knob[0])
	defer pin.Unpin()
	ccall.Uint64(set, cmem.SliceAddr(knob), 4096)
	for typ, want := range map[DMType]int{DMSteering: 1, DMHeaderModify: 2} {
		dm := closing(t, must(AllocDM(dev, 128, &DMOptions{Type: typ}))(t))
		if got := lastArg(t, 0); got != want || dm.Len() != 128 {
			t.Errorf("%v: type %d of %d bytes, want %d", typ, got, dm.Len(), want)
		}
		if b := must(MapDMOp(dm, 5))(t); len(b) != 128 || b[0] != 5 {
			t.Errorf("%v: %d bytes are mapped, the first is %d", typ, len(b), b[0])
		}
		_, err := MapDMOp(dm, 6)
		wantUnsupported(t, "operation 6", err)
	}
}

func fakeEvents(t *testing.T, dev *ibv.Device) {
	o := closing(t, must(CreateDevXObject(dev, cmd(0x80d, 16), make([]byte, 16)))(t))
	e := closing(t, must(CreateDevXEvents(dev, false))(t))
	ok(t, e.Subscribe(o, 0x1122334455667788, EventSRQLimit, EventPortChange))
	for _, want := range []EventType{EventSRQLimit, EventPortChange} {
		v := must(e.Read(t.Context()))(t)
		if v.Cookie != 0x1122334455667788 || len(v.Data) != 64 || v.Data[63] != byte(want) {
			t.Errorf("event %+v, want %v", v, want)
		}
	}
	wantArg(t, "no types", "types", e.Subscribe(nil, 0))
	wantArg(t, "a type twice", "types", e.Subscribe(nil, 0, EventCommEst, EventCommEst))
	if err := e.Subscribe(nil, 0, 0x99); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a type that there is not: %v", err)
	}
	ok(t, e.SubscribeFD(33, o, EventCompletion))
	if lastArg(t, 1) != 33 || lastArg(t, 2) != 0 {
		t.Errorf("descriptor %d, type %d", lastArg(t, 1), lastArg(t, 2))
	}
	wantArg(t, "descriptor -1", "fd", e.SubscribeFD(-1, o, EventCompletion))
	short := closing(t, must(CreateDevXEvents(dev, true))(t))
	ok(t, short.Subscribe(nil, 7, EventPortChange))
	if v := must(short.Read(t.Context()))(t); v.Cookie != 7 || v.Data != nil {
		t.Errorf("an event without data: %+v", v)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("read, canceled: %v", err)
	}
	done := make(chan error)
	go func() {
		_, err := short.Read(context.Background())
		done <- err
	}()
	ok(t, short.Close())
	if err := <-done; !errors.Is(err, ibv.ErrClosed) {
		t.Errorf("read while it is closed: %v", err)
	}
	closed := must(CreateDevXObject(dev, cmd(0x80d, 16), make([]byte, 16)))(t)
	ok(t, closed.Close())
	if err := e.Subscribe(closed, 0, EventCommEst); !errors.Is(err, ibv.ErrClosed) {
		t.Errorf("events of a closed object: %v", err)
	}
}

func fakePath(t *testing.T, dev *ibv.Device) {
	cq := closing(t, must(dev.CreateCQ(4, &ibv.CQOptions{DataPath: ibv.DataPathOps}))(t))
	pd := closing(t, must(dev.AllocPD())(t))
	qp := closing(t, must(pd.CreateQP(cq, cq, nil))(t))
	ah := closing(t, must(pd.CreateAH(&ibv.AHAttr{DLID: 1, Port: 1}))(t))
	if p := must(QueryLAGPort(qp))(t); p != (LAGPort{Configured: 1, Active: 2}) {
		t.Errorf("LAG port %+v", p)
	}
	ok(t, ModifyLAGPort(qp, 2))
	ok(t, ModifyUDPPort(qp, 0xc123))
	if n := lastArg(t, 0); n != 0xc123 {
		t.Errorf("UDP port %#x", n)
	}
	ok(t, MapAHToQP(ah, 0x1234))
	wantArg(t, "LAG port 0", "port", ModifyLAGPort(qp, 0))
	wantUnsupported(t, "LAG port 3", ModifyLAGPort(qp, 3))
	wantUnsupported(t, "UDP port 0", ModifyUDPPort(qp, 0))
	wantUnsupported(t, "an AH that cannot be mapped", MapAHToQP(ah, 0))
	wantArg(t, "a QPN of 25 bits", "qpn", MapAHToQP(ah, 1<<24))
	wantArg(t, "no AH", "ah", MapAHToQP(nil, 1))
	wantArg(t, "no QP", "qp", ModifyUDPPort(nil, 1))
	_, err := QueryLAGPort(nil)
	wantArg(t, "no QP", "qp", err)
	_, err = CancelSends(qp, 1)
	wantArg(t, "canceling on a QP in RESET", "qp", err)
}

// fakeClosingDevice has the fake library know one device after the other.
func fakeClosingDevice(t *testing.T) {
	for _, f := range []func(dev *ibv.Device) error{
		func(dev *ibv.Device) error { _, err := QueryEQN(dev, 0); return err },
		func(dev *ibv.Device) error { _, err := QueryCrypto(dev); return err },
	} {
		closeMeanwhile(t, func() *ibv.Device {
			fakeCall(t, "fake_reset")
			fakeCall(t, "fake_caps", capCrypto)
			return must(ibv.Open(""))(t)
		}, f)
	}
}

func fakeClosing(t *testing.T, dev *ibv.Device) {
	cq := closing(t, must(dev.CreateCQ(4, &ibv.CQOptions{DataPath: ibv.DataPathOps}))(t))
	pd := closing(t, must(dev.AllocPD())(t))
	leaf := closing(t, must(closing(t, must(CreateSchedRoot(dev))(t)).CreateLeaf(nil))(t))
	fakeCall(t, "fake_lacking", uintptr(int(syscall.EOPNOTSUPP)))
	defer fakeCall(t, "fake_lacking", 0)
	for _, f := range []func(qp *ibv.QP) error{
		func(qp *ibv.QP) error { _, err := QueryLAGPort(qp); return err },
		func(qp *ibv.QP) error { return ModifyUDPPort(qp, 0xc123) },
		func(qp *ibv.QP) error { return ScheduleQP(qp, leaf, nil) },
	} {
		closeMeanwhile(t, func() *ibv.QP { return must(pd.CreateQP(cq, cq, nil))(t) }, f)
	}
}

func TestDevXStrings(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{CommandBadQPState.String(), "BadQPState"}, {CommandStatus(0x77).String(), "CommandStatus(119)"},
		{EventPortChange.String(), "PortChange"}, {EventType(0x77).String(), "EventType(119)"},
		{UARNonCached.String(), "NonCached"}, {UARType(7).String(), "UARType(7)"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}

func fakeQueries(t *testing.T, dev *ibv.Device) {
	o := closing(t, must(CreateDevXObject(dev, cmd(0x80d, 16), make([]byte, 16)))(t))
	q := closing(t, must(CreateDevXQueries(dev))(t))
	read := func() DevXAnswer {
		t.Helper()
		return must(q.Read(t.Context()))(t)
	}
	// Answers of several lengths, one of which was asked for while somebody waits already.
	waits := make(chan DevXAnswer)
	go func() { a, _ := q.Read(context.Background()); waits <- a }()
	ok(t, q.Start(o, 1<<40, cmd(0x80d, 512), 500))
	if a := <-waits; a.Cookie != 1<<40 || len(a.Out) != 500 || a.Out[499] != byte(499&0xff) || a.Err != nil {
		t.Errorf("%+v", a)
	}
	for i, n := range []int{16, 1000, 20} {
		ok(t, q.Start(o, uint64(i), cmd(0x80d, 24), n))
	}
	for i, n := range []int{16, 1000, 20} {
		if a := read(); a.Cookie != uint64(i) || len(a.Out) != n || n == 20 && a.Out[19] != 19 || a.Err != nil {
			t.Errorf("answer %d: %+v", i, a)
		}
	}
	ok(t, q.Start(o, 5, cmd(0x100, 16), 32))
	var e *CommandError
	if a := read(); a.Cookie != 5 || !errors.As(a.Err, &e) || e.Opcode != 0x100 || e.Status != CommandBadParameter ||
		e.Syndrome != 0x11223344 || !errors.Is(a.Err, syscall.Errno(121)) {
		t.Errorf("refused by the device: %+v", a)
	}
	if err := q.Start(o, 6, cmd(0x101, 16), 16); !errors.As(err, &e) || e.Status != 0 || e.Err != syscall.EINVAL {
		t.Errorf("refused by the kernel: %v", err)
	}
	wantArg(t, "no object", "obj", q.Start(nil, 0, cmd(0x80d, 16), 16))
	wantArg(t, "without a header", "in", q.Start(o, 0, make([]byte, 15), 16))
	wantArg(t, "without room", "out", q.Start(o, 0, cmd(0x80d, 16), 15))
	wantArg(t, "negative room", "out", q.Start(o, 0, cmd(0x80d, 16), -1))
	var l *ibv.LimitError
	if err := q.Start(o, 0, cmd(0x80d, 16), 1<<40); !errors.As(err, &l) || l.Limit != 1<<16-1 {
		t.Errorf("an answer of a terabyte: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("read, canceled: %v", err)
	}
	closed := must(CreateDevXObject(dev, cmd(0x80d, 16), make([]byte, 16)))(t)
	ok(t, closed.Close())
	if err := q.Start(closed, 0, cmd(0x80d, 16), 16); !errors.Is(err, ibv.ErrClosed) {
		t.Errorf("about a closed object: %v", err)
	}
	go func() { _, err := q.Read(context.Background()); waits <- DevXAnswer{Err: err} }()
	ok(t, q.Close())
	if a := <-waits; !errors.Is(a.Err, ibv.ErrClosed) {
		t.Errorf("read while it is closed: %v", a.Err)
	}
	if err := q.Start(o, 0, cmd(0x80d, 16), 16); !errors.Is(err, ibv.ErrClosed) {
		t.Errorf("start after Close: %v", err)
	}
}
