package efadv

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/bind"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/internal/testutil/fakeverbs"
	"github.com/pureverbs/pureverbs/loader"
)

// fakeErr is why there are no fake libraries in this process, nil if there are.
var fakeErr error

// systemEnv makes a child use this machine's libraries.
const systemEnv = "EFADV_TEST_SYSTEM"

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	leak.Enable()
	if os.Getenv(testutil.TierEnv) != "" || os.Getenv(systemEnv) != "" {
		fakeErr = errors.New("these are the machine's libraries")
	} else {
		dir, err := os.MkdirTemp("", "fakeefa")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		if _, fakeErr = fakeverbs.Build(dir, "../ibv/testdata/fakeverbs"); fakeErr == nil {
			fakeErr = errors.Join(fakeverbs.BuildEFA(dir, "testdata/fakeefa"), fakeverbs.Use(dir))
		}
		if fakeErr != nil && !errors.Is(fakeErr, fakeverbs.ErrNoCompiler) {
			fmt.Fprintln(os.Stderr, fakeErr)
			return 1
		}
	}
	code := m.Run()
	if open := leak.Open(); code == 0 && len(open) > 0 {
		fmt.Fprintf(os.Stderr, "%d objects were not closed:\n%s\n", len(open), strings.Join(open, "\n"))
		return 1
	}
	return code
}

func knob(t testing.TB, fn, name string, value int) int {
	t.Helper()
	if fakeErr != nil {
		t.Skip(fakeErr)
	}
	lib, err := bind.Open(loader.IBVerbs)
	if err != nil {
		t.Fatal(err)
	}
	addr, err := lib.Symbol(fn)
	if err != nil {
		t.Fatal(err)
	}
	b := append([]byte(name), 0)
	var pin runtime.Pinner
	pin.Pin(&b[0])
	defer pin.Unpin()
	return int(int32(ccall.Uint64(addr, cmem.SliceAddr(b), uintptr(value))))
}

func get(t testing.TB, name string) int { return knob(t, "fv_get", name, 0) }

// set turns a knob of the fake libraries until the end of the test.
func set(t testing.TB, name string, value int) {
	t.Helper()
	knob(t, "fv_set", name, value)
	t.Cleanup(func() { knob(t, "fv_unset", name, 0) })
}

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func closing[C interface{ Close() error }](t testing.TB, c C) C {
	t.Helper()
	t.Cleanup(func() { ok(t, c.Close()) })
	return c
}

func wantErr(t *testing.T, err, cause error, words ...string) {
	t.Helper()
	if err == nil || cause != nil && !errors.Is(err, cause) {
		t.Errorf("%v, want %v", err, cause)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not name %q", err, w)
		}
	}
}

// end is one end of a conversation.
type end struct {
	dev *ibv.Device
	pd  *ibv.PD
	cq  *ibv.CQ
	mr  *ibv.MR
	qp  *ibv.QP
	at  ibv.Endpoint
}

func newEnd(t *testing.T, co *CQOptions, qo *QPOptions) *end {
	t.Helper()
	set(t, "efa", 1)
	e := &end{dev: closing(t, must(ibv.Open("fake0"))(t))}
	e.pd = closing(t, must(e.dev.AllocPD())(t))
	if co == nil {
		co = &CQOptions{}
	}
	e.cq = closing(t, must(CreateCQ(e.dev, 64, co))(t))
	e.mr = closing(t, must(e.pd.AllocMR(4096, ibv.LocalWrite|ibv.RemoteWrite|ibv.RemoteRead, nil))(t))
	e.qp = closing(t, must(CreateQP(e.pd, e.cq, e.cq, qo))(t))
	e.at = must(e.qp.Endpoint(1, 1))(t)
	ok(t, e.qp.Connect(e.at, nil))
	return e
}

func (e *end) poll(t *testing.T) ibv.WCEx {
	t.Helper()
	var wc [1]ibv.WCEx
	if n, err := e.cq.PollEx(wc[:]); n != 1 || err != nil {
		t.Fatalf("%d completions, %v", n, err)
	}
	return wc[0]
}

