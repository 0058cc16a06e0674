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
	for _, o := range []LeaseOptions{{MaxLeases: -1}, {MaxLeases: leasesMost + 1}, {MaxDuration: -1},
		{MaxDuration: 31 * 24 * time.Hour}, {MaxDuration: time.Microsecond}, {Grace: -1}, {MaxBytes: None - 1}} {
		var arg *ibv.ArgError
		err := (&Options{Leases: &o}).check(callListen)
		if !errors.As(err, &arg) || !strings.Contains(err.Error(), "Leases.") {
			t.Errorf("%+v: %v", o, err)
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
