package ibv

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// allSendOps are the operations of an RC QP that every engine posts, and those that SendOps alone makes possible.
const (
	allSendOps = SendOpWrite | SendOpWriteImm | SendOpSend | SendOpSendImm | SendOpRead | SendOpCompareSwap |
		SendOpFetchAdd | SendOpLocalInv | SendOpSendInv
	onlySendOps = SendOpFlush | SendOpAtomicWrite
)

// flushing makes the fake device one that flushes and writes atomically.
func flushing(t testing.TB) {
	t.Helper()
	set(t, "cap_flags_ex", int(DeviceFlushGlobal|DeviceFlushPersistent|DeviceAtomicWrite))
}

// wrCalls returns how often wr_set_inline_data, wr_set_inline_data_list, wr_set_sge, wr_set_sge_list, wr_start and
// wr_abort were called for the QP.
func wrCalls(t testing.TB, qp *QP) (n [6]int) {
	t.Helper()
	for i := range n {
		n[i] = must(needFake(t).Minus1Int("fv_wr_calls", qp.handle, uintptr(i)))(t)
	}
	return n
}

// Each operation does by ibv_wr_* what it does by ibv_post_send, with each kind of data and each flag.
func TestFake_SendOpsLikeClassic(t *testing.T) {
	type result struct {
		memory []byte
		wcs    []WC
	}
	run := func(t *testing.T, ops SendOps) (got []result) {
		s := fakeLoop(t, nil, &QPOptions{MaxSendSGE: 3, MaxInline: 64, SendOps: ops})
		mem := s.mr.Bytes()
		for _, op := range []Opcode{OpWrite, OpWriteImm, OpSend, OpSendImm, OpSendInv, OpRead, OpCompareSwap,
			OpFetchAdd, OpLocalInv} {
			for _, flags := range []SendFlags{Signaled, Signaled | Fence, Signaled | Solicited, Signaled | Inline} {
				for data := range 5 {
					fill(mem[:8192], int(op)+data)
					wr := SendWR{ID: uint64(op)<<8 | uint64(data), Opcode: op, Flags: flags, Imm: 0x01020304,
						InvalidateRKey: 0x1234, Remote: s.mr.Remote().At(4096), CompareAdd: 0xabcdef, Swap: 77}
					atomic := op == OpCompareSwap || op == OpFetchAdd
					switch {
					case op == OpLocalInv:
					case atomic || data == 0:
						wr.SGEs = []SGE{s.mr.SGE(64, 8)}
					case data == 1:
						wr.SGEs = []SGE{s.mr.SGE(0, 3), s.mr.SGE(100, 20), s.mr.SGE(50, 1)}
					case data == 2:
						wr.SGEs = []SGE{}
					case data == 3:
						wr.Inline = []byte("inline")
					case data == 4:
						wr.Inline = []byte{}
					}
					if flags&Inline != 0 && (atomic || op == OpRead || op == OpLocalInv) ||
						wr.Inline != nil && op == OpRead {
						continue
					}
					recv(t, s.qp, RecvWR{ID: 5, SGEs: []SGE{s.mr.SGE(6000, 100)}})
					post(t, s.qp, wr)
					r := result{}
					for len(r.wcs) == 0 || r.wcs[len(r.wcs)-1].ID != wr.ID {
						r.wcs = append(r.wcs, s.next(t))
					}
					for i := range r.wcs {
						r.wcs[i].QPN = 0
					}
					r.memory = bytes.Clone(mem[:8192])
					got = append(got, r)
				}
			}
		}
		return got
	}
	want, got := run(t, 0), run(t, allSendOps)
	if len(got) != len(want) || len(got) < 80 {
		t.Fatalf("%d and %d work requests", len(got), len(want))
	}
	for i := range want {
		if !slices.Equal(got[i].wcs, want[i].wcs) || !bytes.Equal(got[i].memory, want[i].memory) {
			t.Errorf("work request %d: %+v, by post_send %+v; the same memory: %v", i, got[i].wcs, want[i].wcs,
				bytes.Equal(got[i].memory, want[i].memory))
		}
	}
}

