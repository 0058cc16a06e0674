package ibv

import (
	"math"
	"testing"
	"time"
)

// Every code is a duration that leads back to it, and what is between is rounded up.
func TestTimeCode(t *testing.T) {
	for n := TimeCode(0); n <= 31; n++ {
		d := n.Duration()
		if got, ok := TimeCodeFromDuration(d); got != n || !ok {
			t.Errorf("%v is code %d, %v; want %d", d, got, ok, n)
		}
		if got, ok := TimeCodeFromDuration(d + 1); ok != (n < 31) || ok && got != n+1 {
			t.Errorf("%v is code %d, %v", d+1, got, ok)
		}
	}
	for _, d := range []time.Duration{0, -1, 14, 4095, math.MinInt64, math.MaxInt64} {
		if got, ok := TimeCodeFromDuration(d); ok || got != 0 {
			t.Errorf("%v is code %d", d, got)
		}
	}
	if d := TimeCode(255).Duration(); d != math.MaxInt64 {
		t.Errorf("code 255 is %v", d)
	}
	if s := TimeCode(14).String(); s != "14 (67.108864ms)" {
		t.Error(s)
	}
}

func TestRNRTimer(t *testing.T) {
	last := time.Duration(0)
	for i := 1; i <= 32; i++ {
		r := RNRTimer(i % 32) // 0 is the longest
		d := r.Duration()
		if d <= last || d > 2*max(last, 5*time.Microsecond) {
			t.Errorf("%d is %v, after %v", r, d, last)
		}
		for x := last + 1; x <= d; x += max(d-last-1, 1) {
			got, ok := RNRTimerFromDuration(x)
			if want := x >= 10*time.Microsecond; ok != want || ok && got != r {
				t.Errorf("%v is timer %v, %v; want %v", x, got, ok, r)
			}
		}
		last = d
	}
	if last != 655360*time.Microsecond {
		t.Errorf("the longest is %v", last)
	}
	for _, d := range []time.Duration{0, -1, 12, last + 1, math.MaxInt64} {
		if got, ok := RNRTimerFromDuration(d); ok {
			t.Errorf("%v is timer %v", d, got)
		}
	}
	if a, b := RNRTimer(12).String(), RNRTimer(32).String(); a != "12 (640µs)" || b != "RNRTimer(32)" {
		t.Error(a, b)
	}
}

// Codes go through Connect as they are.
func TestFake_Timers(t *testing.T) {
	s := fakeSide(t, nil)
	for _, c := range []struct {
		opt ConnectOptions
		ack TimeCode
		rnr RNRTimer
	}{
		{ConnectOptions{}, 14, 12},
		{ConnectOptions{AckTimeout: None, RNRTimer: RNRTimer(0).Duration()}, 0, 0},
		{ConnectOptions{AckTimeout: TimeCode(31).Duration(), RNRTimer: RNRTimer(31).Duration()}, 31, 31},
		{ConnectOptions{AckTimeout: time.Second, RNRTimer: time.Millisecond}, 18, 14},
	} {
		qp := s.newQP(t, nil)
		local := must(qp.Endpoint(1, 1))(t)
		rtr, _, err := qp.conn.rtrAttr(&local, &local, &c.opt)
		ok(t, err)
		rts, _ := qp.conn.rtsAttr(&local, &local, &c.opt)
		if rts.Timeout != c.ack || rtr.MinRNRTimer != c.rnr {
			t.Errorf("%+v: %v, %v", c.opt, rts.Timeout, rtr.MinRNRTimer)
		}
		ok(t, qp.Connect(local, &c.opt))
	}
}