// TestFake_SRD sends each operation to two peers, whose addresses, keys and data differ.
func TestFake_SRD(t *testing.T) {
	wide := &CQOptions{SrcGID: true, Unsolicited: true}
	a := newEnd(t, nil, &QPOptions{QPOptions: ibv.QPOptions{MaxInline: 32}, SL: 3, UnsolicitedWrites: true})
	if get(t, "efa.flags") != 1 || get(t, "efa.sl") != 3 || a.qp.Type() != ibv.SRD {
		t.Errorf("flags %d, sl %d, type %v", get(t, "efa.flags"), get(t, "efa.sl"), a.qp.Type())
	}
	peers := []*end{newEnd(t, wide, nil), newEnd(t, wide, nil)}
	if get(t, "efa.wc_flags") != 3 {
		t.Errorf("wc_flags %d", get(t, "efa.wc_flags"))
	}
	for i, b := range peers {
		ah := closing(t, must(a.pd.CreateAH(must(a.qp.Address(b.at, nil))(t)))(t))
		if n := must(AHNumber(ah))(t); n != 0x1234 {
			t.Errorf("number %#x", n)
		}
		for _, op := range []ibv.Opcode{ibv.OpSend, ibv.OpSendImm, ibv.OpWrite, ibv.OpWriteImm, ibv.OpRead} {
			for _, inline := range []bool{false, true} {
				if inline && op == ibv.OpRead {
					continue
				}
				for k := range 64 {
					a.mr.Bytes()[k], b.mr.Bytes()[k], b.mr.Bytes()[100+k] = byte(k+int(op)), 0, byte(k^0x55)
				}
				recv := op == ibv.OpSend || op == ibv.OpSendImm || op == ibv.OpWriteImm
				if recv {
					if n, err := b.qp.PostRecv([]ibv.RecvWR{{ID: 5, SGEs: []ibv.SGE{b.mr.SGE(0, 64)}}}); n != 1 {
						t.Fatal(err)
					}
				}
				wr := ibv.SendWR{ID: uint64(op) + 1, Opcode: op, AH: ah, RemoteQPN: b.at.QPN,
					RemoteQKey: b.at.QKey, Imm: 77, Remote: b.mr.Remote().At(0)}
				if op == ibv.OpRead {
					wr.Remote = b.mr.Remote().At(100)
				}
				if inline {
					wr.Inline = a.mr.Bytes()[:30]
				} else {
					wr.SGEs = []ibv.SGE{a.mr.SGE(0, 30)}
				}
				if n, err := a.qp.PostSend([]ibv.SendWR{wr}); n != 1 {
					t.Fatal(op, err)
				}
				if wc := a.poll(t); wc.Status != ibv.WCSuccess || wc.ID != wr.ID {
					t.Fatalf("%v: %+v", op, wc)
				}
				if recv {
					wc := b.poll(t)
					if wc.ID != 5 || wc.SrcQPN != a.at.QPN || wc.Flags&ibv.WCGRH != 0 ||
						(op != ibv.OpSend) != (wc.Imm == 77) || !wc.HasSrcGID || wc.SrcGID[3] != 0x5a ||
						wc.Unsolicited {
						t.Errorf("%v: %+v", op, wc)
					}
				}
				got, want := b.mr.Bytes()[:30], slices.Clone(a.mr.Bytes()[:30])
				if op == ibv.OpRead {
					got, want = a.mr.Bytes()[:30], slices.Clone(b.mr.Bytes()[100:130])
				}
				if string(got) != string(want) {
					t.Errorf("peer %d, %v, inline %t: %x, want %x", i, op, inline, got, want)
				}
			}
		}
	}
}

// TestFake_SRDUnknown looks at what a completion says of senders without an address.
func TestFake_SRDUnknown(t *testing.T) {
	set(t, "efa.no_sgid", 1)
	set(t, "efa.unsolicited", 1)
	a := newEnd(t, &CQOptions{SrcGID: true, Unsolicited: true}, nil)
	ah := closing(t, must(a.pd.CreateAH(must(a.qp.Address(a.at, nil))(t)))(t))
	if n, err := a.qp.PostRecv([]ibv.RecvWR{{SGEs: []ibv.SGE{a.mr.SGE(0, 64)}}}); n != 1 {
		t.Fatal(err)
	}
	if n, err := a.qp.PostSend([]ibv.SendWR{{Opcode: ibv.OpSend, AH: ah, RemoteQPN: a.at.QPN,
		RemoteQKey: a.at.QKey}}); n != 1 {
		t.Fatal(err)
	}
	wc := a.poll(t)
	if !wc.Opcode.IsRecv() {
		wc = a.poll(t)
	}
	if wc.HasSrcGID || !wc.Unsolicited {
		t.Errorf("%+v", wc)
	}
}

