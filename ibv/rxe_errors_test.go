package ibv

import (
	"errors"
	"math"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// wantErr checks that err is of the given cause and names what it is about.
func wantErr(t *testing.T, err error, cause error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %v", cause)
		return
	}
	t.Log(err)
	if cause != nil && !errors.Is(err, cause) {
		t.Errorf("%v is not %v", err, cause)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not name %q", err, w)
		}
	}
}

func TestRXE_OpenErrors(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	_, err := Open("nothing0")
	wantErr(t, err, ErrNoDevice, "nothing0", rxe.Dev[0], rxe.Dev[1])
	_, err = OpenIndex(99)
	wantErr(t, err, ErrNoDevice, "99")
	_, err = OpenGUID(0x1234)
	wantErr(t, err, ErrNoDevice)

	devs := must(Devices())(t)
	if rxe := testutil.NeedRXE(t); len(devs) != 2 && (!rxe.Hardware || len(devs) == 0) {
		t.Fatalf("devices %+v", devs)
	}
	for i, d := range devs {
		c := must(OpenIndex(i))(t)
		if c.Name() != d.Name || c.GUID() != d.GUID || d.GUID == 0 {
			t.Errorf("device %d: %s %v, listed as %+v", i, c.Name(), c.GUID(), d)
		}
		ok(t, c.Close())
		c = must(OpenGUID(d.GUID))(t)
		ok(t, c.Close())
	}
	c := must(Open(""))(t)
	ok(t, c.Close())
	ok(t, c.Close())
	_, err = c.AllocPD()
	wantErr(t, err, ErrClosed)
	_, err = c.QueryPort(1)
	wantErr(t, err, ErrClosed)
}

func TestRXE_Queries(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	rxe.NeedRoCE(t)
	s := newSide(t, 0, nil)
	d := must(s.dev.QueryDevice())(t)
	if d.MaxQP < 1 || d.MaxCQE < 1 || d.PhysPortCnt != 1 || d.NodeGUID != s.dev.GUID() {
		t.Errorf("device %+v", d)
	}
	p := must(s.dev.QueryPort(rxe.Port))(t)
	if p.State != PortActive || p.LinkLayer != LinkEthernet || p.GIDTableLen < 2 || p.ActiveMTU == 0 ||
		p.RateGbps() == 0 {
		t.Errorf("port %+v at %v", p, p.Rate())
	}
	for _, bad := range []uint8{0, 2, 255} {
		_, err := s.dev.QueryPort(bad)
		wantErr(t, err, syscall.EINVAL, "1 to 1")
	}
	e := must(s.dev.QueryGIDEntry(rxe.Port, rxe.GIDs[0]))(t)
	if e.Type != GIDTypeRoCEv2 || e.Netdev != rxe.Net[0] || e.GID.Addr().String() != rxe.IP[0] {
		t.Errorf("gid %+v", e)
	}
	table := must(s.dev.GIDTable())(t)
	back := must(s.dev.gidTableFallback())(t)
	if len(table) < 2 || len(table) != len(back) {
		t.Fatalf("table of %d entries, %d without the table call", len(table), len(back))
	}
	for i := range table {
		if table[i] != back[i] {
			t.Errorf("entry %+v, without the table call %+v", table[i], back[i])
		}
		f, err := s.dev.gidEntryFallback(rxe.Port, table[i].Index)
		if err != nil || f != table[i] {
			t.Errorf("entry %+v, from sysfs %+v (%v)", table[i], f, err)
		}
	}
	_, err := s.dev.QueryGIDEntry(rxe.Port, 200)
	wantErr(t, err, ErrNotFound)
	_, err = s.dev.QueryGID(rxe.Port, 1<<20)
	wantErr(t, err, nil, "1048576")
	if k := must(s.dev.QueryPKey(rxe.Port, 0))(t); k != 0xffff {
		t.Errorf("pkey %#x", k)
	}
	if i := must(s.dev.PKeyIndex(rxe.Port, 0xffff))(t); i != 0 {
		t.Errorf("pkey index %d", i)
	}
	_, err = s.dev.PKeyIndex(rxe.Port, 0x1234)
	wantErr(t, err, ErrNotFound, "0x1234")
}