// Datagrams get their address.
func TestFake_SendOpsDatagram(t *testing.T) {
	s := fakeSide(t, nil)
	s.newQP(t, &QPOptions{Type: UD, MaxInline: 32, MaxSendSGE: 2, SendOps: SendOpSend | SendOpSendImm})
	must(s.qp.Endpoint(1, 1))(t)
	ok(t, s.qp.Connect(Endpoint{}, nil))
	ah := closing(t, must(s.pd.CreateAH(&AHAttr{Port: 1}))(t))
	fill(s.mr.Bytes()[:64], 9)
	for i, wr := range []SendWR{
		{Opcode: OpSend, SGEs: []SGE{s.mr.SGE(0, 20)}},
		{Opcode: OpSendImm, SGEs: []SGE{s.mr.SGE(0, 10), s.mr.SGE(10, 10)}, Imm: 7},
		{Opcode: OpSendImm, Inline: s.mr.Bytes()[:20], Imm: 8},
		{Opcode: OpSend},
	} {
		wr.ID, wr.Flags = uint64(i), Signaled
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, s.qp.Num(), DefaultQKey
		recv(t, s.qp, RecvWR{ID: 50, SGEs: []SGE{s.mr.SGE(4096, 100)}})
		post(t, s.qp, wr)
		if wc := s.good(t, 50); i < 3 {
			same(t, s.mr.Bytes()[4136:4156], 9)
			if wc.Imm != wr.Imm || wc.ByteLen != 60 {
				t.Errorf("%+v", wc)
			}
		}
		s.good(t, uint64(i))
	}
}

// One setter for each kind of data, one session for each post, and none is aborted.
func TestFake_SendOpsSetters(t *testing.T) {
	s := fakeLoop(t, nil, &QPOptions{MaxSendSGE: 3, MaxInline: 64, SendOps: allSendOps})
	to := s.mr.Remote().At(4096)
	one, two := []SGE{s.mr.SGE(0, 8)}, []SGE{s.mr.SGE(0, 8), s.mr.SGE(8, 9)}
	post(t, s.qp, SendWR{SGEs: one, Remote: to}, SendWR{SGEs: two, Remote: to}, SendWR{Remote: to},
		SendWR{Inline: []byte("x"), Remote: to}, SendWR{SGEs: one, Flags: Inline, Remote: to},
		SendWR{SGEs: two, Flags: Inline, Remote: to}, SendWR{Flags: Inline, Remote: to})
	post(t, s.qp, SendWR{Opcode: OpLocalInv})
	if n := wrCalls(t, s.qp); n != [6]int{3, 1, 1, 2, 2, 0} {
		t.Errorf("inline, inline list, SGE, list, start, abort: %v", n)
	}
}

// SoftRoCE's setters of lists are wrong: such work requests go by post_send, in their place.
func TestFake_SendOpsOfSoftRoCE(t *testing.T) {
	for _, vendor := range []int{vendorSoftRoCE, 0} { // a kernel says either
		t.Run(fmt.Sprint(vendor), func(t *testing.T) { sendOpsOfSoftRoCE(t, vendor) })
	}
}

func sendOpsOfSoftRoCE(t *testing.T, vendor int) {
	set(t, "vendor_id", vendor)
	s := fakeLoop(t, nil, &QPOptions{MaxSendSGE: 2, MaxInline: 64, SendOps: allSendOps})
	fill(s.mr.Bytes()[:64], 3)
	two := []SGE{s.mr.SGE(0, 8), s.mr.SGE(8, 9)}
	at := s.mr.Remote().At
	post(t, s.qp, SendWR{SGEs: two[:1], Remote: at(4096)}, SendWR{SGEs: two, Remote: at(4200)},
		SendWR{SGEs: two, Flags: Inline, Remote: at(4300)},
		SendWR{ID: 4, SGEs: two[:1], Remote: at(4400), Flags: Signaled})
	s.good(t, 4)
	if n := wrCalls(t, s.qp); n != [6]int{0, 0, 2, 0, 2, 0} {
		t.Errorf("inline, inline list, SGE, list, start, abort: %v", n)
	}
	for off, n := range map[int]int{4096: 8, 4200: 17, 4300: 17, 4400: 8} {
		same(t, s.mr.Bytes()[off:off+n], 3)
	}
}