func TestFake_Queries(t *testing.T) {
	e := newEnd(t, nil, nil)
	a := must(QueryDevice(e.dev))(t)
	if *a != (DeviceAttr{256, 512, 2, 3, 32, 64, 0x7f, 1 << 20}) ||
		a.Caps.String() != "Read|RNRRetry|CQWithSGID|Write|UnsolicitedWrite|CQWithDmabuf|CompCounters" {
		t.Errorf("%+v", a)
	}
	m := must(QueryMR(e.mr))(t)
	if *m != (MRAttr{Interconnect{11, true}, Interconnect{12, false}, Interconnect{13, true}}) {
		t.Errorf("%+v", m)
	}
	sq, rq, err := QueryWQs(e.qp)
	ok(t, err)
	if sq.EntrySize != 64 || sq.Entries != 256 || !sq.WideIDs || sq.MaxBatch != 16 || rq.Buffer != sq.Buffer+8 ||
		rq.Doorbell != sq.Doorbell+4 || rq.WideIDs {
		t.Errorf("%+v, %+v", sq, rq)
	}
	if c := must(QueryCQ(e.cq))(t); c.EntrySize != 32 || c.Entries != 128 || c.Doorbell != 0 || c.Buffer != sq.Buffer {
		t.Errorf("%+v", c)
	}
	if n := must(MaxSendDepth(e.dev, SendDepth{2, 3, 4, true}))(t); n != 2305 {
		t.Errorf("depth %d", n)
	}
	if n := must(MaxRecvDepth(e.dev, 2))(t); n != 256 {
		t.Errorf("depth %d", n)
	}
	_, err = MaxSendDepth(e.dev, SendDepth{SGEs: 3})
	wantErr(t, err, syscall.EINVAL)
	_, err = MaxRecvDepth(e.dev, 4)
	wantErr(t, err, syscall.EINVAL)
	for _, d := range []SendDepth{{SGEs: -1}, {RDMASGEs: 1<<32 + 1}, {Inline: -1}} {
		_, err = MaxSendDepth(e.dev, d)
		wantErr(t, err, syscall.EINVAL, "0 to 2147483647")
	}
	_, err = MaxRecvDepth(e.dev, int(int64(1)<<32+2)) // 2 in C's field
	wantErr(t, err, syscall.EINVAL, "sges is 4294967298")
}

// TestFake_Refused has what no SRD QP or CQ can have, and what this adapter lacks.
func TestFake_Refused(t *testing.T) {
	e := newEnd(t, nil, nil)
	with := func(o ibv.QPOptions) *QPOptions { return &QPOptions{QPOptions: o} }
	srq := closing(t, must(e.pd.CreateSRQ(nil))(t))
	for name, c := range map[string]struct {
		o     *QPOptions
		cause error
		want  string
	}{
		"type": {with(ibv.QPOptions{Type: ibv.UD}), syscall.EINVAL, "Type is UD"},
		"srq":  {with(ibv.QPOptions{SRQ: srq}), syscall.EINVAL, "SRD has receive queues of its own"},
		"wr": {with(ibv.QPOptions{MaxSendWR: 257}), syscall.EINVAL,
			"max_send_wr 257 exceeds the limit of fake0 (256)"},
		"recv":   {with(ibv.QPOptions{MaxRecvWR: 513}), syscall.EINVAL, "max_recv_wr"},
		"sge":    {with(ibv.QPOptions{MaxSendSGE: 3}), syscall.EINVAL, "max_send_sge"},
		"inline": {with(ibv.QPOptions{MaxInline: 65}), syscall.EINVAL, "max_inline_data"},
		"ops":    {with(ibv.QPOptions{SendOps: ibv.SendOpFetchAdd}), ibv.ErrNotSupported, "FetchAdd"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := CreateQP(e.pd, e.cq, e.cq, c.o)
			wantErr(t, err, c.cause, c.want)
		})
	}
	_, err := e.pd.CreateQP(e.cq, e.cq, &ibv.QPOptions{Type: ibv.SRD})
	wantErr(t, err, ibv.ErrNotSupported, "efadv.CreateQP")
	_, err = CreateQP(e.pd, nil, e.cq, nil)
	wantErr(t, err, syscall.EINVAL, "CQ")
	_, err = e.qp.PostSend([]ibv.SendWR{{Opcode: ibv.OpSend}})
	wantErr(t, err, syscall.EINVAL, "SRD QP: use SendTo, or set SendWR.AH")
	_, err = e.qp.PostSend([]ibv.SendWR{{Opcode: ibv.OpFetchAdd}})
	wantErr(t, err, syscall.EINVAL, "FetchAdd")
	for _, f := range []func() error{
		func() error { _, err := CreateQP(nil, e.cq, e.cq, nil); return err },
		func() error { _, err := CreateCQ(nil, 1, nil); return err },
		func() error { _, err := QueryMR(nil); return err },
		func() error { _, err := QueryCQ(nil); return err },
		func() error { _, _, err := QueryWQs(nil); return err },
		func() error { _, err := AHNumber(nil); return err },
		func() error { _, err := QueryDevice(nil); return err },
	} {
		wantErr(t, f(), syscall.EINVAL, "nil")
	}
	set(t, "efa.caps", 0)
	only := newEnd(t, nil, nil) // sends
	_, err = only.qp.PostSend([]ibv.SendWR{{Opcode: ibv.OpRead}})
	wantErr(t, err, syscall.EINVAL, "Read")
	for _, o := range []*QPOptions{{UnsolicitedWrites: true}, {InlineWrites: true},
		with(ibv.QPOptions{SendOps: ibv.SendOpWrite})} {
		_, err := CreateQP(e.pd, e.cq, e.cq, o)
		wantErr(t, err, ibv.ErrNotSupported, "fake0")
	}
	for _, o := range []*CQOptions{{SrcGID: true}, {Unsolicited: true}} {
		_, err := CreateCQ(e.dev, 1, o)
		wantErr(t, err, ibv.ErrNotSupported, "DeviceAttr.Caps")
	}
	set(t, "efa", 0) // another provider's
	_, err = QueryDevice(e.dev)
	wantErr(t, err, ibv.ErrNotSupported, "a device that libefa drives", "fake0")
	_, err = CreateCQ(e.dev, 1, nil)
	wantErr(t, err, ibv.ErrNotSupported, "libefa")
}

