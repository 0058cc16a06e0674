package ibv

import (
	"errors"
	"fmt"
	"math"
	"syscall"
	"testing"
	"time"
)

const allFields = knownFields

// fieldsOf is what the fake library says of work request id, beside what a plain poll says.
func fieldsOf(wc *WCEx, f WCFields) {
	id := wc.ID
	if f&FieldTimestamp != 0 {
		wc.Timestamp = 0x1122334400000000 + id
	}
	if f&FieldWallClock != 0 {
		wc.WallClock = 1700000000000000000 + id
	}
	if !wc.Opcode.IsRecv() {
		return
	}
	if f&FieldCVLAN != 0 {
		wc.CVLAN = uint16(id + 0xc000)
	}
	if f&FieldFlowTag != 0 {
		wc.FlowTag = uint32(id + 0xf10000)
	}
	if f&FieldTMInfo != 0 {
		wc.TM = TMInfo{^id, uint32(id + 7)}
	}
}

// traffic makes a completion of each kind, the last one failed, and returns all that come.
func traffic(t *testing.T, opt *CQOptions) []WCEx {
	t.Helper()
	s := fakeLoop(t, opt, nil)
	for id := range uint64(3) {
		recv(t, s.qp, RecvWR{ID: 0x100 + id, SGEs: []SGE{s.mr.SGE(0, 64)}})
	}
	sge := []SGE{s.mr.SGE(1024, 8)}
	peer := s.mr.Remote().At(4096)
	post(t, s.qp,
		SendWR{ID: 1, Opcode: OpSend, Flags: Signaled, SGEs: sge},
		SendWR{ID: 2, Opcode: OpSendImm, Flags: Signaled, SGEs: sge, Imm: 0x01020304},
		SendWR{ID: 3, Opcode: OpSendInv, Flags: Signaled, SGEs: sge, InvalidateRKey: s.mr.RKey()},
		SendWR{ID: 4, Opcode: OpWrite, Flags: Signaled, SGEs: sge, Remote: peer},
		SendWR{ID: 5, Opcode: OpRead, Flags: Signaled, SGEs: sge, Remote: peer},
		SendWR{ID: 6, Opcode: OpFetchAdd, Flags: Signaled, SGEs: sge, Remote: peer, CompareAdd: 1},
		SendWR{ID: 7, Opcode: OpWrite, Flags: Signaled, SGEs: sge, Remote: RemoteAddr{}},
	)
	var all []WCEx
	for len(all) < 10 {
		var wcs [3]WCEx
		n := must(s.cq.WaitEx(timeout(t), wcs[:]))(t)
		all = append(all, wcs[:n]...)
	}
	if n := must(s.cq.PollEx(make([]WCEx, 4)))(t); n != 0 {
		t.Errorf("%d completions too many", n)
	}
	// Another run has other numbers.
	for i := range all {
		for _, n := range []*uint32{&all[i].QPN, &all[i].SrcQPN} {
			if *n == s.qp.Num() {
				*n = 1
			}
		}
		if all[i].InvalidatedRKey == s.mr.RKey() {
			all[i].InvalidatedRKey = 2
		}
	}
	return all
}

// TestFake_Fields compares the completions of an extended CQ with those of a plain one.
func TestFake_Fields(t *testing.T) {
	plain := traffic(t, nil)
	if wc := plain[len(plain)-1]; wc.Status == WCSuccess {
		t.Fatalf("nothing failed: %+v", plain)
	}
	for _, c := range []CQOptions{
		{Fields: allFields},
		{Fields: FieldsStandard},
		{Fields: FieldsStandard | FieldTimestamp, SingleThreaded: true},
		{Fields: FieldsStandard | FieldWallClock | FieldFlowTag, NoEvents: true},
	} {
		ends := get(t, "ex.ends")
		got := traffic(t, &c)
		if get(t, "ex.ends") == ends {
			t.Fatalf("%v: not polled by start_poll", c.Fields)
		}
		if len(got) != len(plain) {
			t.Fatalf("%v: %d completions, want %d", c.Fields, len(got), len(plain))
		}
		for i, want := range plain {
			want.PKeyIndex = 0 // no reader
			if want.Status == WCSuccess {
				fieldsOf(&want, c.Fields)
			}
			if got[i] != want {
				t.Errorf("%v: completion %d\n got %+v\nwant %+v", c.Fields, i, got[i], want)
			}
		}
	}
}