func TestRXE_BadMemory(t *testing.T) {
	s := newSide(t, 0, nil)
	_, err := s.pd.RegMR(nil, LocalWrite)
	wantErr(t, err, syscall.EINVAL, "nil")
	_, err = s.pd.RegMR([]byte{}, LocalWrite)
	wantErr(t, err, syscall.EINVAL, "0 bytes")
	_, err = s.pd.AllocMR(0, LocalWrite, nil)
	wantErr(t, err, syscall.EINVAL, "at least 1 byte")
	_, err = s.pd.AllocMR(-1, LocalWrite, nil)
	wantErr(t, err, syscall.EINVAL)
	_, err = s.pd.AllocMR(math.MaxInt, LocalWrite, nil)
	wantErr(t, err, nil)
	_, err = s.pd.AllocMR(1<<46, LocalWrite, nil)
	wantErr(t, err, nil)
	_, err = s.pd.RegMemory(0x1000, 4096, 0x1000, LocalWrite)
	wantErr(t, err, nil)
	_, err = s.pd.AllocMR(4096, RemoteWrite, nil) // without LocalWrite
	wantErr(t, err, syscall.EINVAL, "LocalWrite")

	// A limit on locked memory is named. Root may lock what it likes, so the
	// explanation is checked on the error itself.
	err = (&Device{}).explainRegister(syscall.ENOMEM, 1<<30, LocalWrite)
	wantErr(t, err, syscall.ENOMEM, "RLIMIT_MEMLOCK")

	mr := must(s.pd.AllocMR(4096, LocalWrite, nil))(t)
	err = s.pd.Close()
	wantErr(t, err, syscall.EBUSY, "2 mr")
	ok(t, mr.Close())
	ok(t, mr.Close())
	if mr.Bytes() != nil {
		t.Error("a closed MR shows memory that is unmapped")
	}
	wantErr(t, mr.Rereg(&ReregOptions{PD: s.pd}), ErrClosed)

	huge, err := s.pd.AllocMR(4<<20, LocalWrite, &MemOptions{HugePages: HugeTry})
	ok(t, err)
	huge.Bytes()[4<<20-1] = 1
	ok(t, huge.Close())
}

