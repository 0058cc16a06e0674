package ibv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/loader"
)

// side is one end of a connection on a SoftRoCE device.
type side struct {
	dev *Device
	pd  *PD
	cq  *CQ
	qp  *QP
	mr  *MR
}

// must fails the test on an error.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// closing closes v at the end of the test and fails it if that fails.
func closing[T interface{ Close() error }](t testing.TB, v T) T {
	t.Helper()
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return v
}

const testMRSize = 1 << 20

// newSide opens rxe device i with a PD, a CQ and an MR. Everything is closed at
// the end of the test.
func newSide(t testing.TB, i int, cqOpt *CQOptions) *side {
	t.Helper()
	rxe := testutil.NeedRXE(t)
	s := &side{}
	s.dev = closing(t, must(Open(rxe.Dev[i]))(t))
	s.pd = closing(t, must(s.dev.AllocPD())(t))
	s.cq = closing(t, must(s.dev.CreateCQ(512, cqOpt))(t))
	s.mr = closing(t, must(s.pd.AllocMR(testMRSize, LocalWrite|RemoteWrite|RemoteRead|RemoteAtomic, nil))(t))
	return s
}

func (s *side) newQP(t testing.TB, opt *QPOptions) *QP {
	t.Helper()
	s.qp = closing(t, must(s.pd.CreateQP(s.cq, s.cq, opt))(t))
	return s.qp
}

// newPair connects a QP on rxe0 with one on rxe1.
func newPair(t testing.TB, opt *QPOptions, conn *ConnectOptions) (a, b *side) {
	t.Helper()
	rxe := testutil.NeedRXE(t)
	a, b = newSide(t, 0, nil), newSide(t, 1, nil)
	qa, qb := a.newQP(t, opt), b.newQP(t, opt)
	ea := must(qa.Endpoint(rxe.Port, rxe.GID))(t)
	eb := must(qb.Endpoint(rxe.Port, rxe.GID))(t)
	ok(t, qa.Connect(eb, conn))
	ok(t, qb.Connect(ea, conn))
	return a, b
}

// timeout bounds a test's waiting; it is no measure of speed.
func timeout(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Patience)
	t.Cleanup(cancel)
	return ctx
}

// next waits for one completion.
func (s *side) next(t testing.TB) WC {
	t.Helper()
	var wc [1]WC
	if _, err := s.cq.Wait(timeout(t), wc[:]); err != nil {
		t.Fatalf("%v: wait: %v", s.dev.Name(), err)
	}
	return wc[0]
}

// good waits for one completion, which must be a success with the given id.
func (s *side) good(t testing.TB, id uint64) WC {
	t.Helper()
	wc := s.next(t)
	if err := wc.Err(); err != nil {
		t.Fatal(err)
	}
	if wc.ID != id {
		t.Fatalf("completion of %d, want %d", wc.ID, id)
	}
	return wc
}

func post(t testing.TB, qp *QP, wrs ...SendWR) {
	t.Helper()
	if n, err := qp.PostSend(wrs); err != nil || n != len(wrs) {
		t.Fatalf("post send: %d of %d: %v", n, len(wrs), err)
	}
}

func recv(t testing.TB, qp *QP, wrs ...RecvWR) {
	t.Helper()
	if n, err := qp.PostRecv(wrs); err != nil || n != len(wrs) {
		t.Fatalf("post recv: %d of %d: %v", n, len(wrs), err)
	}
}

// fill writes a pattern that depends on position and seed.
func fill(b []byte, seed int) {
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed)
	}
}

// same compares received bytes with the pattern of seed.
func same(t testing.TB, got []byte, seed int) {
	t.Helper()
	for i := range got {
		if want := byte(i*7 + i>>8 + seed); got[i] != want {
			t.Fatalf("byte %d of %d is %#x, want %#x", i, len(got), got[i], want)
		}
	}
}

// lacks reports whether err says that the library is older than a release, which has to be true.
func lacks(t *testing.T, err error, release int) bool {
	t.Helper()
	var (
		ue  *UnsupportedError
		old *loader.SymbolError
	)
	since := fmt.Sprintf("v%d", release)
	if !(errors.As(err, &ue) && strings.Contains(ue.Need, "rdma-core "+since) ||
		errors.As(err, &old) && old.Since == since) {
		return false
	}
	if have := libraryRelease(t); have >= release {
		t.Errorf("version %d: %v", have, err)
	}
	return true
}

// libraryRelease returns the release of rdma-core that libibverbs is from.
func libraryRelease(t *testing.T) (release int) {
	t.Helper()
	version := must(library())(t).Version()
	if version == "" && soft(testutil.NeedRXE(t)) {
		return 44 // Debian 12's; the VM's file has no version in its name
	}
	if _, err := fmt.Sscanf(version, "%d", &release); err != nil {
		t.Fatalf("version %q: %v", version, err)
	}
	return release
}
