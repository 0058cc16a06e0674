package wire

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestKeepAliveSet: sockets have it, and the error that comes of it names the host.
func TestKeepAliveSet(t *testing.T) {
	w, _ := pair(t, Server, 10*time.Second)
	err := rawOf(w.c).Control(func(fd uintptr) {
		for opt, want := range map[int]int{unix.TCP_KEEPIDLE: 5, unix.TCP_KEEPINTVL: 1, unix.TCP_KEEPCNT: 5,
			unix.TCP_USER_TIMEOUT: 10000} {
			if got, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, opt); err != nil || got != want {
				t.Errorf("option %d is %d, %v; want %d", opt, got, err, want)
			}
		}
	})
	if err != nil {
		t.Error(err)
	}
	for _, err := range []error{w.explain(syscall.ETIMEDOUT, time.Second, 0, 0), w.leftEarly(syscall.ETIMEDOUT)} {
		if !errors.Is(err, ErrSilent) || !strings.Contains(err.Error(), "its host does not reply") {
			t.Errorf("%v", err)
		}
	}
}