func TestRXE_Limits(t *testing.T) {
	s := newSide(t, 0, nil)
	dev := must(s.dev.QueryDevice())(t)
	_, err := s.dev.CreateCQ(0, nil)
	wantErr(t, err, syscall.EINVAL, "cqe is 0")
	_, err = s.dev.CreateCQ(-5, nil)
	wantErr(t, err, syscall.EINVAL, "-5")
	_, err = s.dev.CreateCQ(dev.MaxCQE+1, nil)
	wantErr(t, err, nil, "cqe")
	_, err = s.dev.CreateCQ(16, &CQOptions{CompVector: 1000})
	wantErr(t, err, syscall.EINVAL, "comp_vector 1000")
	direct, err := s.dev.CreateCQ(16, &CQOptions{DataPath: DataPathDirect})
	if !soft(testutil.NeedRXE(t)) {
		closing(t, must(direct, err)(t))
	} else {
		wantErr(t, err, ErrNotSupported, "another provider's")
	}
	_, err = s.dev.CreateCQ(16, &CQOptions{DataPath: 9})
	wantErr(t, err, syscall.EINVAL, "DataPath(9)")

	_, err = s.pd.CreateQP(s.cq, s.cq, &QPOptions{MaxSendWR: dev.MaxQPWR + 1})
	wantErr(t, err, nil, "max_send_wr")
	_, err = s.pd.CreateQP(s.cq, s.cq, &QPOptions{MaxRecvSGE: dev.MaxSGE + 1})
	wantErr(t, err, nil, "max_recv_sge")
	_, err = s.pd.CreateQP(s.cq, s.cq, &QPOptions{MaxInline: 1 << 20})
	wantErr(t, err, nil, "max_inline_data")
	_, err = s.pd.CreateQP(s.cq, s.cq, &QPOptions{MaxSendWR: -7})
	wantErr(t, err, syscall.EINVAL, "-7")
	_, err = s.pd.CreateQP(nil, s.cq, nil)
	wantErr(t, err, syscall.EINVAL, "send CQ is nil")
	_, err = s.pd.CreateQP(s.cq, s.cq, &QPOptions{Type: 77})
	wantErr(t, err, nil)
	_, err = s.pd.CreateSRQ(&SRQOptions{MaxWR: dev.MaxSRQWR + 1})
	wantErr(t, err, nil, "max_wr")
	other := newSide(t, 1, nil)
	_, err = s.pd.CreateQP(other.cq, s.cq, nil)
	wantErr(t, err, syscall.EINVAL, "another Device")

	a, b := newPair(t, &QPOptions{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 2, MaxInline: 16}, nil)
	limit := a.qp.Cap()
	sges := make([]SGE, limit.MaxSendSGE+1)
	for i := range sges {
		sges[i] = a.mr.SGE(0, 1)
	}
	good := SendWR{ID: 1, Opcode: OpWrite, Flags: Signaled, SGEs: sges[:1], Remote: b.mr.Remote().At(0)}
	n, err := a.qp.PostSend([]SendWR{good, {ID: 2, Opcode: OpWrite, SGEs: sges}, good})
	wantErr(t, err, syscall.EINVAL, "sge", "work request 1")
	if n != 1 {
		t.Errorf("%d accepted before the bad one, want 1", n)
	}
	a.good(t, 1)
	n, err = a.qp.PostSend([]SendWR{{Opcode: OpSend, Inline: make([]byte, limit.MaxInline+1)}})
	wantErr(t, err, syscall.EINVAL, "inline")
	if n != 0 {
		t.Errorf("%d accepted", n)
	}
	_, err = a.qp.PostSend([]SendWR{{Opcode: OpSend, Flags: Inline, SGEs: []SGE{a.mr.SGE(0, limit.MaxInline+1)}}})
	wantErr(t, err, syscall.EINVAL, "inline")
	_, err = a.qp.PostSend([]SendWR{{Opcode: 200}})
	wantErr(t, err, syscall.EINVAL, "Opcode(200)")
	q := a.qp.Batch()
	q.WriteInline(1, 0, make([]byte, limit.MaxInline+1), b.mr.Remote().At(0))
	q.Write(2, 0, a.mr.SGE(0, 1), b.mr.Remote().At(0))
	err = q.Post()
	wantErr(t, err, syscall.EINVAL, "0 of", "inline")
	wantErr(t, q.Post(), syscall.EINVAL, "0 of 2") // it is all still there
	q.Reset()
	q.Write(3, Signaled, a.mr.SGE(0, 1), b.mr.Remote().At(0))
	ok(t, q.Post())
	a.good(t, 3)

	// More than the queue holds: what was accepted completes, the rest is
	// refused with ErrQueueFull, and after polling there is room again.
	many := make([]SendWR, 4*limit.MaxSendWR)
	for i := range many {
		many[i] = SendWR{ID: uint64(100 + i), Opcode: OpRead, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 60000)},
			Remote: b.mr.Remote().At(0)}
	}
	n, err = a.qp.PostSend(many)
	if err != nil {
		wantErr(t, err, ErrQueueFull)
		if n < 1 || n >= len(many) {
			t.Errorf("%d of %d accepted", n, len(many))
		}
	}
	for i := range n {
		a.good(t, uint64(100+i))
	}
	post(t, a.qp, good)
	a.good(t, 1)

	for range limit.MaxRecvWR {
		recv(t, b.qp, RecvWR{ID: 1, SGEs: []SGE{b.mr.SGE(0, 8)}})
	}
	full := false
	for range 16 {
		if _, err := b.qp.PostRecv([]RecvWR{{ID: 2, SGEs: []SGE{b.mr.SGE(0, 8)}}}); err != nil {
			wantErr(t, err, ErrQueueFull)
			full = true
			break
		}
	}
	if !full {
		t.Errorf("a receive queue of %d never got full", limit.MaxRecvWR)
	}
	_, err = b.qp.PostRecv([]RecvWR{{SGEs: make([]SGE, b.qp.Cap().MaxRecvSGE+1)}})
	wantErr(t, err, syscall.EINVAL, "sge")
}

