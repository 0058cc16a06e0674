package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/tick"
	"github.com/pureverbs/pureverbs/internal/attempts"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
)

// Dial connects to a server. While no server listens it tries again for patience, so that both ends can be started
// together. If the tests of ctx have a secret, the first message has it.
func Dial(ctx context.Context, network, from, host string, port int, timeout, patience time.Duration) (*Conn, error) {
	c, err := DialTCP(ctx, network, from, host, port, timeout, patience,
		"no server is listening there, or a stock one is serving another client")
	if err != nil {
		return nil, err
	}
	w := NewConn(ctx, c, Client, timeout)
	if err := w.Prove(SecretOf(ctx)); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

const betweenTries = 50 * time.Millisecond

// Or is between the addresses of one server, as 10.0.0.1+10.1.0.1.
const Or = "+"

// DialTCP connects a socket, from an address of this machine if one is named. The host may have several addresses with
// Or between: they are tried as RFC 8305 does. It tries again for patience while nobody
// listens, the name is not known yet, or nothing leads there yet; nobody is the hint for the case that no server
// listens.
func DialTCP(ctx context.Context, network, from, host string, port int, timeout, patience time.Duration,
	nobody string) (net.Conn, error) {
	var addrs []string
	for h := range strings.SplitSeq(host, Or) {
		addrs = append(addrs, net.JoinHostPort(h, strconv.Itoa(port)))
	}
	addr := strings.Join(addrs, ", ")
	end := time.Now().Add(patience)
	for {
		d := net.Dialer{Timeout: timeout}
		if from != "" {
			d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
		}
		c, err := attempts.Staggered(ctx, attempts.Delay, addrs, func(ctx context.Context, a string) (net.Conn, error) {
			return d.DialContext(ctx, network, a)
		}, func(late net.Conn) { late.Close() })
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("connect to %s: %w", addr, context.Cause(ctx))
		}
		hint, again := "", false
		var dns *net.DNSError
		var timed net.Error
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			hint, again = "; "+nobody, true
		case errors.As(err, &dns):
			again = true
		case isUnreachable(err):
			again = true
			hint = fmt.Sprintf("; the host is down, no route leads to it, or a firewall refuses TCP port %d", port)
		case errors.As(err, &timed) && timed.Timeout():
			hint = fmt.Sprintf("; nothing answered for %v: the host is down, or a firewall drops TCP port %d", timeout,
				port)
		}
		if !again || time.Now().After(end) {
			return nil, &MeetError{fmt.Errorf("connect to %s: %w%s", addr, err, hint)}
		}
		tick.Wait(ctx, betweenTries)
	}
}

// LookUp returns the addresses of a host, of both families ("ip") or of one ("ip6"), and tries again for patience while
// the name is not known yet.
func LookUp(ctx context.Context, network, host string, patience time.Duration) ([]netip.Addr, error) {
	end := time.Now().Add(patience)
	for {
		ips, err := sockaddr.LookUp(ctx, network, host)
		if err == nil || ctx.Err() != nil || time.Now().After(end) {
			return ips, err
		}
		tick.Wait(ctx, betweenTries)
	}
}
