package rdma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_Calls makes many calls at a time over one connection: some fail, some are given up, some take long.
func TestRXE_Calls(t *testing.T) {
	server, client := newEngines(t, nil)
	a, b := conns(t, server, client)
	defer b.Close()
	hold := make(chan struct{})
	served := make(chan error, 1)
	go func() {
		served <- Serve(timeout(t), b, func(ctx context.Context, m *Message) ([]byte, error) {
			s := string(m.Bytes())
			switch {
			case s == "hold":
				<-hold
				return []byte("held"), nil
			case s == "fail":
				return nil, errors.New("as asked")
			}
			n, err := strconv.Atoi(s)
			return bytes.Repeat([]byte{byte(n)}, n*37), err
		})
	}()
	r := NewCaller(a)
	var wg sync.WaitGroup
	for k := range 20 {
		wg.Go(func() {
			for i := range 50 {
				n := k*50 + i
				m, err := r.Call(timeout(t), []byte(fmt.Sprint(n)))
				if err != nil {
					t.Error(err)
					return
				}
				if !bytes.Equal(m.Bytes(), bytes.Repeat([]byte{byte(n)}, n*37)) {
					t.Errorf("call %d: %d bytes", n, m.Len())
				}
				m.Release()
			}
		})
	}
	held := make(chan error, 1)
	go func() {
		m, err := r.Call(timeout(t), []byte("hold"))
		if err == nil {
			m.Release()
		}
		held <- err
	}()
	ctx, cancel := context.WithCancel(timeout(t))
	cancel()
	if _, err := r.Call(ctx, []byte("hold")); err != context.Canceled {
		t.Errorf("a call that was given up: %v", err)
	}
	var failed *CallError
	if _, err := r.Call(timeout(t), []byte("fail")); !errors.As(err, &failed) || failed.Text != "as asked" {
		t.Errorf("a call that fails: %v", err)
	}
	wg.Wait()
	close(hold)
	ok(t, <-held)
	ok(t, r.Close())
	ok(t, <-served)
	if _, err := r.Call(timeout(t), []byte("1")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestRXE_CallTooLarge has a handler with more to say than the caller takes: the call fails, and does not wait.
func TestRXE_CallTooLarge(t *testing.T) {
	const most = 100
	server, client := newEngines(t, nil)
	r := testutil.NeedRXE(t)
	l, err := Listen(timeout(t), net.JoinHostPort(r.IP[0], "0"), &Options{Engine: server})
	ok(t, err)
	defer l.Close()
	o := from(r, client)
	o.MaxMessage = most
	a, err := Dial(timeout(t), l.Addr().String(), o)
	ok(t, err)
	b, err := l.Accept(timeout(t))
	ok(t, err)
	defer b.Close()
	served := make(chan error, 1)
	long := strings.Repeat("x", most+1)
	go func() {
		served <- Serve(timeout(t), b, func(_ context.Context, m *Message) ([]byte, error) {
			if m.Len() == 0 {
				return nil, errors.New(long)
			}
			return []byte(long), nil
		})
	}()
	c := NewCaller(a)
	for request, want := range map[string]string{"": long[:most], "request": ErrTooLarge.Error()} {
		var failed *CallError
		if _, err := c.Call(timeout(t), []byte(request)); !errors.As(err, &failed) ||
			!strings.Contains(failed.Text, want) {
			t.Errorf("%q: %v, want %q", request, err, want)
		}
	}
	ok(t, c.Close())
	ok(t, <-served)
}
