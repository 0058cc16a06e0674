package ibv

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

func TestDomains(t *testing.T) {
	s := fakeSide(t, nil)
	td := must(s.dev.AllocThreadDomain())(t)
	p := must(s.dev.AllocParentDomain(s.pd, td))(t)
	if p.Base() != s.pd || p.ThreadDomain() != td || s.pd.Base() != s.pd || s.pd.ThreadDomain() != nil ||
		p.Device() != s.dev || td.Device() != s.dev {
		t.Error("the domains do not tell what they are made of")
	}
	// Parents stay as long as their children.
	for _, c := range []interface{ Close() error }{td, s.pd} {
		var busy *BusyError
		if err := c.Close(); !errors.As(err, &busy) || !errors.Is(err, syscall.EBUSY) {
			t.Errorf("close under a parent domain: %v", err)
		}
	}
	wantErr(t, td.Close(), syscall.EBUSY, "1 parent domain")
	q := must(p.CreateQP(s.cq, s.cq, nil))(t)
	wantErr(t, p.Close(), syscall.EBUSY, "1 qp")
	if !q.sq.mu.Off || !q.rq.mu.Off {
		t.Error("a QP of a thread domain takes locks")
	}
	ok(t, q.Close())
	ok(t, p.Close())
	ok(t, p.Close())
	_, err := s.dev.AllocParentDomain(p, td)
	wantErr(t, err, nil, "parent domain")
	ok(t, td.Close())
	_, err = s.dev.AllocParentDomain(s.pd, td)
	wantErr(t, err, ErrClosed)

	// A parent domain without a thread domain is the PD under another name.
	p = must(s.dev.AllocParentDomain(s.pd, nil))(t)
	q = must(p.CreateQP(s.cq, s.cq, nil))(t)
	if q.sq.mu.Off {
		t.Error("a QP without a thread domain takes no lock")
	}
	ok(t, q.Close())
	ok(t, p.Close())
}

func TestDomainErrors(t *testing.T) {
	s := fakeSide(t, nil)
	other := closing(t, must(Open("fake1"))(t))
	foreign := closing(t, must(other.AllocPD())(t))
	td := closing(t, must(s.dev.AllocThreadDomain())(t))
	foreignTD := closing(t, must(other.AllocThreadDomain())(t))
	for _, c := range []struct {
		pd  *PD
		td  *ThreadDomain
		say string
	}{{nil, td, "pd"}, {foreign, td, "a PD of another Device"},
		{s.pd, foreignTD, "a thread domain of another Device"}} {
		_, err := s.dev.AllocParentDomain(c.pd, c.td)
		var arg *ArgError
		if !errors.As(err, &arg) || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%v, want %q", err, c.say)
		}
	}
	set(t, "fail.alloc_td", int(syscall.EOPNOTSUPP))
	_, err := s.dev.AllocThreadDomain()
	wantErr(t, err, ErrNotSupported, "SingleThreaded", "fake0")
	set(t, "fail.alloc_td", int(syscall.ENOSPC))
	_, err = s.dev.AllocThreadDomain()
	wantErr(t, err, syscall.ENOSPC, "doorbell register")
	set(t, "fail.alloc_parent_domain", int(syscall.ENOSYS))
	_, err = s.dev.AllocParentDomain(s.pd, td)
	wantErr(t, err, ErrNotSupported, "parent domain", "SingleThreaded")
	set(t, "fail.dealloc_td", int(syscall.EBUSY))
	wantErr(t, td.Close(), syscall.EBUSY)
	unset(t, "fail.dealloc_td")
}

// A library without the ops of v17 says which release it takes.
func TestDomainOldLibrary(t *testing.T) {
	inChild(t, variant(t, "OLD=15"), nil, func(t *testing.T) {
		dev := closing(t, must(Open("fake0"))(t))
		pd := closing(t, must(dev.AllocPD())(t))
		_, err := dev.AllocThreadDomain()
		wantErr(t, err, ErrNotSupported, "v17", "SingleThreaded")
		_, err = dev.AllocParentDomain(pd, nil)
		wantErr(t, err, ErrNotSupported, "v17", "SingleThreaded")
	})
}

