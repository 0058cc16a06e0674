//go:build linux

package engine

import (
	"time"

	"golang.org/x/sys/unix"
)

var clockBase, clockStart = func() (uint64, time.Time) {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return uint64(t.Nano()), time.Now()
}()

// Clock is the device's clock, which completions are stamped with: nanoseconds of CLOCK_MONOTONIC. It is a vDSO call,
// cheaper than clock_gettime from Go.
func Clock() uint64 { return clockBase + uint64(time.Since(clockStart)) }

func nanos() int64 { return int64(time.Since(clockStart)) }

// turns is the time that the engine has the fabric's lock.
type turns struct {
	now, limit int64 // when the turn began, and when it ends
	yielding   bool  // others have the lock in the middle of a large message
	stop       bool
}