// TestFake_FieldsOnlyThose asks for single fields: no other reader may be touched, which is garbage.
func TestFake_FieldsOnlyThose(t *testing.T) {
	for bit := WCFields(1); bit&allFields != 0; bit <<= 1 {
		for _, wc := range traffic(t, &CQOptions{Fields: bit}) {
			if wc.QPN != 1 {
				t.Errorf("%v: no QPN: %+v", bit, wc)
			}
			if wc.ID >= 0x100 && (wc.ByteLen != 0) != (bit == FieldByteLen) {
				t.Errorf("%v: a length of %d", bit, wc.ByteLen)
			}
			if good := wc.Status == WCSuccess; (wc.Timestamp != 0) != (good && bit == FieldTimestamp) ||
				(wc.WallClock != 0) != (good && bit == FieldWallClock) {
				t.Errorf("%v: %+v", bit, wc)
			}
		}
		if got := WCFields(get(t, "cq_ex.wc_flags")); got != bit|FieldQPN {
			t.Errorf("%v: the library was asked for %v", bit, got)
		}
	}
}

// TestFake_FieldsBatch fills slices of each length: nothing is lost, nothing comes twice, and each batch ends once.
func TestFake_FieldsBatch(t *testing.T) {
	s := fakeLoop(t, &CQOptions{Fields: FieldTimestamp}, nil)
	for most := 1; most <= 9; most++ {
		var next uint64
		for id := range uint64(40) {
			post(t, s.qp, write(s, id, Signaled))
		}
		for next < 40 {
			ends, left := get(t, "ex.ends"), int(40-next)
			wcs, more := make([]WC, most), make([]WCEx, most)
			n := 0
			if next%2 == 0 {
				n = must(s.cq.Poll(wcs))(t)
			} else {
				n = must(s.cq.PollEx(more))(t)
				for i := range more[:n] {
					wcs[i] = more[i].WC
				}
			}
			if n != min(most, left) || get(t, "ex.ends") != ends+1 {
				t.Fatalf("%d of %d: %d completions, end_poll %d times", most, left, n, get(t, "ex.ends")-ends)
			}
			for _, wc := range wcs[:n] {
				if wc.ID != next || wc.Timestamp != 0x1122334400000000+next {
					t.Fatalf("completion %d is %+v", next, wc)
				}
				next++
			}
		}
	}
	ends := get(t, "ex.ends")
	if n := must(s.cq.Poll(nil))(t) + must(s.cq.PollEx(nil))(t) + must(s.cq.Poll(make([]WC, 2)))(t); n != 0 {
		t.Errorf("%d completions of an empty CQ", n)
	}
	if got := get(t, "ex.ends"); got != ends {
		t.Errorf("end_poll %d times without a batch", got-ends)
	}
}

// TestFake_FieldsErrors: what start_poll and next_poll return. -2 is libmlx5's, and not ENOENT.
func TestFake_FieldsErrors(t *testing.T) {
	s := fakeLoop(t, &CQOptions{Fields: FieldTimestamp}, nil)
	for id := range uint64(4) {
		post(t, s.qp, write(s, id, Signaled))
	}
	var wcs [4]WC
	var more [4]WCEx
	for _, e := range []int{int(syscall.EINVAL), -2, -1, int(syscall.EIO)} {
		ends := get(t, "ex.ends")
		set(t, "ex.start", e)
		n, err := s.cq.Poll(wcs[:])
		wantErr(t, err, ErrPoll, s.cq.name)
		m, err := s.cq.PollEx(more[:])
		wantErr(t, err, ErrPoll)
		if n != 0 || m != 0 || get(t, "ex.ends") != ends {
			t.Errorf("%d: %d and %d completions", e, n, m)
		}
		unset(t, "ex.start")
	}
	// The first completion is there, and then the error, once.
	for id, e := range []int{int(syscall.EINVAL), -2} {
		set(t, "ex.next", e)
		ends := get(t, "ex.ends")
		if n, err := s.cq.Poll(wcs[:]); n != 1 || err != nil || wcs[0].ID != uint64(id) || get(t, "ex.ends") != ends+1 {
			t.Errorf("%d: %d, %v, %+v, end_poll %d times", e, n, err, wcs[0], get(t, "ex.ends")-ends)
		}
		unset(t, "ex.next")
		n, err := s.cq.PollEx(more[:])
		wantErr(t, err, ErrPoll)
		if n != 0 {
			t.Errorf("%d completions with an error", n)
		}
	}
	if n := must(s.cq.PollEx(more[:]))(t); n != 2 || more[0].ID != 2 || more[1].ID != 3 {
		t.Errorf("%d completions are left: %+v", n, more)
	}
}

