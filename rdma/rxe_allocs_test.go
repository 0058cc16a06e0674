package rdma

import (
	"context"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_Allocs sends and receives without allocating. The poller's goroutine is counted, too.
func TestRXE_Allocs(t *testing.T) {
	testutil.NeedLogic(t)
	server, client := newEngines(t, nil)
	ctx := context.Background()
	none := func(what string, f func()) {
		t.Helper()
		for range 100 { // pools and windows grow
			f()
		}
		if n := testing.AllocsPerRun(200, f); n != 0 {
			t.Errorf("%s: %v allocations, want none", what, n)
		}
	}
	a, b := conns(t, server, client)
	defer a.Close()
	defer b.Close()
	for _, n := range []int{8, 20_000} {
		p := make([]byte, n)
		none("Send and Recv", func() {
			for _, way := range [][2]*Conn{{a, b}, {b, a}} {
				ok(t, way[0].Send(ctx, p))
				m, err := way[1].Recv(ctx)
				ok(t, err)
				m.Release()
			}
		})
	}
	batch, small := a.Batch(), make([]byte, 8)
	for _, n := range []int{8, 20_000, 50_000} {
		none("SendBuffer and a Batch", func() {
			for range 2 {
				buf, err := client.Pool().Get(n)
				ok(t, err)
				ok(t, a.SendBuffer(ctx, buf))
			}
			if buf, err := client.Pool().Get(n); err == nil {
				batch.SendBuffer(buf)
			}
			batch.SendImm(1, small)
			if _, err := batch.Post(ctx); err != nil {
				t.Fatal(err)
			}
			for range 4 {
				m, err := b.Recv(ctx)
				ok(t, err)
				m.Release()
			}
		})
	}
	none("messages that share a frame", func() {
		for range 20 {
			batch.Send(small)
		}
		if _, err := batch.Post(ctx); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			m, err := b.Recv(ctx)
			ok(t, err)
			m.Release()
		}
	})
	s, r := streams(t, server, client)
	defer s.Close()
	defer r.Close()
	for _, n := range []int{8, 20_000} {
		p := make([]byte, n)
		none("Write and Read", func() {
			for _, way := range [][2]*Stream{{s, r}, {r, s}} {
				if _, err := way[0].Write(p); err != nil {
					t.Fatal(err)
				}
				for got := 0; got < n; {
					c, err := way[1].Read(p)
					ok(t, err)
					got += c
				}
			}
		})
	}
}

// TestRXE_LeaseAllocs reads and writes memory of the peer without allocating.
func TestRXE_LeaseAllocs(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, nil)
	a, b := leaseConns(t, server, client, &LeaseOptions{}, &LeaseOptions{})
	defer a.Close()
	defer b.Close()
	ctx := context.Background()
	local := buffer(t, server, 8192)
	_, r := lend(t, a, b, buffer(t, client, 8192), everything(client), 0)
	calls := map[string]func() error{
		"Read":  func() error { return r.Read(ctx, local, 0) },
		"Write": func() error { return r.Write(ctx, local, 0) },
	}
	if hasAtomics(server) {
		calls["FetchAdd"] = func() error { _, err := r.FetchAdd(ctx, 0, 1); return err }
	}
	for name, f := range calls {
		for range 100 {
			ok(t, f())
		}
		if n := testing.AllocsPerRun(200, func() { ok(t, f()) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
}
