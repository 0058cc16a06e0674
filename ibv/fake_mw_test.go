package ibv

import (
	"errors"
	"math"
	"syscall"
	"testing"
)

// fakeWindow is a QP that is connected to itself, an MR for windows, and a window on 64 bytes of it.
func fakeWindow(t testing.TB, typ MWType) (*side, *MW, *BindMW) {
	t.Helper()
	s := fakeLoop(t, nil, nil)
	mr := closing(t, must(s.pd.AllocMR(4096, LocalWrite|MWBind, nil))(t))
	mw := closing(t, must(s.pd.AllocMW(typ))(t))
	return s, mw, &BindMW{MW: mw, RKey: NextRKey(mw.RKey()), MR: mr, Addr: mr.Addr() + 128, Length: 64,
		Access: RemoteWrite}
}

// writeTo writes 8 bytes and returns the status.
func (s *side) writeTo(t testing.TB, at RemoteAddr) WCStatus {
	t.Helper()
	post(t, s.qp, SendWR{ID: 7, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{s.mr.SGE(0, 8)}, Remote: at})
	return s.next(t).Status
}

func TestFake_MW(t *testing.T) {
	for _, typ := range []MWType{MWType1, MWType2} {
		s, mw, b := fakeWindow(t, typ)
		bind := func(b *BindMW) {
			t.Helper()
			if typ == MWType1 {
				ok(t, s.qp.BindMW(3, Signaled, b))
			} else {
				post(t, s.qp, SendWR{ID: 2, Opcode: OpSendImm, SGEs: nil, Imm: 9, Flags: Signaled}) // the slot's before
				recv(t, s.qp, RecvWR{ID: 5, SGEs: []SGE{s.mr.SGE(0, 8)}})
				drain(t, s.cq)
				post(t, s.qp, SendWR{ID: 3, Opcode: OpBindMW, Flags: Signaled, Bind: b})
			}
			if wc := s.good(t, 3); wc.Opcode != WCBindMW || mw.RKey() != b.RKey {
				t.Fatalf("%v: %+v, key %#x", typ, wc, mw.RKey())
			}
		}
		if typ == MWType2 {
			recv(t, s.qp, RecvWR{ID: 5, SGEs: []SGE{s.mr.SGE(0, 8)}})
		}
		before := mw.RKey()
		bind(b)
		if b.RKey != NextRKey(before) {
			t.Errorf("%v: key %#x after %#x", typ, b.RKey, before)
		}
		r := b.Remote()
		if r != (RemoteMemory{Addr: b.Addr, RKey: b.RKey, Length: 64}) {
			t.Errorf("%+v", r)
		}
		if st := s.writeTo(t, r.At(56)); st != WCSuccess {
			t.Errorf("%v: %v", typ, st)
		}
		wantErr(t, b.MR.Close(), syscall.EBUSY, "memory windows")
		bind(&BindMW{MW: mw, RKey: NextRKey(mw.RKey())}) // to nothing
	}
	b := &BindMW{Addr: 5, Access: ZeroBased, Length: 7, RKey: 1}
	if b.Remote() != (RemoteMemory{RKey: 1, Length: 7}) {
		t.Errorf("%+v", b.Remote())
	}
	for key, want := range map[uint32]uint32{
		0x12345600: 0x12345601, 0x123456ff: 0x12345600, math.MaxUint32: 0xffffff00,
	} {
		if got := NextRKey(key); got != want {
			t.Errorf("NextRKey(%#x) is %#x, want %#x", key, got, want)
		}
	}
}