// TestFake_Fails has each function of the library fail, after which nothing is left.
func TestFake_Fails(t *testing.T) {
	e := newEnd(t, nil, nil)
	ah := closing(t, must(e.pd.CreateAH(must(e.qp.Address(e.at, nil))(t)))(t))
	for i, f := range []func() error{
		func() error { _, err := AHNumber(ah); return err },
		func() error { _, err := QueryMR(e.mr); return err },
		func() error { _, err := CreateQP(e.pd, e.cq, e.cq, nil); return err },
		func() error { _, err := CreateCQ(e.dev, 1, nil); return err },
		func() error { _, err := QueryCQ(e.cq); return err },
		func() error { _, _, err := QueryWQs(e.qp); return err },
		func() error { _, err := CreateCQ(e.dev, 1, &CQOptions{SrcGID: true}); return err },
	} {
		set(t, "efa.fail", i)
		for _, errno := range []syscall.Errno{syscall.EIO, syscall.EOPNOTSUPP} {
			set(t, "efa.errno", int(errno))
			want := error(errno)
			if errno == syscall.EOPNOTSUPP {
				want = ibv.ErrNotSupported
			}
			wantErr(t, f(), want, "efadv ")
		}
	}
}

// TestFake_Older has libraries that lack functions.
func TestFake_Older(t *testing.T) {
	e := newEnd(t, nil, nil)
	ah := closing(t, must(e.pd.CreateAH(must(e.qp.Address(e.at, nil))(t)))(t))
	for _, c := range []struct {
		names []string
		f     func() error
	}{
		{[]string{"efadv_query_device"}, func() error { _, err := QueryDevice(e.dev); return err }},
		{[]string{"efadv_query_ah"}, func() error { _, err := AHNumber(ah); return err }},
		{[]string{"efadv_create_qp_ex"}, func() error { _, err := CreateQP(e.pd, e.cq, e.cq, nil); return err }},
		{[]string{"efadv_create_cq"}, func() error { _, err := CreateCQ(e.dev, 1, nil); return err }},
		{[]string{"efadv_query_mr"}, func() error { _, err := QueryMR(e.mr); return err }},
		{[]string{"efadv_query_cq"}, func() error { _, err := QueryCQ(e.cq); return err }},
		{[]string{"efadv_query_qp_wqs"}, func() error { _, _, err := QueryWQs(e.qp); return err }},
		{[]string{"efadv_get_max_sq_depth"}, func() error { _, err := MaxSendDepth(e.dev, SendDepth{}); return err }},
		{[]string{"efadv_get_max_rq_depth"}, func() error { _, err := MaxRecvDepth(e.dev, 1); return err }},
	} {
		undo := bind.Hide("v99", c.names...)
		wantErr(t, c.f(), ibv.ErrNotSupported, "rdma-core v99 or later", c.names[0])
		undo()
	}
}
