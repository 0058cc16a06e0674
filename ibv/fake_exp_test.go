package ibv

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/loader"
)

// expEnv makes the fake library that of MLNX_OFED 4.9.
const expEnv = "FAKEVERBS=sz=432,comp_mask=0x4000000000000000,exp=1"

// inExp runs a test with that library, in a process of its own.
func inExp(t *testing.T, body func(t *testing.T)) {
	t.Helper()
	needFake(t)
	inChild(t, os.Getenv(loader.PathEnv), []string{expEnv}, body)
}

// TestFake_ExpTimes has completions with times by ibv_exp_create_cq and ibv_exp_poll_cq.
func TestFake_ExpTimes(t *testing.T) {
	inExp(t, func(t *testing.T) {
		const fields = FieldByteLen | FieldImm | FieldQPN | FieldSrcQPN | FieldTimestamp | FieldWallClock
		set(t, "exp.nsec", 1_700_000_000_000_000_000)
		s := fakeLoop(t, &CQOptions{Fields: fields}, &QPOptions{MaxSendWR: 200})
		fill(s.mr.Bytes()[:64], 1)
		for i := range 150 { // more than one call fetches
			post(t, s.qp, write(s, uint64(i), Signaled))
		}
		var wcs [200]WCEx
		n := must(s.cq.PollEx(wcs[:]))(t)
		if n != 150 {
			t.Fatalf("%d completions, want 150", n)
		}
		for i, wc := range wcs[:n] {
			ticks := 0x5500000000000000 + uint64(i)
			want := uint64(1_700_000_000_000_000_000) + (ticks-1000)*2
			if ticks-1000 > 1<<62 { // half the clock's range: before
				want = 1_700_000_000_000_000_000 - ((1000-ticks)&(1<<63-1))*2
			}
			if wc.ID != uint64(i) || wc.Timestamp != ticks || wc.WallClock != want || wc.SLID != 0 || wc.SL != 0 {
				t.Fatalf("completion %d: %+v, want the wall clock %d", i, wc, want)
			}
		}
		expReceive(t, s)
		expWait(t, s)

		set(t, "poll", -22)
		_, err := s.cq.Poll(make([]WC, 1))
		wantErr(t, err, ErrPoll)
		unset(t, "poll")

		// Nothing allocates.
		set(t, "flood", 1)
		wc := make([]WC, 16)
		if a := testing.AllocsPerRun(100, func() { _, _ = s.cq.Poll(wc) }); a != 0 {
			t.Errorf("Poll allocates %v times", a)
		}
	})
}

// expReceive looks at the completion of a receive and at one that failed.
func expReceive(t *testing.T, s *side) {
	t.Helper()
	must(s.qp.PostRecv([]RecvWR{{ID: 7, SGEs: []SGE{s.mr.SGE(8192, 64)}}}))(t)
	post(t, s.qp, SendWR{ID: 8, Opcode: OpSendImm, Imm: 0x01020304, SGEs: []SGE{s.mr.SGE(0, 64)}})
	var wcs [2]WC
	if n := must(s.cq.Poll(wcs[:]))(t); n != 1 || wcs[0].ID != 7 || wcs[0].Opcode != WCRecv || wcs[0].ByteLen != 64 ||
		wcs[0].Imm != 0x01020304 || wcs[0].Timestamp != 0x5500000000000007 || wcs[0].Flags != WCWithImm {
		t.Errorf("%d completions: %+v", n, wcs[0])
	}
}

// expWait sleeps for a completion: the channel counts its CQ.
func expWait(t *testing.T, s *side) {
	t.Helper()
	done := make(chan error, 1)
	ctx := timeout(t)
	go func() {
		var wcs [1]WC
		_, err := s.cq.Wait(ctx, wcs[:])
		done <- err
	}()
	ok(t, s.cq.Arm(false))
	post(t, s.qp, write(s, 9, Signaled))
	ok(t, <-done)
}

// TestFake_ExpCQRefused has what such a CQ lacks, and failures of each call.
func TestFake_ExpCQRefused(t *testing.T) {
	inExp(t, func(t *testing.T) {
		s := fakeSide(t, nil)
		for _, c := range []struct {
			fields WCFields
			want   string
		}{
			{FieldCVLAN | FieldTimestamp, "CVLAN"},
			{FieldFlowTag, "FlowTag"},
			{FieldTMInfo, "TMInfo"},
			{FieldsStandard | FieldTimestamp, "SLID|SL"},
			{FieldSL | FieldWallClock, "both times and SL"},
		} {
			var u *UnsupportedError
			_, err := s.dev.CreateCQ(8, &CQOptions{Fields: c.fields})
			if !errors.As(err, &u) || !strings.Contains(u.Feature, c.want) || !strings.Contains(u.Have, "MLNX_OFED 4") {
				t.Errorf("%v: %v", c.fields, err)
			}
		}
		cq := must(s.dev.CreateCQ(8, &CQOptions{Fields: FieldsStandard}))(t) // a plain one
		ok(t, cq.Close())
		stamped := &CQOptions{Fields: FieldTimestamp | FieldWallClock}
		for _, e := range []syscall.Errno{syscall.ENOMEM, syscall.EIO} {
			failing(t, "exp_create_cq", e)
			_, err := s.dev.CreateCQ(8, stamped)
			wantErr(t, err, e)
		}
		for _, e := range []syscall.Errno{syscall.ENOSYS, syscall.EOPNOTSUPP} {
			failing(t, "exp_create_cq", e)
			_, err := s.dev.CreateCQ(8, stamped)
			wantErr(t, err, ErrNotSupported, "completions with times", "no FieldTimestamp")
		}
		unset(t, "fail.exp_create_cq")
		for _, e := range []syscall.Errno{syscall.EINVAL, syscall.ENOSYS} {
			failing(t, "exp_query_values", e)
			_, err := s.dev.CreateCQ(8, stamped)
			wantErr(t, err, ErrNotSupported, "WallClock", "FieldTimestamp instead")
		}
		_, err := s.dev.QueryRTValues()
		wantErr(t, err, ErrNotSupported, "clock")
		failing(t, "exp_query_values", syscall.EIO)
		_, err = s.dev.CreateCQ(8, stamped)
		wantErr(t, err, syscall.EIO)
		unset(t, "fail.exp_query_values")
		set(t, "exp.values", 0)
		_, err = s.dev.CreateCQ(8, stamped)
		wantErr(t, err, ErrNotSupported, "WallClock")
		_, err = s.dev.QueryRTValues()
		wantErr(t, err, ErrNotSupported, "clock")
		unset(t, "exp.values")
		set(t, "exp.clock", 12_345_678_901_234)
		if v := must(s.dev.QueryRTValues())(t); v.RawClock != 12_345_678_901_234 {
			t.Errorf("the clock is at %d", v.RawClock)
		}
		for _, slot := range []string{"exp_create_cq", "exp_poll_cq", "exp_query_values"} {
			set(t, "null."+slot, 1)
			d := must(Open("fake1"))(t)
			_, err := d.CreateCQ(8, stamped)
			wantErr(t, err, ErrNotSupported)
			ok(t, d.Close())
			unset(t, "null."+slot)
		}
	})
}
