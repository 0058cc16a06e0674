//go:build linux && amd64 && !race

package emu

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma"
)

// TestEmuQueuePairs has a server of package rdma whose adapter has no more queue pairs. The client learns why it is
// refused, the server counts it and logs one line, and the next client is accepted when a connection has ended.
func TestEmuQueuePairs(t *testing.T) {
	testutil.NeedEmu(t)
	const most, refused = 8, 3
	if !inside(t, "--strict", "--device", "mlx5_0", "--device", "mlx5_1", "--limit", "mlx5_0:max_qp=8") {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(old)
	var engines [2]*rdma.Engine
	for i, dev := range []string{"mlx5_0", "mlx5_1"} {
		e, err := rdma.NewEngine(dev, nil)
		ok(err)
		engines[i] = e
		defer func() { ok(e.Close()) }()
	}
	l, err := rdma.Listen(ctx, "10.88.0.1:0", &rdma.Options{Engine: engines[0]})
	ok(err)
	defer l.Close()
	o := &rdma.Options{Engine: engines[1], LocalAddr: netip.MustParseAddrPort("10.88.1.1:0")}
	dial := func() (*rdma.Conn, error) { return rdma.Dial(ctx, l.Addr().String(), o) }
	var list []*rdma.Conn
	closeAll := func() {
		for _, c := range list {
			ok(c.Close())
		}
	}
	defer func() { closeAll() }()
	for len(list) <= most { // the adapter has one or two of its own
		c, e := dial()
		if err = e; err != nil {
			break
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		t.Fatal(err)
	}
	for i := range refused {
		if i > 0 {
			_, err = dial()
		}
		var e *rdma.RejectError
		if !errors.As(err, &e) || e.Reason != rdma.RejectedQueuePairs || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%d connections, and one more: %v, want a *RejectError: %v", len(list), err,
				rdma.RejectedQueuePairs)
		}
	}
	if n := engines[0].Stats().Refused; n != refused {
		t.Errorf("Refused is %d, want %d", n, refused)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "cannot allocate") {
		t.Errorf("%d lines in the log, want one with the device's error:\n%s", lines, &log)
	}

	c, err := l.Accept(ctx)
	ok(err)
	ok(c.Close())
	ok(list[0].Close())
	testutil.Eventually(t, "the end of a connection", func() bool { return engines[0].Stats().Conns < len(list) })
	list[0], err = dial()
	ok(err)
}