// TestFake_FieldsHeld: what a closing MR takes out early keeps all its fields, as does what others are left with.
func TestFake_FieldsHeld(t *testing.T) {
	s := fakeLoop(t, &CQOptions{Fields: allFields}, nil)
	other := closing(t, must(s.pd.AllocMR(64, LocalWrite, nil))(t))
	recv(t, s.qp, RecvWR{ID: 9, SGEs: []SGE{s.mr.SGE(0, 64)}})
	post(t, s.qp, SendWR{ID: 8, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{s.mr.SGE(64, 8)}})
	ok(t, other.Close())
	if s.cq.held == nil || len(s.cq.held.wcs) != 2 {
		t.Fatalf("nothing is held: %+v", s.cq.held)
	}
	var one [1]WCEx
	for range 2 {
		if n := must(s.cq.PollEx(one[:]))(t); n != 1 {
			t.Fatal("no completion")
		}
		want := one[0]
		want.Timestamp, want.WallClock, want.CVLAN, want.FlowTag, want.TM = 0, 0, 0, 0, TMInfo{}
		fieldsOf(&want, allFields)
		if one[0] != want || want.WallClock == 0 {
			t.Errorf("got %+v, want %+v", one[0], want)
		}
	}
	if n := must(s.cq.PollEx(one[:]))(t); n != 0 || s.cq.held != nil {
		t.Errorf("%d more; held: %v", n, s.cq.held)
	}
	ok(t, s.cq.Resize(1000))
	ok(t, s.qp.Close())
	ok(t, s.cq.Close())
	if _, err := s.cq.PollEx(one[:]); !errors.Is(err, ErrClosed) {
		t.Errorf("polling a closed CQ: %v", err)
	}
	if _, err := s.cq.WaitEx(timeout(t), one[:]); !errors.Is(err, ErrClosed) {
		t.Errorf("waiting for a closed CQ: %v", err)
	}
	wantErr(t, s.cq.Arm(false), ErrClosed)
}

func TestFake_FieldsRefused(t *testing.T) {
	s := fakeSide(t, nil)
	create := func(f WCFields, single bool) error {
		cq, err := s.dev.CreateCQ(4, &CQOptions{Fields: f, SingleThreaded: single})
		if err == nil {
			ok(t, cq.Close())
		}
		return err
	}
	unsupported := func(f WCFields, words ...string) {
		t.Helper()
		var ue *UnsupportedError
		err := create(f, false)
		if !errors.As(err, &ue) {
			t.Errorf("%v: %v, want an *UnsupportedError", f, err)
		}
		wantErr(t, err, ErrNotSupported, append(words, "fake0", "create cq")...)
		single := create(f, true)
		wantErr(t, single, ErrNotSupported)
	}
	for _, f := range []WCFields{1 << 12, FieldSL | 1<<40, ^WCFields(0)} {
		var ae *ArgError
		if err := create(f, false); !errors.As(err, &ae) || ae.Arg != "Fields" {
			t.Errorf("%v: %v", f, err)
		} else {
			wantErr(t, err, syscall.EINVAL, "0x", "ByteLen|Imm")
		}
	}
	set(t, "cq_ex.supported", int(FieldsStandard))
	ok(t, create(FieldsStandard, false))
	unsupported(FieldTimestamp|FieldSL, "SL|Timestamp", "ask for fewer")
	unset(t, "cq_ex.supported")
	for _, missing := range []string{"start_poll", "read_sl", "read_tm_info"} {
		set(t, "null."+missing, 1)
		unsupported(FieldSL|FieldTMInfo, "a provider with "+missing)
		unset(t, "null."+missing)
	}
	failing(t, "create_cq_ex", syscall.EOPNOTSUPP)
	unsupported(FieldSL, "create_cq_ex")
	failing(t, "create_cq_ex", syscall.ENOMEM)
	wantErr(t, create(FieldSL, false), syscall.ENOMEM)
	unset(t, "fail.create_cq_ex")

	// A provider that knows no SINGLE_THREADED still has the fields.
	set(t, "cq_ex.never_single", 1)
	ok(t, create(FieldTimestamp, true))
	if f := WCFields(get(t, "cq_ex.wc_flags")); f != FieldTimestamp|FieldQPN {
		t.Errorf("asked for %v", f)
	}
}

// A library without create_cq_ex, or from before the wall clock.
func TestFake_FieldsOldLibrary(t *testing.T) {
	inChild(t, variant(t, "OLD=15"), nil, func(t *testing.T) {
		s := fakeSide(t, nil)
		_, err := s.dev.CreateCQ(4, &CQOptions{Fields: FieldWallClock})
		wantErr(t, err, ErrNotSupported, "WallClock")
		cq := closing(t, must(s.dev.CreateCQ(4, &CQOptions{Fields: FieldTimestamp}))(t))
		if n := must(cq.Poll(make([]WC, 1)))(t); n != 0 {
			t.Errorf("%d completions", n)
		}
		set(t, "null.create_cq_ex", 1)
		set(t, "null.query_rt_values", 1)
		dev := closing(t, must(Open("fake1"))(t))
		_, err = dev.CreateCQ(4, &CQOptions{Fields: FieldTimestamp})
		wantErr(t, err, ErrNotSupported, "Timestamp", "create_cq_ex", "version")
		closing(t, must(dev.CreateCQ(4, &CQOptions{SingleThreaded: true}))(t))
		_, err = dev.QueryRTValues()
		wantErr(t, err, ErrNotSupported, "clock", "version")
	})
}

