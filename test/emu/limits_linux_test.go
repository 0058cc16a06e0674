//go:build linux && amd64 && !race

package emu

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/mlx5dv"
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

// limited is a device with one limit, and what the rows of limitRows use.
type limited struct {
	dev  *ibv.Device
	pd   *ibv.PD
	cq   *ibv.CQ
	mem  *ibv.MR
	path ibv.DataPath
	undo []interface{ Close() error }
}

func openLimited(name string, path ibv.DataPath) (l *limited, err error) {
	l = &limited{path: path}
	if l.dev, err = ibv.Open(name); err != nil {
		return l, err
	}
	l.keep(l.dev)
	if l.pd, err = l.dev.AllocPD(); err != nil {
		return l, err
	}
	l.keep(l.pd)
	if l.cq, err = l.dev.CreateCQ(8, &ibv.CQOptions{DataPath: path, Spin: ibv.None}); err != nil {
		return l, err
	}
	l.keep(l.cq)
	if l.mem, err = l.pd.AllocMR(4096, ibv.LocalWrite|ibv.RemoteWrite|ibv.RemoteRead|ibv.RemoteAtomic, nil); err != nil {
		return l, err
	}
	l.keep(l.mem)
	return l, nil
}

func (l *limited) keep(o interface{ Close() error }) { l.undo = append(l.undo, o) }

func (l *limited) close() (err error) {
	for _, o := range slices.Backward(l.undo) {
		err = errors.Join(err, o.Close())
	}
	return err
}

// several makes n objects.
func several[T interface{ Close() error }](l *limited, n int, make func() (T, error)) error {
	for i := range n {
		o, err := make()
		if err != nil {
			return fmt.Errorf("number %d: %w", i+1, err)
		}
		l.keep(o)
	}
	return nil
}

// loop connects a queue pair to itself, posts a work request, and returns why it failed.
func (l *limited) loop(o ibv.QPOptions, c ibv.ConnectOptions, wr ibv.SendWR) error {
	qp, err := l.qp(o)()
	if err != nil {
		return err
	}
	l.keep(qp)
	self, err := qp.Endpoint(1, ibv.BestGID)
	if err == nil {
		err = qp.Connect(self, &c)
	}
	if err != nil {
		return err
	}
	wr.Flags |= ibv.Signaled
	wr.Remote = l.mem.Remote().At(0)
	if wr.Inline == nil && wr.SGEs == nil {
		wr.SGEs = []ibv.SGE{l.mem.SGE(0, 8)}
	}
	if _, err := qp.PostSend([]ibv.SendWR{wr}); err != nil {
		return err
	}
	var wc [1]ibv.WC
	for {
		if n, err := l.cq.Poll(wc[:]); n > 0 || err != nil {
			return errors.Join(err, wc[0].Err())
		}
	}
}

// limitRow has a small value of a limit, and something that is beyond. On another device it works; on one with the
// limit the error matches.
type limitRow struct {
	value  int
	beyond func(l *limited) error
	want   func(err error) bool
}

// limitRows has a row for each limit of the emulator.
var limitRows = map[string]limitRow{
	"max_qp": {3, func(l *limited) error { return several(l, 4, l.qp(ibv.QPOptions{})) }, usedUp("3 QPs")},
	"max_qp_wr": {64, func(l *limited) error { return several(l, 1, l.qp(ibv.QPOptions{MaxRecvWR: 65})) },
		names("max_recv_wr", 64)},
	"max_sge": {1, func(l *limited) error { return several(l, 1, l.qp(ibv.QPOptions{MaxRecvSGE: 2})) },
		names("max_recv_sge", 1)},
	"max_srq":     {1, func(l *limited) error { return l.srqs(2, 1, 1) }, usedUp("1 SRQs")},
	"max_srq_wr":  {15, func(l *limited) error { return l.srqs(1, 16, 1) }, names("max_wr", 15)},
	"max_srq_sge": {1, func(l *limited) error { return l.srqs(1, 1, 4) }, names("max_sge", 1)},
	"max_inline": {8, func(l *limited) error {
		return l.loop(ibv.QPOptions{MaxInline: 64}, ibv.ConnectOptions{},
			ibv.SendWR{Opcode: ibv.OpWrite, Inline: make([]byte, 9)})
	}, names("inline bytes", 8)},
	"max_cq":      {2, func(l *limited) error { return several(l, 2, l.cqOf(1)) }, usedUp("2 CQs")},
	"max_cqe":     {15, func(l *limited) error { return several(l, 1, l.cqOf(16)) }, names("cqe", 15)},
	"max_mr":      {2, func(l *limited) error { return several(l, 2, l.mr(4096)) }, usedUp("2 MRs")},
	"max_mr_size": {4096, func(l *limited) error { return several(l, 1, l.mr(8192)) }, names("length", 4096)},
	"max_mw": {1, func(l *limited) error {
		return several(l, 2, func() (*ibv.MW, error) { return l.pd.AllocMW(ibv.MWType2) })
	}, usedUp("1 memory windows")},
	"max_pd": {2, func(l *limited) error { return several(l, 2, l.dev.AllocPD) }, usedUp("2 PDs")},
	"max_ah": {1, func(l *limited) error {
		gid, err := l.dev.BestGID(1)
		if err != nil {
			return err
		}
		return several(l, 2, func() (*ibv.AH, error) {
			return l.pd.CreateAH(&ibv.AHAttr{Port: 1, Global: true, DGID: gid.GID, SGIDIndex: uint8(gid.Index)})
		})
	}, usedUp("1 AHs")},
	"max_xrcd": {1, func(l *limited) error {
		return several(l, 2, func() (*ibv.XRCD, error) { return l.dev.OpenXRCD(nil, 0) })
	}, is(syscall.ENOMEM)},
	"max_rd_atom": {1, func(l *limited) error {
		return l.loop(ibv.QPOptions{}, ibv.ConnectOptions{MaxRdAtomic: 2}, ibv.SendWR{Opcode: ibv.OpRead})
	}, names("MaxRdAtomic", 1)},
	"max_atomic": {0, func(l *limited) error {
		return l.loop(ibv.QPOptions{}, ibv.ConnectOptions{}, ibv.SendWR{Opcode: ibv.OpFetchAdd})
	}, lacks("atomics")},
	"max_mcast": {1, func(l *limited) error {
		qp, err := l.qp(ibv.QPOptions{Type: ibv.UD})()
		if err != nil {
			return err
		}
		l.keep(qp)
		for i := range byte(2) {
			group := ibv.GID{0xff, 0x0e, 15: i}
			if err := qp.AttachMcast(group, 0); err != nil {
				return err
			}
			defer func() { _ = qp.DetachMcast(group, 0) }()
		}
		return nil
	}, usedUp("1 multicast groups")},
	"max_msg_size": {2048, func(l *limited) error {
		return l.loop(ibv.QPOptions{}, ibv.ConnectOptions{},
			ibv.SendWR{Opcode: ibv.OpWrite, SGEs: []ibv.SGE{l.mem.SGE(0, 4096)}})
	}, failsWith(ibv.WCLocLenErr)},
	"max_uar": {3, func(l *limited) error {
		return several(l, 40, func() (*mlx5dv.UAR, error) { return mlx5dv.AllocUAR(l.dev, mlx5dv.UARBlueFlame) })
	}, is(syscall.ENOSPC)},
	"max_dm_size": {4096, func(l *limited) error {
		return several(l, 1, func() (*ibv.DM, error) { return l.dev.AllocDM(8192, nil) })
	}, names("max_dm_size", 4096)},
}

