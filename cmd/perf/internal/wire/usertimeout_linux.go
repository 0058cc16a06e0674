package wire

import (
	"math"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout bounds how long what was sent may be without an acknowledgement.
func setUserTimeout(c *net.TCPConn, limit time.Duration) {
	raw := rawOf(c)
	if raw == nil {
		return
	}
	ms := int(min(limit.Milliseconds(), math.MaxInt32))
	raw.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, ms) })
}
