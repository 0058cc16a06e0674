package rdma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
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
