package ibv

import (
	"net"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// Errors say which of several objects of one kind they are about.
func TestFake_Names(t *testing.T) {
	s := fakeSide(t, nil)
	other := closing(t, must(s.dev.CreateCQ(16, nil))(t))
	if s.cq.String() == other.String() || !regexp.MustCompile(`^cq of fake0/\d+$`).MatchString(other.String()) {
		t.Fatalf("two CQs are %q and %q", s.cq, other)
	}
	_, number, _ := strings.Cut(other.String(), " of ")
	qp := must(s.pd.CreateQP(other, other, nil))(t)
	wantErr(t, other.Close(), syscall.EBUSY, "close "+other.String()+": still in use by 1 qp")
	ok(t, qp.Close())
	wantErr(t, other.Resize(0), syscall.EINVAL, "resize cq "+number+": ")
	failing(t, "ibv_destroy_cq", syscall.EIO)
	wantErr(t, other.Close(), syscall.EIO, "close cq "+number+": ")
	unset(t, "fail.ibv_destroy_cq")
	ok(t, other.Close())
	wantErr(t, other.Resize(32), ErrClosed, "resize cq "+number+": ")
	_, err := other.Poll(make([]WC, 1))
	wantErr(t, err, net.ErrClosed, "poll cq "+number+": ")

	srq := closing(t, must(s.pd.CreateSRQ(nil))(t))
	_, number, _ = strings.Cut(srq.String(), " of ")
	wantErr(t, srq.Resize(0), syscall.EINVAL, "resize srq "+number+": ")
	pd := must(s.dev.AllocPD())(t)
	mr := must(pd.AllocMR(64, LocalWrite, nil))(t)
	wantErr(t, pd.Close(), syscall.EBUSY, "close "+pd.String()+": still in use by 1 mr")
	ok(t, mr.Close())
	ok(t, pd.Close())
}