// Binding and invalidating allocates nothing.
func TestFake_MWAllocs(t *testing.T) {
	s, mw, b := fakeWindow(t, MWType2)
	wrs := []SendWR{{Opcode: OpBindMW, Bind: b}, {Opcode: OpLocalInv, Flags: Signaled}}
	q := s.qp.Batch()
	var wcs [4]WC
	if n := testing.AllocsPerRun(100, func() {
		b.RKey = NextRKey(mw.RKey())
		wrs[1].InvalidateRKey = b.RKey
		if n, err := s.qp.PostSend(wrs); n != 2 {
			t.Fatal(err)
		}
		_, _ = s.cq.Poll(wcs[:])
		b.RKey = NextRKey(mw.RKey())
		q.BindMW(1, 0, b)
		q.LocalInv(2, Signaled, b.RKey)
		if err := q.Post(); err != nil {
			t.Fatal(err)
		}
		_, _ = s.cq.Poll(wcs[:])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What fails in C leaves the window and its key as they were.
func TestFake_MWErrors(t *testing.T) {
	s, mw, b := fakeWindow(t, MWType1)
	key := mw.RKey()
	for _, c := range []struct {
		errno syscall.Errno
		want  error
	}{{syscall.ENOMEM, ErrQueueFull}, {syscall.EIO, syscall.EIO}, {syscall.EOPNOTSUPP, ErrNotSupported}} {
		set(t, "fail.bind_mw", int(c.errno))
		wantErr(t, s.qp.BindMW(1, Signaled, b), c.want)
	}
	unset(t, "fail.bind_mw")
	if mw.RKey() != key {
		t.Errorf("key %#x, want %#x", mw.RKey(), key)
	}
	loop := fakeLoop(t, nil, nil)
	mw3 := closing(t, must(loop.pd.AllocMW(MWType2))(t))
	mr3 := closing(t, must(loop.pd.AllocMR(4096, LocalWrite|MWBind, nil))(t))
	b3 := &BindMW{MW: mw3, RKey: NextRKey(mw3.RKey()), MR: mr3, Addr: mr3.Addr(), Length: 8}
	key = mw3.RKey()
	set(t, "post.at", 1)
	set(t, "post.errno", int(syscall.EIO))
	n, err := loop.qp.PostSend([]SendWR{{Opcode: OpBindMW, Bind: b3}, {Opcode: OpLocalInv}})
	wantErr(t, err, syscall.EIO)
	unset(t, "post.at")
	if n != 0 || mw3.RKey() != key {
		t.Errorf("%d posted, key %#x, want %#x", n, mw3.RKey(), key)
	}
	ok(t, closing(t, must(loop.pd.AllocMW(MWType1))(t)).Close())

	set(t, "fail.dealloc_mw", int(syscall.EIO))
	wantErr(t, mw3.Close(), syscall.EIO)
	unset(t, "fail.dealloc_mw")
	var busy *BusyError
	if err := loop.pd.Close(); !errors.As(err, &busy) {
		t.Errorf("close of the PD: %v, want a BusyError", err)
	}
	set(t, "fail.alloc_mw", int(syscall.ENOSYS))
	_, err = s.pd.AllocMW(MWType2)
	wantErr(t, err, ErrNotSupported, "type 2", "MemWindowType2")
	set(t, "fail.alloc_mw", int(syscall.ENOMEM))
	_, err = s.pd.AllocMW(MWType2)
	wantErr(t, err, syscall.ENOMEM)
	unset(t, "fail.alloc_mw")
	pd := must(s.dev.AllocPD())(t)
	ok(t, pd.Close())
	_, err = pd.AllocMW(MWType1)
	wantErr(t, err, ErrClosed)
	_, err = pd.AllocNullMR()
	wantErr(t, err, ErrClosed)
	_, err = pd.RegMREx(&MROptions{Buf: make([]byte, 8)})
	wantErr(t, err, ErrClosed)
}

// A provider without windows leaves the slots of the context empty.
func TestFake_MWNoOps(t *testing.T) {
	inChild(t, variant(t, "OLD=44"), []string{"FAKEVERBS=null.alloc_mw=1"}, func(t *testing.T) {
		s := fakeSide(t, nil)
		_, err := s.pd.AllocMW(MWType1)
		var ue *UnsupportedError
		if !errors.As(err, &ue) {
			t.Errorf("%v, want an UnsupportedError", err)
		}
	})
}

func TestFake_MWNoBind(t *testing.T) {
	inChild(t, variant(t, "OLD=44"), []string{"FAKEVERBS=null.bind_mw=1"}, func(t *testing.T) {
		s, _, b := fakeWindow(t, MWType1)
		var ue *UnsupportedError
		if err := s.qp.BindMW(1, 0, b); !errors.As(err, &ue) {
			t.Errorf("%v, want an UnsupportedError", err)
		}
	})
}

func TestFake_NullMR(t *testing.T) {
	s := fakeSide(t, nil)
	mr := closing(t, must(s.pd.AllocNullMR())(t))
	if s := mr.SGE(1<<40, 100); s != (SGE{Addr: 1 << 40, Length: 100, LKey: 0x700}) || mr.Bytes() != nil ||
		mr.RKey() != 0 {
		t.Errorf("%+v", s)
	}
	wantErr(t, mr.Rereg(&ReregOptions{Buf: make([]byte, 8)}), syscall.EINVAL, "a null MR")
	set(t, "fail.alloc_null_mr", int(syscall.ENOTSUP))
	_, err := s.pd.AllocNullMR()
	wantErr(t, err, ErrNotSupported, "a provider with support")
	set(t, "fail.alloc_null_mr", int(syscall.ENOMEM))
	_, err = s.pd.AllocNullMR()
	wantErr(t, err, syscall.ENOMEM)
}

func TestFake_NullMROldLibrary(t *testing.T) {
	inChild(t, variant(t, "OLD=15"), nil, func(t *testing.T) {
		_, err := fakeSide(t, nil).pd.AllocNullMR()
		wantErr(t, err, ErrNotSupported, "v20")
	})
}

// What reaches C of the options of a registration, and what does not.
func TestFake_RegMREx(t *testing.T) {
	inChild(t, variant(t, "OLD=65"), nil, func(t *testing.T) {
		s := fakeSide(t, nil)
		h := must(s.dev.AllocDMAHandle(TPHTarget, &TPHSteering{CPU: 5, Memory: TPHPersistent}))(t)
		for name, want := range map[string]int{"dmah.mask": 7, "dmah.cpu": 5, "dmah.ph": 2, "dmah.mem": 1} {
			if got := get(t, name); got != want {
				t.Errorf("%s is %d, want %d", name, got, want)
			}
		}
		closing(t, must(s.dev.AllocDMAHandle(TPHRequester, nil))(t))
		if got := get(t, "dmah.mask"); got != 2 {
			t.Errorf("without steering: mask %d", got)
		}
		buf := make([]byte, 100)
		mr := must(s.pd.RegMREx(&MROptions{Buf: buf, IOVA: 1 << 30, Access: LocalWrite, DMA: h}))(t)
		if m := get(t, "ex.mask"); m != 1|2|16 || mr.Addr() != 1<<30 || mr.Len() != 100 || &mr.Bytes()[0] != &buf[0] {
			t.Errorf("mask %#x, %d bytes at %#x", m, mr.Len(), mr.Addr())
		}
		if got := get(t, "last.access"); got != int(LocalWrite) {
			t.Errorf("access %#x", got)
		}
		wantErr(t, h.Close(), syscall.EBUSY, "1 mr")
		wantErr(t, mr.Rereg(&ReregOptions{Buf: buf}), syscall.EINVAL, "DMA handle")
		ok(t, mr.Close())
		ok(t, h.Close())
		_, err := s.pd.RegMREx(&MROptions{Buf: buf, DMA: h})
		wantErr(t, err, ErrClosed)
		part := &Dmabuf{FD: 77, Offset: 4096, Length: 50}
		mr = closing(t, must(s.pd.RegMREx(&MROptions{Dmabuf: part, IOVA: 8192}))(t))
		if m, fd, off := get(t, "ex.mask"), get(t, "ex.fd"), get(t, "ex.offset"); m != 1|4|8 || fd != 77 ||
			off != 4096 || mr.Addr() != 8192 || mr.Bytes() != nil {
			t.Errorf("mask %#x, descriptor %d, offset %d", m, fd, off)
		}
		mr = closing(t, must(s.pd.RegMREx(&MROptions{Buf: buf}))(t))
		if m := get(t, "ex.mask"); m != 1|2 || mr.Addr() != uint64(mr.addr) {
			t.Errorf("mask %#x, address %#x", m, mr.Addr())
		}
		other := closing(t, must(Open("fake1"))(t))
		foreign := closing(t, must(other.AllocDMAHandle(0, nil))(t))
		for _, c := range []struct {
			opt *MROptions
			arg string
		}{
			{nil, "opt"}, {&MROptions{}, "Buf"}, {&MROptions{Buf: []byte{}}, "Buf"},
			{&MROptions{Buf: buf, Dmabuf: &Dmabuf{}}, "Buf and Dmabuf"}, {&MROptions{Buf: buf, DMA: foreign}, "DMA"},
			{&MROptions{Dmabuf: &Dmabuf{FD: -1, Length: 1}}, "Dmabuf.FD"},
			{&MROptions{Dmabuf: &Dmabuf{}}, "Dmabuf.Length"}, {&MROptions{Buf: buf, Access: AccessNone}, "access"},
		} {
			var ae *ArgError
			if _, err := s.pd.RegMREx(c.opt); !errors.As(err, &ae) || ae.Arg != c.arg {
				t.Errorf("%+v: %v, want an ArgError of %s", c.opt, err, c.arg)
			}
		}
		for _, f := range []func() error{
			func() error { _, err := s.dev.AllocDMAHandle(4, nil); return err },
			func() error { _, err := s.dev.AllocDMAHandle(0, &TPHSteering{Memory: 2}); return err },
			func() error { _, err := s.dev.AllocDMAHandle(0, &TPHSteering{CPU: -1}); return err },
			func() error { _, err := s.dev.AllocDMAHandle(0, &TPHSteering{CPU: 1 << 31}); return err },
		} {
			wantErr(t, f(), syscall.EINVAL)
		}
		set(t, "fail.ibv_reg_mr_ex", int(syscall.EOPNOTSUPP))
		_, err = s.pd.RegMREx(&MROptions{Buf: buf})
		wantErr(t, err, ErrNotSupported, "use RegMR")
		set(t, "fail.ibv_alloc_dmah", int(syscall.EOPNOTSUPP))
		_, err = s.dev.AllocDMAHandle(0, nil)
		wantErr(t, err, ErrNotSupported, "TPH")
		unset(t, "fail.ibv_alloc_dmah")
	})
}

func TestFake_RegMRExOldLibrary(t *testing.T) {
	s := fakeSide(t, nil) // v44
	_, err := s.pd.RegMREx(&MROptions{Buf: make([]byte, 8)})
	wantErr(t, err, ErrNotSupported, "v59", "use RegMR")
	_, err = s.dev.AllocDMAHandle(0, nil)
	wantErr(t, err, ErrNotSupported, "v59")
}
