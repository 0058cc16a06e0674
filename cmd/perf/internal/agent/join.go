package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/tick"
	"github.com/pureverbs/pureverbs/internal/attempts"
)

// JoinEnv is the environment variable that holds where the coordinator listens.
const JoinEnv = "RDMAPERF_JOIN"

// ParseJoin reads addresses of a coordinator, such as 10.0.0.1:4711,[2001:db8::1]:4711. One without a port has the
// default.
func ParseJoin(text string, port int) (list []string, err error) {
	for a := range strings.SplitSeq(text, ",") {
		a = strings.TrimSpace(a)
		host, p, err := net.SplitHostPort(a)
		if err != nil {
			host, p = strings.Trim(a, "[]"), strconv.Itoa(port)
		}
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 || host == "" || strings.ContainsAny(host, " \t/") || host[0] == '-' {
			return nil, fmt.Errorf("address %.100q of the coordinator; write HOST:PORT", a)
		}
		list = append(list, net.JoinHostPort(host, p))
	}
	if len(list) > MostAddresses {
		return nil, fmt.Errorf("%d addresses of the coordinator; allowed: %d", len(list), MostAddresses)
	}
	return list, nil
}

// Join is an agent that dials. It tries the addresses of the coordinator for patience, and works until the coordinator
// ends the mesh, or ctx ends. A coordinator that was there and is gone is not waited for.
func Join(ctx context.Context, addrs []string, t Token, w *Worker, patience time.Duration) error {
	w.prepare()
	closed := patience // for how long nobody may listen where the coordinator is
	for end := time.Now().Add(patience); ; {
		f, at, err := reach(ctx, addrs, t, max(time.Until(end), 0), closed)
		if ctx.Err() != nil {
			err = nil
		}
		if err != nil || f == nil {
			return err
		}
		err = w.work(ctx, f)
		f.Close()
		if unmet := (*unmetError)(nil); !errors.As(err, &unmet) || ctx.Err() != nil || time.Now().After(end) {
			return err
		}
		addrs, closed = []string{at}, closes
		time.Sleep(100 * time.Millisecond) // the coordinator has too many strangers
	}
}

// closes is after how long a coordinator where nobody listens any more has ended.
const closes = time.Second

// Attend is Join over a connection that is there.
func Attend(ctx context.Context, c net.Conn, t Token, w *Worker) error {
	w.prepare()
	defer c.Close()
	c.SetDeadline(time.Now().Add(StepLimit))
	f, err := introduce(c, t)
	if err != nil {
		return err
	}
	return w.work(ctx, f)
}

// reach connects to the first address where the coordinator is, and returns which. Nobody may listen there for closed.
func reach(ctx context.Context, addrs []string, t Token, patience, closed time.Duration) (*frames, string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errLate)
	defer cancel()
	type met struct {
		f  *frames
		at string
	}
	m, err := attempts.Staggered(ctx, betweenAddresses, addrs, func(ctx context.Context, a string) (met, error) {
		f, err := try(ctx, a, t, closed)
		return met{f, a}, err
	}, func(late met) { late.f.Close() })
	return m.f, m.at, err
}

// betweenAddresses is the least delay that RFC 8305 allows: most of them lead nowhere.
const betweenAddresses = 100 * time.Millisecond

// try dials one address until the coordinator is there, or ctx ends, or nobody has listened there for closed.
func try(ctx context.Context, addr string, t Token, closed time.Duration) (*frames, error) {
	listened := time.Now()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		f, err := once(ctx, addr, t)
		if err == nil {
			return f, nil
		}
		if errors.Is(err, ErrToken) || errors.Is(err, ErrNoAgent) || errors.Is(err, ErrVersion) {
			return nil, fmt.Errorf("the coordinator at %s: %w", addr, err)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			listened = time.Now()
		} else if time.Since(listened) > closed {
			return nil, fmt.Errorf("the coordinator at %s has ended: %w", addr, err)
		}
		if !tick.Wait(ctx, wait) {
			return nil, fmt.Errorf("the coordinator at %s: %w", addr, err)
		}
	}
}

func once(ctx context.Context, addr string, t Token) (*frames, error) {
	d := net.Dialer{Timeout: StepLimit}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	c.SetDeadline(time.Now().Add(StepLimit))
	f, err := introduce(c, t)
	if err == nil && !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		stop()
		c.Close()
		return nil, err
	}
	c.SetDeadline(time.Time{})
	return f, nil
}