func TestRXE_WrongState(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	s := newSide(t, 0, nil)
	qp := s.newQP(t, nil)
	if st := qp.State(); st != StateReset {
		t.Fatalf("new QP in %v", st)
	}
	_, err := qp.PostSend([]SendWR{{Opcode: OpSend}})
	wantErr(t, err, syscall.EINVAL, "state RESET", "RTS")
	_, err = qp.PostRecv([]RecvWR{{ID: 1}})
	wantErr(t, err, syscall.EINVAL, "state RESET", "INIT")
	b := qp.Batch()
	b.Send(1, 0, s.mr.SGE(0, 8))
	wantErr(t, b.Post(), syscall.EINVAL, "RTS")
	wantErr(t, qp.Connect(Endpoint{}, nil), nil, "Endpoint first")

	// The kernel refuses; the error says which attributes are wrong.
	err = qp.Modify(&QPAttr{State: StateRTR}, MaskState)
	var m *ModifyError
	if !errors.As(err, &m) || m.Legal {
		t.Errorf("RESET to RTR: %#v", err)
	}
	wantErr(t, err, syscall.EINVAL, "no such transition")
	err = qp.Modify(&QPAttr{State: StateInit, Port: 1, SQPSN: 3}, MaskState|MaskPort|MaskSQPSN)
	if !errors.As(err, &m) || m.Missing != MaskPKeyIndex|MaskAccessFlags || m.Superfluous != MaskSQPSN {
		t.Errorf("RESET to INIT: %v", err)
	}
	wantErr(t, err, syscall.EINVAL, "missing", "superfluous")

	if _, err := qp.Endpoint(rxe.Port, 100); err == nil {
		t.Error("an empty GID entry was taken")
	} else {
		t.Log(err)
	}
	me := must(qp.Endpoint(rxe.Port, BestGID))(t)
	if me.GID.Addr().String() != rxe.IP[0] && !rxe.IB {
		t.Errorf("the best GID is %v, want that of %s", me.GID, rxe.IP[0])
	}
	ok(t, qp.Init(nil))
	recv(t, qp, RecvWR{ID: 1, SGEs: []SGE{s.mr.SGE(0, 8)}})

	// A peer that is nowhere.
	peer := me
	peer.GID = GIDFromIP(t, "192.0.2.77")
	err = qp.Connect(peer, nil)
	if err == nil {
		t.Log("rxe resolves the way at the first packet, not at RTR")
	} else {
		var p *PathError
		if !errors.As(err, &p) {
			t.Errorf("%v is no PathError", err)
		}
		wantErr(t, err, nil, "192.0.2.77", rxe.IP[0])
		ok(t, qp.Connect(me, nil)) // repeated with a peer that exists: itself
	}
	st := must(qp.Query(MaskState | MaskDestQPN))(t)
	if st.State != StateRTS {
		t.Errorf("state %v after Connect", st.State)
	}
	ok(t, qp.Modify(&QPAttr{State: StateErr}, MaskState))
	if wc := s.next(t); wc.Status != WCWRFlushErr || wc.ID != 1 {
		t.Errorf("%+v, want a flush of 1", wc)
	}
	ok(t, qp.Modify(&QPAttr{State: StateReset}, MaskState))
}

