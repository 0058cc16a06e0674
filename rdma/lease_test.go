package rdma

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

func TestLeaseOptions(t *testing.T) {
	for _, o := range []LeaseOptions{{Count: -1}, {Count: leasesMost + 1}, {Longest: -1},
		{Longest: 31 * 24 * time.Hour}, {Longest: time.Microsecond}, {Grace: -1},
		{MaxLeases: -1}, {MaxDuration: -1}, {Count: 1, MaxLeases: 2},
		{Most: 1, MaxBytes: 2}, {Longest: time.Second, MaxDuration: time.Minute}} {
		var arg *ibv.ArgError
		err := (&Options{Leases: &o}).check(wire.Messages)
		if !errors.As(err, &arg) || !strings.Contains(err.Error(), "Leases.") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, o := range []LeaseOptions{{Most: 1, Count: 2, Longest: time.Second},
		{MaxBytes: 1, MaxLeases: 2, MaxDuration: time.Second}} {
		if o := o.withDefaults(); o.MaxBytes != 1 || o.MaxLeases != 2 || o.MaxDuration != time.Second ||
			o.check() != nil {
			t.Errorf("%+v, %v; want the values of either name", o, o.check())
		}
	}
	o := LeaseOptions{MaxDuration: time.Minute}.withDefaults()
	if err := o.check(); err != nil {
		t.Error(err)
	}
	if d, err := o.duration(0); d != time.Minute || err != nil {
		t.Errorf("the longest: %v, %v", d, err)
	}
	if (&Options{Leases: &o}).leases(wire.Stream) != nil {
		t.Error("a stream has leases")
	}
	for got, want := range map[string]string{
		(MayRead | MayAtomic).String(): "MayRead|MayAtomic", Access(0x81).String(): "MayRead|0x80",
		RefusedLimit.String(): "more than it lends", RefuseReason(17).String(): "reason 17",
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
