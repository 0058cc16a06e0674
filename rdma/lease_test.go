package rdma

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

func TestControlFrames(t *testing.T) {
	lend := lendFrame{addr: 0x0807060504030201, length: 0x1817161514131211, rkey: 0x24232221, milliseconds: 0x34333231,
		access: 5, flags: 6, request: 0x0908}
	for _, f := range []struct {
		c    control
		want string
	}{
		{lend.encode(7), "\x01\x02\x03\x04\x05\x06\x07\x08\x11\x12\x13\x14\x15\x16\x17\x18!\"#$1234\x05\x06\x08\x09"},
		{numberFrame(kindExtend, 1, 0x04030201), "\x01\x02\x03\x04"},
		{numberFrame(kindRevoke, 1, reasonExpired), "\x02\x00\x00\x00"},
		{numberFrame(kindReturn, 1, reasonRevoked), "\x01\x00\x00\x00"},
		{numberFrame(kindRefuse, 1, uint32(RefusedLimit)), "\x02\x00\x00\x00"},
		{requestFrame(3, 0x0807060504030201, MayAtomic, 0x14131211),
			"\x01\x02\x03\x04\x05\x06\x07\x08\x11\x12\x13\x14\x04\x00\x00\x00"},
	} {
		if got := string(f.c.payload[:f.c.n]); got != f.want || uint32(f.c.n) != controlLen[f.c.kind] {
			t.Errorf("%v: %q, want %q", f.c.kind, got, f.want)
		}
	}
	c := lend.encode(7)
	if got := parseLend(c.payload[:]); got != lend {
		t.Errorf("%+v, and back %+v", lend, got)
	}
}

func TestLeaseOptions(t *testing.T) {
	for _, o := range []LeaseOptions{{Count: -1}, {Count: leasesMost + 1}, {Longest: -1},
		{Longest: 31 * 24 * time.Hour}, {Longest: time.Microsecond}, {Grace: -1}} {
		var arg *ibv.ArgError
		err := (&Options{Leases: &o}).check(kindMessages)
		if !errors.As(err, &arg) || !strings.Contains(err.Error(), "Leases.") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	o := LeaseOptions{Longest: time.Minute}.withDefaults()
	if err := o.check(); err != nil {
		t.Error(err)
	}
	if d, err := o.duration(0); d != time.Minute || err != nil {
		t.Errorf("the longest: %v, %v", d, err)
	}
	h := hello{min: 1, max: 1, kind: kindMessages, flags: 0xfe | helloLeases, block: 32 << 10, limit: 2}
	if got, _, err := parseHello(h.encode(), kindMessages); err != nil || got.flags != 0xff {
		t.Errorf("a hello with unknown flags: %#x, %v", got.flags, err)
	}
	if (&Options{Leases: &o}).leases(kindStream) != nil {
		t.Error("a stream has leases")
	}
	for got, want := range map[string]string{
		(MayRead | MayAtomic).String(): "MayRead|MayAtomic", Access(0x81).String(): "MayRead|0x80",
		RefusedLimit.String(): "more than it lends", RefuseReason(17).String(): "reason 17",
		kindRefuse.String(): "REFUSE",
		(&RightError{Need: MayWrite, Have: MayRead}).Error(): "the lease permits MayRead, not MayWrite",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if !errors.Is(&RefusedError{}, ErrRefused) {
		t.Error("a RefusedError does not match ErrRefused")
	}
}

func TestOpQueue(t *testing.T) {
	var q opQueue
	var list [10]op
	for i := range list {
		q.push(&list[i])
	}
	q.pop()
	q.pop()
	q.remove(func(o *op) bool { return o == &list[3] || o == &list[9] })
	for _, i := range []int{2, 4, 5, 6, 7, 8} {
		if q.first() != &list[i] {
			t.Fatalf("not operation %d", i)
		}
		q.pop()
		q.push(&list[0])
	}
	if q.len() != 6 {
		t.Errorf("%d operations, want 6", q.len())
	}
}
