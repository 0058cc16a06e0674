package wire

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Ports is a range of TCP ports. The zero value is any port.
type Ports struct{ From, To int }

// ParsePorts reads a range such as 18600-18699.
func ParsePorts(text string) (Ports, error) {
	from, to, ok := strings.Cut(text, "-")
	a, err := strconv.ParseUint(from, 10, 16)
	b, err2 := strconv.ParseUint(to, 10, 16)
	if !ok || err != nil || err2 != nil || a < 1 || b < a {
		return Ports{}, fmt.Errorf("%.40q is not a range of ports such as 18600-18699", text)
	}
	return Ports{int(a), int(b)}, nil
}

// ListenAmong is Listen on a free one of some ports. Several programs may share them.
func ListenAmong(ctx context.Context, network, addr string, ports Ports, timeout time.Duration) (*Listener, error) {
	if ports == (Ports{}) {
		return Listen(ctx, network, addr, 0, timeout)
	}
	n := ports.To - ports.From + 1
	first := rand.IntN(n) // others are less likely to try the same
	for i := range n {
		l, err := Listen(ctx, network, addr, ports.From+(first+i)%n, timeout)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
	}
	return nil, &MeetError{fmt.Errorf("listen on TCP ports %d to %d: all %d are in use; give a larger range "+
		"(--test-ports)", ports.From, ports.To, n)}
}
