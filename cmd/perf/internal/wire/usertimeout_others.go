//go:build !linux

package wire

import (
	"net"
	"time"
)

func setUserTimeout(*net.TCPConn, time.Duration) {}
