package ibv

import (
	"fmt"
	"math"
	"time"
)

// TimeCode is a time as InfiniBand encodes it in 5 or 6 bits: 4.096 µs·2^n. As the ACK timeout
// of a QP, 0 means no timeout; elsewhere it means 4.096 µs.
type TimeCode uint8

const (
	timeUnit    = 4096 * time.Nanosecond
	maxTimeCode = 31
)

// Duration returns the time that t encodes.
func (t TimeCode) Duration() time.Duration {
	if t > 50 {
		return math.MaxInt64
	}
	return timeUnit << t
}

// String returns the code and the time, as in "14 (67.108864ms)".
func (t TimeCode) String() string { return fmt.Sprintf("%d (%v)", uint8(t), t.Duration()) }

// TimeCodeFromDuration returns the shortest 5-bit time that is not below d. ok is false if d is
// below 4.096 µs, or above 2^31 times that, about 2.4 hours.
func TimeCodeFromDuration(d time.Duration) (t TimeCode, ok bool) {
	if d < timeUnit || d > TimeCode(maxTimeCode).Duration() {
		return 0, false
	}
	for t.Duration() < d {
		t++
	}
	return t, true
}

// RNRTimer is how long a peer waits before it retries a send for which there was no receive. It
// is an index into 32 times, from 0.01 ms for 1 to 491.52 ms for 31; 0 means 655.36 ms.
type RNRTimer uint8

// rnrTimes are the times, in units of 10 µs.
var rnrTimes = [32]uint32{
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// Duration returns the time that r encodes, 0 if there is no such timer.
func (r RNRTimer) Duration() time.Duration {
	if int(r) >= len(rnrTimes) {
		return 0
	}
	return time.Duration(rnrTimes[r]) * 10 * time.Microsecond
}

// String returns the number and the time, as in "12 (640µs)".
func (r RNRTimer) String() string {
	if int(r) >= len(rnrTimes) {
		return fmt.Sprintf("RNRTimer(%d)", uint8(r))
	}
	return fmt.Sprintf("%d (%v)", uint8(r), r.Duration())
}

// RNRTimerFromDuration returns the shortest timer that is not below d. ok is false if d is
// below 0.01 ms or above 655.36 ms.
func RNRTimerFromDuration(d time.Duration) (r RNRTimer, ok bool) {
	if d < RNRTimer(1).Duration() || d > RNRTimer(0).Duration() {
		return 0, false
	}
	for r = 1; int(r) < len(rnrTimes); r++ {
		if r.Duration() >= d {
			return r, true
		}
	}
	return 0, true
}

// ackTimeout returns the code for an option; 0 stands for def.
func ackTimeout(d time.Duration, def TimeCode) (TimeCode, error) {
	switch d {
	case 0:
		return def, nil
	case None:
		return 0, nil
	}
	if t, ok := TimeCodeFromDuration(d); ok {
		return t, nil
	}
	want := fmt.Sprintf("%v to %v, 0 for the default or None", timeUnit, TimeCode(maxTimeCode).Duration())
	return 0, &ArgError{Arg: "AckTimeout", Got: d.String(), Want: want}
}

// rnrTimer returns the timer for an option; 0 stands for def.
func rnrTimer(d time.Duration, def RNRTimer) (RNRTimer, error) {
	if d == 0 {
		return def, nil
	}
	if r, ok := RNRTimerFromDuration(d); ok {
		return r, nil
	}
	want := fmt.Sprintf("%v to %v, or 0 for the default", RNRTimer(1).Duration(), RNRTimer(0).Duration())
	return 0, &ArgError{Arg: "RNRTimer", Got: d.String(), Want: want}
}