// TestRXE_CloseRaces closes objects under use: every call ends, with success
// or ErrClosed, and parents refuse while they have children.
func TestRXE_CloseRaces(t *testing.T) {
	a, b := newPair(t, nil, nil)
	remote := b.mr.Remote().At(0)
	qp := must(a.pd.CreateQP(a.cq, a.cq, nil))(t)
	rxe := testutil.NeedRXE(t)
	peer := must(b.pd.CreateQP(b.cq, b.cq, nil))(t)
	ea, eb := must(qp.Endpoint(rxe.Port, rxe.GID))(t), must(peer.Endpoint(rxe.Port, rxe.GID))(t)
	ok(t, qp.Connect(eb, nil))
	ok(t, peer.Connect(ea, nil))

	for _, c := range []interface{ Close() error }{a.dev, a.pd, a.cq} {
		wantErr(t, c.Close(), syscall.EBUSY, "still in use by")
	}
	var wg sync.WaitGroup
	use := func(name string, f func() error) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for start := time.Now(); time.Since(start) < testutil.Patience; {
				if err := f(); err != nil && !errors.Is(err, ErrQueueFull) {
					if !errors.Is(err, ErrClosed) {
						t.Errorf("%s: %v", name, err)
					}
					return
				}
			}
			t.Errorf("%s did not notice that the QP was closed", name)
		}()
	}
	use("post send", func() error {
		_, err := qp.PostSend([]SendWR{{Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 8)}, Remote: remote}})
		a.cq.Poll(make([]WC, 8))
		return err
	})
	use("batch", func() error {
		q := qp.Batch()
		q.Write(1, Signaled, a.mr.SGE(0, 8), remote)
		return q.Post()
	})
	use("post recv", func() error {
		_, err := qp.PostRecv([]RecvWR{{SGEs: []SGE{a.mr.SGE(0, 8)}}})
		return err
	})
	use("query", func() error { _, err := qp.Query(MaskState); return err })
	time.Sleep(30 * time.Millisecond)
	ok(t, qp.Close())
	ok(t, qp.Close())
	wg.Wait()
	ok(t, peer.Close())
	if st := qp.State(); st != StateUnknown {
		t.Errorf("state %v of a closed QP", st)
	}
	wantErr(t, qp.Modify(&QPAttr{}, MaskState), ErrClosed)
	_, err := qp.Endpoint(1, 0)
	wantErr(t, err, ErrClosed)
}

// TestRXE_PeerGone sends to a QP that is destroyed: the sends fail by themselves
// in the time of the retries, and everything closes.
func TestRXE_PeerGone(t *testing.T) {
	a, b := newPair(t, nil, &ConnectOptions{AckTimeout: TimeCode(10).Duration(), RetryCount: 2})
	post(t, a.qp, SendWR{ID: 1, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 8)},
		Remote: b.mr.Remote().At(0)})
	a.good(t, 1)
	ok(t, b.qp.Close())
	for i := range 4 {
		post(t, a.qp, SendWR{ID: uint64(2 + i), Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 8)},
			Remote: b.mr.Remote().At(0)})
	}
	first := a.next(t)
	if first.ID != 2 || first.Status != WCRetryExcErr {
		t.Errorf("%+v, want 2 to run out of retries", first)
	}
	wantErr(t, first.Err(), WCRetryExcErr.Err())
	for i := range 3 {
		if wc := a.next(t); wc.ID != uint64(3+i) || wc.Status != WCWRFlushErr {
			t.Errorf("%+v, want a flush of %d", wc, 3+i)
		}
	}
}

// TestRXE_RNR sends to a QP without receives.
func TestRXE_RNR(t *testing.T) {
	a, _ := newPair(t, nil, &ConnectOptions{RNRRetry: 1, RNRTimer: RNRTimer(1).Duration()})
	post(t, a.qp, SendWR{ID: 1, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 8)}})
	wantErr(t, ptr(a.next(t)).Err(), WCRNRRetryExcErr.Err())
}

func ptr[T any](v T) *T { return &v }

// TestRXE_Loss moves data over a link that loses 2 % of its packets.
func TestRXE_Loss(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	rxe.NeedKernel(t) // netem
	a, b := newPair(t, nil, &ConnectOptions{AckTimeout: TimeCode(12).Duration()})
	tc := tcTool(t)
	command(t, tc, "qdisc", "add", "dev", rxe.Net[0], "root", "netem", "loss", "2%")
	defer command(t, tc, "qdisc", "del", "dev", rxe.Net[0], "root")
	const n, rounds = 60000, 40
	for r := range rounds {
		fill(a.mr.Bytes()[:n], r)
		clear(b.mr.Bytes()[:n])
		recv(t, b.qp, RecvWR{ID: uint64(r)})
		post(t, a.qp, SendWR{ID: uint64(r), Opcode: OpWriteImm, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, n)},
			Remote: b.mr.Remote().At(0), Imm: uint32(r)})
		if wc := b.good(t, uint64(r)); wc.Imm != uint32(r) {
			t.Errorf("imm %d, want %d", wc.Imm, r)
		}
		a.good(t, uint64(r))
		same(t, b.mr.Bytes()[:n], r)
	}
	if lost := netemDrops(t, tc, rxe.Net[0]); lost == 0 {
		t.Error("netem dropped nothing, so nothing was tested")
	} else {
		t.Logf("netem dropped %d packets", lost)
	}
}
