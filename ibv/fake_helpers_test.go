package ibv

import "testing"

// fakeSide opens the first fake device with a PD, a CQ and an MR. Everything is
// closed at the end of the test, which then must have left nothing in C.
func fakeSide(t testing.TB, cqOpt *CQOptions) *side {
	t.Helper()
	leavesNothing(t)
	s := &side{}
	s.dev = closing(t, must(Open("fake0"))(t))
	s.more(t, cqOpt)
	return s
}

func (s *side) more(t testing.TB, cqOpt *CQOptions) {
	t.Helper()
	s.pd = closing(t, must(s.dev.AllocPD())(t))
	s.cq = closing(t, must(s.dev.CreateCQ(512, cqOpt))(t))
	s.mr = closing(t, must(s.pd.AllocMR(testMRSize, LocalWrite|RemoteWrite|RemoteRead|RemoteAtomic, nil))(t))
}

// fakePair connects two QPs of one fake device, each with its own CQ and MR.
func fakePair(t testing.TB, opt *QPOptions) (a, b *side) {
	t.Helper()
	a = fakeSide(t, nil)
	b = &side{dev: a.dev}
	b.more(t, nil)
	a.newQP(t, opt)
	b.newQP(t, opt)
	connect(t, a.qp, b.qp)
	return a, b
}

// fakeLoop is a QP that is connected to itself.
func fakeLoop(t testing.TB, cqOpt *CQOptions, opt *QPOptions) *side {
	t.Helper()
	s := fakeSide(t, cqOpt)
	s.newQP(t, opt)
	ok(t, s.qp.Connect(must(s.qp.Endpoint(1, 1))(t), nil))
	return s
}

func connect(t testing.TB, a, b *QP) {
	t.Helper()
	ea, eb := must(a.Endpoint(1, 1))(t), must(b.Endpoint(1, 1))(t)
	ok(t, a.Connect(eb, nil))
	ok(t, b.Connect(ea, nil))
}

// drain polls until the CQ is empty.
func drain(t testing.TB, cq *CQ) (n int) {
	t.Helper()
	var wcs [64]WC
	for {
		got, err := cq.Poll(wcs[:])
		if err != nil {
			t.Fatal(err)
		}
		if got == 0 {
			return n
		}
		n += got
	}
}

func write(s *side, id uint64, flags SendFlags) SendWR {
	return SendWR{ID: id, Opcode: OpWrite, Flags: flags, SGEs: []SGE{s.mr.SGE(0, 64)}, Remote: s.mr.Remote().At(4096)}
}