// Flush and atomic write exist in this way alone.
func TestFake_FlushAndAtomicWrite(t *testing.T) {
	flushing(t)
	s := fakeLoop(t, nil, &QPOptions{SendOps: allSendOps | onlySendOps})
	nv := closing(t, must(s.pd.AllocMR(4096, LocalWrite|RemoteWrite|FlushGlobal|FlushPersistent, nil))(t))
	at := nv.Remote().At
	b := s.qp.Batch()
	b.Write(1, 0, s.mr.SGE(0, 64), at(0))
	b.Flush(2, Signaled, at(0), FlushRange{Type: FlushToPersistence, Length: 64})
	b.AtomicWrite(3, Signaled, at(8), [8]byte{1, 2, 3, 4, 5, 6, 7, 8})
	fl := FlushRange{Type: FlushToMemory, Level: FlushMR}
	b.Add(&SendWR{ID: 4, Flags: Signaled, Opcode: OpFlush, Remote: at(0), Flush: &fl})
	fl.Level = 9 // Add has copied it
	ok(t, b.Post())
	for _, want := range []WC{{ID: 2, Opcode: WCFlush}, {ID: 3, Opcode: WCAtomicWrite}, {ID: 4, Opcode: WCFlush}} {
		if wc := s.good(t, want.ID); wc.Opcode != want.Opcode {
			t.Errorf("%+v", wc)
		}
	}
	if got := nv.Bytes()[8:16]; !bytes.Equal(got, []byte{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("the atomic write wrote %v", got)
	}

	for _, c := range []struct {
		wr   SendWR
		want string
	}{
		{SendWR{Opcode: OpFlush}, "Flush is nil"},
		{SendWR{Opcode: OpFlush, Flush: &FlushRange{}}, "Flush.Type is 0"},
		{SendWR{Opcode: OpFlush, Flush: &FlushRange{Type: 4}}, "Flush.Type is 0x4"},
		{SendWR{Opcode: OpFlush, Flush: &FlushRange{Type: 1, Level: 2}}, "Flush.Level is FlushLevel(2)"},
		{SendWR{Opcode: OpFlush, Flush: &FlushRange{Type: 1, Length: 1 << 32}}, "Flush.Length 4294967296"},
		{SendWR{Opcode: OpFlush, Flush: &FlushRange{Type: 1}, Inline: []byte{}}, "nothing with Flush"},
		{SendWR{Opcode: OpFlush, Flush: &FlushRange{Type: 1}, SGEs: make([]SGE, 1)}, "nothing with Flush"},
		{SendWR{Opcode: OpFlush, Flush: &FlushRange{Type: 1}, Flags: Inline}, "nothing with Flush"},
		{SendWR{Opcode: OpFlush, Flush: &FlushRange{Type: 1}, Remote: nv.Remote().At(9999)}, "beyond the end"},
		{SendWR{Opcode: OpAtomicWrite}, "0 bytes"},
		{SendWR{Opcode: OpAtomicWrite, Inline: make([]byte, 9)}, "9 bytes"},
		{SendWR{Opcode: OpAtomicWrite, Inline: make([]byte, 8), SGEs: make([]SGE, 1)}, "nothing with AtomicWrite"},
		{SendWR{Opcode: OpAtomicWrite, Inline: make([]byte, 8), Flags: Inline}, "nothing with AtomicWrite"},
	} {
		n, err := s.qp.PostSend([]SendWR{c.wr})
		wantErr(t, err, syscall.EINVAL, c.want)
		if n != 0 {
			t.Errorf("%d posted", n)
		}
	}
	// What the peer did not allow is an error of the completion.
	post(t, s.qp, SendWR{ID: 7, Opcode: OpFlush, Remote: s.mr.Remote().At(0), Flush: &FlushRange{Type: 1, Length: 1}})
	if wc := s.next(t); wc.Status != WCRemAccessErr || wc.ID != 7 {
		t.Errorf("%+v", wc)
	}
}

// A mistake ends the session before it: what comes before is posted, or nothing for a Batch.
func TestFake_SendOpsMistakes(t *testing.T) {
	s := fakeLoop(t, nil, &QPOptions{SendOps: SendOpWrite})
	good := write(s, 1, Signaled)
	wrs := []SendWR{good, good, {Opcode: OpRead}, good}
	n, err := s.qp.PostSend(wrs)
	wantErr(t, err, syscall.EINVAL, "work request 2", "Opcode is Read", "SendOps", "Write")
	if n != 2 {
		t.Errorf("%d posted", n)
	}
	s.good(t, 1)
	s.good(t, 1)
	b := s.qp.Batch()
	b.Add(&good)
	b.Read(2, 0, s.mr.SGE(0, 8), s.mr.Remote().At(0))
	wantErr(t, b.Post(), syscall.EINVAL, "0 of 2", "Read")
	if calls := wrCalls(t, s.qp); calls[4] != 1 || calls[5] != 0 || drain(t, s.cq) != 0 {
		t.Errorf("sessions and aborts %v", calls[4:])
	}
	// The provider refuses a session: nothing of it was posted.
	set(t, "post.at", 1)
	set(t, "post.errno", int(syscall.EIO))
	n, err = s.qp.PostSend([]SendWR{good, good})
	wantErr(t, err, syscall.EIO, "provider refused")
	if n != 0 || drain(t, s.cq) != 0 {
		t.Errorf("%d posted", n)
	}
}

// A session that does not fit is posted in smaller ones: as many work requests as by post_send, whatever the provider
// calls a full queue.
func TestFake_SendOpsFull(t *testing.T) {
	for _, full := range []syscall.Errno{syscall.ENOMEM, syscall.ENOSPC} {
		set(t, "wr.full", int(full))
		s := fakeLoop(t, nil, &QPOptions{SendOps: SendOpWrite, MaxSendWR: 16})
		for _, used := range []int{0, 1, 5, 15, 16} {
			if used > 0 {
				post(t, s.qp, slices.Repeat([]SendWR{write(s, 1, Signaled)}, used)...)
			}
			n, err := s.qp.PostSend(slices.Repeat([]SendWR{write(s, 2, Signaled)}, 30))
			if !errors.Is(err, ErrQueueFull) || n != 16-used {
				t.Errorf("%v: %d posted with %d there: %v", full, n, used, err)
			}
			if n := drain(t, s.cq); n != 16 {
				t.Errorf("%v: %d completions", full, n)
			}
		}
	}
}

// The room of libmlx5's queues is counted here; a session begins only if there is some.
func TestFake_SendOpsRoom(t *testing.T) {
	s := fakeLoop(t, nil, &QPOptions{SendOps: SendOpWrite | SendOpRead, MaxSendWR: 8})
	s.qp.sq.room = s.qp.sq.chain.CountRoom(s.qp.cap.MaxSendWR, false) // as on libmlx5
	s.cq.countSends(s.qp)
	starts := func() int { return wrCalls(t, s.qp)[4] }
	wr := func(flags SendFlags) SendWR { return write(s, 1, flags) }
	post(t, s.qp, wr(0), wr(0), wr(Signaled), wr(0), wr(0), wr(Signaled), wr(0), wr(0))
	before := starts()
	if n, err := s.qp.PostSend([]SendWR{wr(0)}); n != 0 || !errors.Is(err, ErrQueueFull) || starts() != before {
		t.Errorf("%d posted to a full queue, %d sessions: %v", n, starts()-before, err)
	}
	s.good(t, 1) // frees three places
	if n, err := s.qp.PostSend(slices.Repeat([]SendWR{wr(0)}, 5)); n != 3 || !errors.Is(err, ErrQueueFull) {
		t.Errorf("%d posted to 3 places: %v", n, err)
	}
	s.good(t, 1)
	if n, err := s.qp.PostSend(slices.Repeat([]SendWR{wr(Signaled)}, 5)); n != 3 || !errors.Is(err, ErrQueueFull) {
		t.Errorf("%d posted to 3 places: %v", n, err)
	}
	if n := drain(t, s.cq); n != 3 {
		t.Errorf("%d completions", n)
	}
	// A refused session gives its places back.
	set(t, "post.at", 1)
	set(t, "post.errno", int(syscall.EIO))
	for range 20 {
		if n, err := s.qp.PostSend([]SendWR{wr(Signaled)}); n != 0 || !errors.Is(err, syscall.EIO) {
			t.Fatal(n, err)
		}
	}
	unset(t, "post.at")
	post(t, s.qp, slices.Repeat([]SendWR{wr(Signaled)}, 8)...)
	if n := drain(t, s.cq); n != 8 {
		t.Errorf("%d completions", n)
	}
	// Failure ends the counting, RESET empties the queue.
	bad := wr(Signaled)
	bad.Remote.RKey = 0
	post(t, s.qp, wr(0), wr(0), bad)
	if wc := s.next(t); wc.Status != WCRemAccessErr {
		t.Errorf("%+v", wc)
	}
	if n := s.qp.sq.room.Free(); n != 8 {
		t.Errorf("%d places", n)
	}
	post(t, s.qp, slices.Repeat([]SendWR{wr(0)}, 5)...)
	ok(t, s.qp.Modify(&QPAttr{State: StateErr}, MaskState))
	_, err := s.qp.PostSend([]SendWR{wr(0)})
	var se *StateError
	if !errors.As(err, &se) || se.State != StateErr {
		t.Errorf("a post in %v: %v", s.qp.State(), err)
	}
	ok(t, s.qp.Modify(&QPAttr{State: StateReset}, MaskState))
	if n := s.qp.sq.room.Free(); n != 8 {
		t.Errorf("%d places after RESET", n)
	}
}

// What SendOps the library, the provider or the type of QP lacks is refused before anything exists.
func TestFake_SendOpsRefused(t *testing.T) {
	s := fakeSide(t, nil)
	create := func(opt *QPOptions) error {
		qp, err := s.pd.CreateQP(s.cq, s.cq, opt)
		if err == nil {
			ok(t, qp.Close())
		}
		return err
	}
	for _, c := range []struct {
		opt  QPOptions
		want string
	}{
		{QPOptions{SendOps: 1 << 40}, "SendOps is 0x10000000000; it must be of Write"},
		{QPOptions{SendOps: SendOpRead, Type: UC}, "on a UC QP"},
		{QPOptions{SendOps: SendOpWrite, Type: UD}, "of Send, SendImm on a UD QP"},
	} {
		wantErr(t, create(&c.opt), syscall.EINVAL, c.want)
	}
	var ue *UnsupportedError
	refused := func(opt *QPOptions, words ...string) {
		t.Helper()
		err := create(opt)
		wantErr(t, err, ErrNotSupported, words...)
		if !errors.As(err, &ue) {
			t.Errorf("%T", err)
		}
	}
	refused(&QPOptions{SendOps: SendOpFlush}, "posting Flush", "FlushGlobal|FlushPersistent", "fake0 without it")
	refused(&QPOptions{SendOps: SendOpAtomicWrite}, "posting AtomicWrite", "SoftRoCE")
	set(t, "send_ops", int(SendOpSend))
	refused(&QPOptions{SendOps: SendOpSend | SendOpWrite}, "Write|Send by ibv_wr_*", "QP without SendOps")
	ok(t, create(&QPOptions{SendOps: SendOpSend}))
	set(t, "fail.create_qp_ex", int(syscall.EIO))
	wantErr(t, create(&QPOptions{SendOps: SendOpSend}), syscall.EIO)

	s.newQP(t, nil)
	ok(t, s.qp.Connect(must(s.qp.Endpoint(1, 1))(t), nil))
	n, err := s.qp.PostSend([]SendWR{{Opcode: OpFlush}})
	wantErr(t, err, ErrNotSupported, "posting Flush", "QPOptions.SendOps")
	if n != 0 {
		t.Errorf("%d posted", n)
	}
}

func TestFake_SendOpsOldLibrary(t *testing.T) {
	refused := func(t *testing.T, words ...string) {
		s := fakeSide(t, nil)
		_, err := s.pd.CreateQP(s.cq, s.cq, &QPOptions{SendOps: SendOpSend})
		wantErr(t, err, ErrNotSupported, append(words, "QP without SendOps", "ibv_post_send")...)
	}
	inChild(t, variant(t, "OLD=15"), nil, func(t *testing.T) { refused(t, "v24") })
	if os.Getenv(childEnv) == "" {
		set(t, "null.create_qp_ex", 1)
		refused(t, "fake0")
	}
}

func TestFake_SendOpsNoAllocs(t *testing.T) {
	flushing(t)
	s := fakeLoop(t, nil, &QPOptions{MaxInline: 64, MaxSendSGE: 2, SendOps: allSendOps | onlySendOps})
	set(t, "sink", 1)
	wrs := writes(s, 16)
	fl := FlushRange{Type: FlushToMemory, Length: 8}
	to := s.mr.Remote().At(0)
	wrs = append(wrs, SendWR{SGEs: []SGE{s.mr.SGE(0, 8), s.mr.SGE(8, 8)}, Remote: to},
		SendWR{SGEs: []SGE{s.mr.SGE(0, 8), s.mr.SGE(8, 8)}, Flags: Inline, Remote: to},
		SendWR{Inline: make([]byte, 20), Remote: to}, SendWR{Opcode: OpFlush, Flush: &fl, Remote: to},
		SendWR{Opcode: OpAtomicWrite, Inline: make([]byte, 8), Remote: to}, SendWR{Opcode: OpLocalInv})
	b := s.qp.Batch()
	for name, f := range map[string]func(){
		"PostSend": func() {
			if _, err := s.qp.PostSend(wrs); err != nil {
				t.Fatal(err)
			}
		},
		"Batch": func() {
			b.Flush(1, 0, to, fl)
			b.AtomicWrite(2, 0, to, [8]byte{})
			if err := b.Post(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		if n := testing.AllocsPerRun(200, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

// BenchmarkPostSendExtended is BenchmarkPostSend by ibv_wr_*.
func BenchmarkPostSendExtended(b *testing.B) {
	for _, n := range batches {
		b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) {
			s := fakeLoop(b, &CQOptions{NoEvents: true}, &QPOptions{SendOps: SendOpWrite})
			set(b, "sink", 1)
			wrs := writes(s, n)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.qp.PostSend(wrs); err != nil {
					b.Fatal(err)
				}
			}
			perWR(b, n)
		})
	}
}

func TestSendOps(t *testing.T) {
	for op, want := range map[SendOps]struct {
		c    SendOps
		name string
	}{
		SendOpWrite: {abi.IBV_QP_EX_WITH_RDMA_WRITE, "Write"}, SendOpRead: {abi.IBV_QP_EX_WITH_RDMA_READ, "Read"},
		SendOpWriteImm: {abi.IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, "WriteImm"},
		SendOpSend:     {abi.IBV_QP_EX_WITH_SEND, "Send"}, SendOpTSO: {abi.IBV_QP_EX_WITH_TSO, "TSO"},
		SendOpSendImm:     {abi.IBV_QP_EX_WITH_SEND_WITH_IMM, "SendImm"},
		SendOpCompareSwap: {abi.IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, "CompareSwap"},
		SendOpFetchAdd:    {abi.IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, "FetchAdd"},
		SendOpLocalInv:    {abi.IBV_QP_EX_WITH_LOCAL_INV, "LocalInv"},
		SendOpBindMW:      {abi.IBV_QP_EX_WITH_BIND_MW, "BindMW"},
		SendOpSendInv:     {abi.IBV_QP_EX_WITH_SEND_WITH_INV, "SendInv"},
		SendOpFlush:       {abi.IBV_QP_EX_WITH_FLUSH, "Flush"},
		SendOpAtomicWrite: {abi.IBV_QP_EX_WITH_ATOMIC_WRITE, "AtomicWrite"},
	} {
		if op != want.c || op.String() != want.name {
			t.Errorf("%#x is %v, want %#x, %s", uint64(op), op, uint64(want.c), want.name)
		}
		if set := op.opcodes(); set != 0 && Opcode(bits.TrailingZeros32(set)).String() != want.name {
			t.Errorf("%v names %s", op, opcodeNamesOf(set))
		}
	}
	for got, want := range map[fmt.Stringer]string{
		SendOpWrite | SendOpFlush | 1<<20:   "Write|Flush|0x100000",
		FlushToMemory | FlushToPersistence:  "ToMemory|ToPersistence",
		FlushType(abi.IBV_FLUSH_PERSISTENT): "ToPersistence", FlushType(4): "0x4",
		FlushLevel(abi.IBV_FLUSH_RANGE): "Bytes", FlushLevel(abi.IBV_FLUSH_MR): "MR", FlushLevel(7): "FlushLevel(7)",
		DeviceAtomicWrite | DeviceFlushGlobal: "FlushGlobal|AtomicWrite",
	} {
		if got.String() != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
}
