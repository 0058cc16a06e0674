package ibv

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

func TestWCError(t *testing.T) {
	wc := WC{ID: 0x2a, Status: WCRetryExcErr, VendorErr: 0x81, QPN: 0x11}
	err := fmt.Errorf("write: %w", wc.Err())
	if !errors.Is(err, WCRetryExcErr.Err()) {
		t.Error("not found by its status")
	}
	if errors.Is(err, WCRNRRetryExcErr.Err()) {
		t.Error("found by another status")
	}
	var we *WCError
	if !errors.As(err, &we) || we.ID != 0x2a || we.QPN != 0x11 || we.VendorErr != 0x81 {
		t.Errorf("as WCError: %+v", we)
	}
	for _, want := range []string{"work request 0x2a", "qp 0x000011", "RetryExcErr", "0x81", "no acknowledgement",
		"firewall", "4791", "GID index"} {
		if full := fmt.Sprintf("%+v", we); !strings.Contains(full, want) {
			t.Errorf("no %q in %q", want, full)
		}
	}
	if ok := (&WC{Status: WCSuccess}).Err(); ok != nil {
		t.Errorf("success is %v", ok)
	}
}

// A status must not be an error by itself: "return wc.Status" would be a failure
// of what succeeded.
func TestWCStatus_Err(t *testing.T) {
	if _, is := any(WCSuccess).(error); is {
		t.Error("WCStatus is an error, and so is WCSuccess")
	}
	if err := WCSuccess.Err(); err != nil {
		t.Errorf("WCSuccess.Err() is %v", err)
	}
	for s := WCSuccess + 1; s <= WCTMRndvIncomplete; s++ {
		if err := s.Err(); err == nil || err.Error() != s.String() || !errors.Is((&WC{Status: s}).Err(), err) ||
			errors.Is(err, (s+1).Err()) {
			t.Errorf("%v.Err() is %v", s, err)
		}
	}
	wc := WC{Status: WCWRFlushErr}
	if n := testing.AllocsPerRun(100, func() {
		if errors.Is(wc.Status.Err(), WCSuccess.Err()) {
			t.Error("a failure is a success")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Every status explains itself, failures with advice except where none exists.
func TestWCStatus_Advice(t *testing.T) {
	seen := make(map[string]WCStatus)
	for s := WCSuccess; s <= WCTMRndvIncomplete; s++ {
		if s.Explain() == "" {
			t.Errorf("%v has no explanation", s)
		}
		if s == WCSuccess || s.Explain() == rdOnly {
			continue
		}
		if s.Advice() == "" {
			t.Errorf("%v has no advice", s)
		}
		if o, ok := seen[s.Explain()]; ok {
			t.Errorf("%v and %v explain the same", o, s)
		}
		seen[s.Explain()] = s
		if e := fmt.Sprintf("%+v", &WCError{Status: s}); !strings.Contains(e, s.Advice()) ||
			strings.Contains(e, "syndrome 0x0") {
			t.Errorf("%v: %q", s, e)
		}
	}
	if len(seen) != int(WCTMRndvIncomplete)-5 {
		t.Errorf("%d failures explained", len(seen))
	}
	unknown := &WCError{Status: 99, VendorErr: 7}
	if got, want := fmt.Sprintf("%+v", unknown),
		"work request 0x0 of qp 0x000000 failed with WCStatus(99) (vendor syndrome 0x7): a status that this release "+
			"does not know"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(unknown, WCStatus(99).Err()) {
		t.Error("an unknown status is not found")
	}
}

// An error is one short line, whatever verb prints it: a flushed queue has thousands.
func TestWCError_Short(t *testing.T) {
	for s := WCSuccess + 1; s <= WCTMRndvIncomplete; s++ {
		e := &WCError{Status: s, VendorErr: 0xf9, QPN: 0xffffff, ID: ^uint64(0)}
		short := e.Error()
		if len(short) > 100 || strings.Contains(short, "\n") {
			t.Errorf("%d bytes: %q", len(short), short)
		}
		if v, q := fmt.Sprintf("%v %s", e, e), fmt.Sprintf("%q", e); v != short+" "+short || q != strconv.Quote(short) {
			t.Errorf("%q: printed as %q and %s", short, v, q)
		}
		if full, want := fmt.Sprintf("%+v", e), short+": "+e.Advice(); full != want {
			t.Errorf("got %q, want %q", full, want)
		}
	}
}

func TestVendorText(t *testing.T) {
	if vendorText(WCRemAccessErr, 0x88) == "" || vendorText(WCLocProtErr, 0x93) == "" {
		t.Error("a known syndrome is not named")
	}
	if s := vendorText(WCGeneralErr, 0x88); s != "" {
		t.Errorf("0x88 of another status is %q", s)
	}
}