func TestSingleThreadedCQ(t *testing.T) {
	s := fakeSide(t, nil)
	before := max(get(t, "single_threaded_cqs"), 0)
	cq := must(s.dev.CreateCQ(16, &CQOptions{SingleThreaded: true}))(t)
	if n := get(t, "single_threaded_cqs"); n != before+1 || !cq.mu.Off {
		t.Errorf("%d CQs without a lock in the library, want %d", n, before+1)
	}
	ok(t, cq.Close())
	// It is a hint: a provider that refuses it is asked again without.
	for _, e := range []syscall.Errno{syscall.EOPNOTSUPP, syscall.EINVAL, syscall.ENOSYS} {
		set(t, "fail.create_cq_ex", int(e))
		cq = must(s.dev.CreateCQ(16, &CQOptions{SingleThreaded: true}))(t)
		ok(t, cq.Close())
	}
	set(t, "fail.create_cq_ex", int(syscall.ENOMEM))
	_, err := s.dev.CreateCQ(16, &CQOptions{SingleThreaded: true})
	wantErr(t, err, syscall.ENOMEM)
}

// A QP without a lock does all that one with a lock does.
func TestSingleThreadedTraffic(t *testing.T) {
	s := fakeLoop(t, &CQOptions{SingleThreaded: true}, &QPOptions{SingleThreaded: true})
	fill(s.mr.Bytes()[:64], 3)
	post(t, s.qp, write(s, 1, Signaled))
	s.good(t, 1)
	same(t, s.mr.Bytes()[4096:4096+64], 3)
	recv(t, s.qp, RecvWR{ID: 2, SGEs: []SGE{s.mr.SGE(8192, 64)}})
	b := s.qp.Batch()
	b.Send(3, Signaled, s.mr.SGE(0, 64))
	ok(t, b.Post())
	ids := map[uint64]bool{s.next(t).ID: true, s.next(t).ID: true}
	if !ids[2] || !ids[3] {
		t.Errorf("completions of %v, want 2 and 3", ids)
	}
	b.Write(4, Signaled, s.mr.SGE(0, 64), s.mr.Remote().At(4096))
	ok(t, s.qp.Close())
	wantErr(t, b.Post(), ErrClosed)
}

func TestSingleThreadedSRQ(t *testing.T) {
	s := fakeSide(t, nil)
	srq := closing(t, must(s.pd.CreateSRQ(&SRQOptions{SingleThreaded: true}))(t))
	if !srq.mu.Off {
		t.Error("the SRQ takes a lock")
	}
	if n, err := srq.PostRecv([]RecvWR{{ID: 1, SGEs: []SGE{s.mr.SGE(0, 64)}}}); n != 1 || err != nil {
		t.Errorf("post: %d, %v", n, err)
	}
	locked := closing(t, must(s.pd.CreateSRQ(nil))(t))
	if locked.mu.Off {
		t.Error("an SRQ for all takes no lock")
	}
}

func BenchmarkSingleThreadedPost(b *testing.B) {
	for _, single := range []bool{false, true} {
		b.Run(map[bool]string{false: "locked", true: "single"}[single], func(b *testing.B) {
			s := fakeLoop(b, &CQOptions{SingleThreaded: single}, &QPOptions{SingleThreaded: single})
			wrs, wcs := []SendWR{write(s, 1, Signaled)}, make([]WC, 4)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.qp.PostSend(wrs); err != nil {
					b.Fatal(err)
				}
				for n := 0; n == 0; {
					n, _ = s.cq.Poll(wcs)
				}
			}
		})
	}
}

func TestSingleThreadedAllocs(t *testing.T) {
	s := fakeLoop(t, &CQOptions{SingleThreaded: true}, &QPOptions{SingleThreaded: true})
	wrs, wcs := []SendWR{write(s, 1, Signaled)}, make([]WC, 4)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := s.qp.PostSend(wrs); err != nil {
			t.Fatal(err)
		}
		for n := 0; n == 0; {
			n, _ = s.cq.Poll(wcs)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// DataPathRaw takes an mlx5 device, and is never what Auto or the environment mean.
func TestDataPathRaw(t *testing.T) {
	s := fakeSide(t, nil)
	_, err := s.dev.CreateCQ(4, &CQOptions{DataPath: DataPathRaw})
	wantErr(t, err, ErrNotSupported)
	_, err = s.pd.CreateSRQ(&SRQOptions{DataPath: DataPathRaw})
	wantErr(t, err, ErrNotSupported)
	none := func() error { return nil }
	for _, c := range []struct {
		want, got DataPath
		env       string
	}{{DataPathRaw, DataPathRaw, ""}, {DataPathRaw, DataPathRaw, "ops"}, {DataPathAuto, DataPathDirect, ""}} {
		if got, why, err := chooseDataPath(c.want, c.env, none); got != c.got || err != nil || why == "" {
			t.Errorf("%v with %q gives %v (%s), %v", c.want, c.env, got, why, err)
		}
	}
	if _, _, err := chooseDataPath(DataPathAuto, "raw", none); err == nil {
		t.Error("the environment can ask for raw")
	}
	if s := DataPathRaw.String() + DataPath(9).String(); s != "RawDataPath(9)" {
		t.Error(s)
	}
}
