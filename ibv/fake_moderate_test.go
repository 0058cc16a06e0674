package ibv

import (
	"errors"
	"math"
	"syscall"
	"testing"
	"time"
)

func TestFake_Moderate(t *testing.T) {
	set(t, "cq_mod.max_count", 1000)
	set(t, "cq_mod.max_period", 4095)
	s := fakeSide(t, nil)
	for _, c := range []struct {
		count  int
		period time.Duration
		micros int
	}{
		{16, 50 * time.Microsecond, 50},
		{1, 1, 1}, // rounded up: 0 would turn it off
		{1000, 4094*time.Microsecond + 1, 4095},
		{1000, 4095 * time.Microsecond, 4095},
		{0, 0, 0},
	} {
		set(t, "cq_mod.count", -1)
		set(t, "cq_mod.period", -1)
		ok(t, s.cq.Moderate(c.count, c.period))
		if n, p := get(t, "cq_mod.count"), get(t, "cq_mod.period"); n != c.count || p != c.micros {
			t.Errorf("Moderate(%d, %v) asked the library for %d and %d µs", c.count, c.period, n, p)
		}
	}

	// What is refused here never gets to the library.
	set(t, "fail.modify_cq", int(syscall.EIO))
	const us = time.Microsecond
	for _, c := range []struct {
		count  int
		period time.Duration
		want   string
	}{
		{1001, us, "cq_count 1001 exceeds the limit of fake0 (1000)"},
		{1 << 16, us, "cq_count 65536 exceeds the limit of fake0 (1000)"},
		{1, 4095*us + 1, "cq_period_us 4096 exceeds the limit of fake0 (4095)"},
		{1, 1<<16*us + us, "cq_period_us 65537 exceeds the limit of fake0 (4095)"},
		{1, math.MaxInt64, "cq_period_us 9223372036854776 exceeds the limit of fake0 (4095)"},
	} {
		err := s.cq.Moderate(c.count, c.period)
		var le *LimitError
		if !errors.As(err, &le) {
			t.Errorf("Moderate(%d, %v): %v, want a *LimitError", c.count, c.period, err)
		}
		wantErr(t, err, syscall.EINVAL, c.want)
	}
	for _, c := range []struct {
		count  int
		period time.Duration
		want   string
	}{
		{-1, us, "cq_count is -1; it must be 0 to 1000"},
		{1, -us, "cq_period is -1µs; it must be 0s to 4.095ms"},
		{1, 0, "cq_period is 0s; it must be 1µs to 4.095ms"},
		{0, us, "cq_count is 0; it must be 1 to 1000"},
	} {
		err := s.cq.Moderate(c.count, c.period)
		var ae *ArgError
		if !errors.As(err, &ae) {
			t.Errorf("Moderate(%d, %v): %v, want an *ArgError", c.count, c.period, err)
		}
		wantErr(t, err, syscall.EINVAL, c.want)
	}
	wantErr(t, s.cq.Moderate(1, us), syscall.EIO, "moderate cq", s.cq.name)
}

// A device that tells no limits is asked; the numbers must fit into C's 16 bits.
func TestFake_ModerateUnknownLimits(t *testing.T) {
	s := fakeSide(t, nil)
	ok(t, s.cq.Moderate(65535, 65535*time.Microsecond))
	if n, p := get(t, "cq_mod.count"), get(t, "cq_mod.period"); n != 65535 || p != 65535 {
		t.Errorf("%d and %d µs", n, p)
	}
	wantErr(t, s.cq.Moderate(65536, time.Microsecond), syscall.EINVAL, "(65535)")
	wantErr(t, s.cq.Moderate(1, 65536*time.Microsecond), syscall.EINVAL, "(65535)")
}

func TestFake_ModerateUnsupported(t *testing.T) {
	s := fakeSide(t, nil)
	for _, e := range []syscall.Errno{syscall.EOPNOTSUPP, syscall.ENOSYS} {
		failing(t, "modify_cq", e)
		err := s.cq.Moderate(2, time.Millisecond)
		var ue *UnsupportedError
		if !errors.As(err, &ue) {
			t.Errorf("%v: %v, want an *UnsupportedError", e, err)
		}
		wantErr(t, err, ErrNotSupported, "fake0", "each completion")
	}
	cq := must(s.dev.CreateCQ(4, nil))(t)
	ok(t, cq.Close())
	wantErr(t, cq.Moderate(2, time.Millisecond), ErrClosed)
	wantErr(t, cq.Moderate(-1, -1), ErrClosed)
}

// A library without the op says which release it takes.
func TestFake_ModerateOldLibrary(t *testing.T) {
	inChild(t, variant(t, "OLD=15"), nil, func(t *testing.T) {
		s := fakeSide(t, nil)
		wantErr(t, s.cq.Moderate(2, time.Millisecond), ErrNotSupported, "v16", "each completion")
		wantErr(t, s.cq.Moderate(-2, time.Millisecond), syscall.EINVAL)
	})
}