func TestFake_RTValues(t *testing.T) {
	s := fakeSide(t, nil)
	set(t, "rt.nsec", 12_345_678_901_234)
	if v := must(s.dev.QueryRTValues())(t); v.RawClock != 12_345_678_901_234 {
		t.Errorf("%+v", v)
	}
	set(t, "rt.mask", 0)
	_, err := s.dev.QueryRTValues()
	wantErr(t, err, ErrNotSupported, "fake0 without it")
	unset(t, "rt.mask")
	failing(t, "query_rt_values", syscall.EOPNOTSUPP)
	_, err = s.dev.QueryRTValues()
	wantErr(t, err, ErrNotSupported, "fake0 without it")
	failing(t, "query_rt_values", syscall.EIO)
	_, err = s.dev.QueryRTValues()
	wantErr(t, err, syscall.EIO, "query rt values")
	dev := must(Open("fake1"))(t)
	ok(t, dev.Close())
	_, err = dev.QueryRTValues()
	wantErr(t, err, ErrClosed)
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		khz, n uint64
		want   time.Duration
	}{
		{0, 5, 0}, {1_000_000, 5, 5}, {156_250, 156_250_000, time.Second}, {78_125, 1, 12},
		{1, math.MaxUint64, math.MaxInt64}, {1_000_000, math.MaxUint64, math.MaxInt64}, {1000, 1 << 40, 1000 << 40},
	} {
		if got := (&DeviceAttrEx{HCACoreClockKHz: c.khz}).Ticks(c.n); got != c.want {
			t.Errorf("%d ticks of %d kHz last %v, want %v", c.n, c.khz, got, c.want)
		}
	}
}

func TestFake_FieldsNoAllocs(t *testing.T) {
	s := fakeLoop(t, &CQOptions{Fields: allFields}, nil)
	set(t, "flood", 1)
	var wcs [16]WC
	var more [16]WCEx
	for name, f := range map[string]func() (int, error){
		"Poll":   func() (int, error) { return s.cq.Poll(wcs[:]) },
		"PollEx": func() (int, error) { return s.cq.PollEx(more[:]) },
		"WaitEx": func() (int, error) { return s.cq.WaitEx(t.Context(), more[:]) },
		"Arm":    func() (int, error) { return 16, s.cq.Arm(false) },
	} {
		if n := testing.AllocsPerRun(100, func() {
			if n, err := f(); n != 16 || err != nil {
				t.Fatal(name, n, err)
			}
		}); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func BenchmarkPollFields(b *testing.B) {
	for _, f := range []WCFields{0, FieldTimestamp, FieldsStandard | FieldTimestamp, allFields} {
		for _, n := range []int{1, 16} {
			b.Run(fmt.Sprintf("%v/%d", f, n), func(b *testing.B) {
				s := fakeLoop(b, &CQOptions{NoEvents: true, Fields: f}, nil)
				set(b, "flood", 1)
				set(b, "wc.opcode", int(WCRecv))
				wcs := make([]WC, n)
				b.ReportAllocs()
				for b.Loop() {
					if got, err := s.cq.Poll(wcs); err != nil || got != n {
						b.Fatal(got, err)
					}
				}
				perWR(b, n)
			})
		}
	}
}

// TestFake_FieldsSoftRoCE: next_poll is not called where it may end the batch by itself.
func TestFake_FieldsSoftRoCE(t *testing.T) {
	for _, vendor := range []int{0, 0xffffff} {
		set(t, "vendor_id", vendor)
		s := fakeLoop(t, &CQOptions{Fields: FieldTimestamp}, nil)
		set(t, "ex.next", int(syscall.EIO))
		for id := range uint64(10) {
			post(t, s.qp, write(s, id, Signaled))
		}
		next := uint64(0)
		for _, want := range []int{8, 2, 0} {
			var wcs [8]WC
			ends := get(t, "ex.ends")
			n, err := s.cq.Poll(wcs[:])
			if n != want || err != nil || get(t, "ex.ends") != ends+want {
				t.Fatalf("%d, %v, end_poll %d times, want %d", n, err, get(t, "ex.ends")-ends, want)
			}
			for _, wc := range wcs[:n] {
				if wc.ID != next {
					t.Errorf("completion %d is %+v", next, wc)
				}
				next++
			}
		}
		unset(t, "ex.next")
	}
}