func (l *limited) qp(o ibv.QPOptions) func() (*ibv.QP, error) {
	o.MaxSendWR, o.MaxRecvWR = cmp.Or(o.MaxSendWR, 1), cmp.Or(o.MaxRecvWR, 1)
	return func() (*ibv.QP, error) { return l.pd.CreateQP(l.cq, l.cq, &o) }
}

func (l *limited) cqOf(cqe int) func() (*ibv.CQ, error) {
	return func() (*ibv.CQ, error) { return l.dev.CreateCQ(cqe, &ibv.CQOptions{DataPath: l.path}) }
}

func (l *limited) mr(n int) func() (*ibv.MR, error) {
	return func() (*ibv.MR, error) { return l.pd.AllocMR(n, ibv.LocalWrite, nil) }
}

func (l *limited) srqs(n, wr, sge int) error {
	return several(l, n, func() (*ibv.SRQ, error) {
		return l.pd.CreateSRQ(&ibv.SRQOptions{MaxWR: wr, MaxSGE: sge, DataPath: l.path})
	})
}

func is(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }

// usedUp reports whether an error is ENOMEM, and says how many of what there are.
func usedUp(what string) func(error) bool {
	return func(err error) bool {
		return errors.Is(err, syscall.ENOMEM) && strings.Contains(err.Error(), "together use the "+what+" of ")
	}
}

// names reports whether an error is a limit of that value.
func names(what string, value uint64) func(error) bool {
	return func(err error) bool {
		var l *ibv.LimitError
		return errors.As(err, &l) && l.Limit == value && strings.Contains(l.What, what)
	}
}

// lacks reports whether an error names what the device does not have.
func lacks(what string) func(error) bool {
	return func(err error) bool {
		var u *ibv.UnsupportedError
		return errors.As(err, &u) && strings.Contains(u.Error(), what)
	}
}

// failsWith reports whether an error is that of a completion.
func failsWith(want ibv.WCStatus) func(error) bool {
	return func(err error) bool {
		var wc *ibv.WCError
		return errors.As(err, &wc) && wc.Status == want
	}
}

// TestEmuLimits: each limit that the emulator accepts has an effect. The list is the emulator's own.
func TestEmuLimits(t *testing.T) {
	testutil.NeedEmu(t)
	limits := emuLimits(t)
	flags := []string{"--strict", "--device", "plain"}
	for _, name := range limits {
		row, ok := limitRows[name]
		if !ok {
			t.Errorf("limitRows lacks %s", name)
		}
		flags = append(flags, "--device", fmt.Sprintf("%s,%s=%d", name, name, row.value))
	}
	if len(limits) != len(limitRows) {
		t.Errorf("limitRows has %d rows, the emulator %d limits", len(limitRows), len(limits))
	}
	if !inside(t, flags...) {
		return
	}
	for _, path := range []ibv.DataPath{ibv.DataPathDirect, ibv.DataPathOps} {
		for _, name := range limits {
			for _, dev := range []string{"plain", name} {
				t.Run(fmt.Sprintf("%v %s on %s", path, name, dev), func(t *testing.T) {
					l, err := openLimited(dev, path)
					if err != nil {
						t.Fatal(err)
					}
					switch err = limitRows[name].beyond(l); {
					case dev == "plain" && err != nil:
						t.Errorf("without the limit: %v", err)
					case dev == name && !limitRows[name].want(err):
						t.Errorf("with the limit: %v (%T)", err, err)
					}
					if err := l.close(); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}
