package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// soon runs f, which must not hang.
func soon(t testing.TB, what string, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-timeout(t).Done():
		// Here it would run what closes the objects, which hangs as well.
		go panic(what + " hangs")
		select {}
	}
}

// TestRXE_CM_CloseWithQP closes an ID, and its channel, with a QP of CreateQP open.
func TestRXE_CM_CloseWithQP(t *testing.T) {
	ch := newChannel(t)
	id := newIDOn(t, ch, PortSpaceTCP)
	ok(t, id.Bind(local(t)))
	r := newRig(t, id, true)
	var busy *ibv.BusyError
	for range 2 {
		err := soon(t, "ID.Close with a QP", id.Close)
		if !errors.As(err, &busy) || !strings.Contains(err.Error(), "1 qp") ||
			!strings.Contains(err.Error(), id.String()) {
			t.Errorf("close of %v with a QP: %v", id, err)
		}
	}
	if err := soon(t, "EventChannel.Close with an ID", ch.Close); !errors.As(err, &busy) {
		t.Errorf("close of a channel with an ID: %v", err)
	}
	// The ID is as it was.
	if _, err := id.Verbs(); err != nil {
		t.Errorf("the device after a refused close: %v", err)
	}
	ok(t, soon(t, "QP.Close", r.qp.Close))
	// The rest is closed at the end, the ID last: it keeps the device open.
}

// TestRXE_CM_QPDestroyFails destroys a QP of CreateQP in vain: it stays, and can be closed again.
func TestRXE_CM_QPDestroyFails(t *testing.T) {
	emu := needEmu(t)
	ch := newChannel(t)
	id := newIDOn(t, ch, PortSpaceTCP)
	ok(t, id.Bind(local(t)))
	r := newRig(t, id, true)
	emu(t, "fault", "add", "enomem:cmd=destroy_qp,count=1")
	defer emu(t, "fault", "clear")
	if err := r.qp.Close(); err == nil {
		t.Error("the failed destruction of a QP was not told")
	}
	if s := r.qp.State(); s != ibv.StateInit {
		t.Errorf("the QP that was not destroyed is in %v", s)
	}
	var busy *ibv.BusyError
	if err := soon(t, "ID.Close with a QP", id.Close); !errors.As(err, &busy) {
		t.Errorf("close of an ID with a QP: %v", err)
	}
	ok(t, r.qp.Close())
	// There is room for another.
	qp := must(id.CreateQP(r.pd, r.cq, r.cq, nil))(t)
	ok(t, qp.Close())
}

// needEmu controls the emulator below which the test runs.
func needEmu(t testing.TB) func(t testing.TB, request ...string) {
	t.Helper()
	if r := testutil.NeedRXE(t); !r.Emulated {
		t.Skip("injects faults: runs on the emulated device only (make test-emu)")
	}
	emu := testutil.NeedProgram(t, "emu")
	return func(t testing.TB, request ...string) {
		t.Helper()
		if out, err := exec.Command(emu, append([]string{"control"}, request...)...).CombinedOutput(); err != nil {
			t.Fatalf("emu control %v: %v: %s", request, err, out)
		}
	}
}

// TestRXE_CM_CloseAtOnce closes everything at once, as often as it takes, in a connection with receives posted, its CQ
// armed and somebody waiting.
func TestRXE_CM_CloseAtOnce(t *testing.T) {
	for _, own := range []bool{false, true} {
		t.Run(map[bool]string{false: "ours", true: "librdmacm's"}[own], func(t *testing.T) {
			for range 8 {
				ch := newChannel(t)
				_, addr := listener(t, ch, PortSpaceTCP, 4)
				id := resolved(t, ch, PortSpaceTCP, addr)
				a := newRig(t, id, own)
				must(a.qp.PostRecv([]ibv.RecvWR{{ID: 1, SGEs: []ibv.SGE{a.mr.SGE(0, 64)}}}))(t)
				ok(t, a.cq.Arm(false))
				ok(t, id.Connect(a.param("")))
				peer := closing(t, event(t, ch, EventConnectRequest).ID)
				b := newRig(t, peer, own)
				if !own {
					ok(t, peer.BringUp(b.qp, nil))
				}
				ok(t, peer.Accept(b.param("")))
				// From here on events race with the closing.
				var wg sync.WaitGroup
				ctx, stop := context.WithCancel(timeout(t))
				wg.Go(func() {
					for {
						if _, err := ch.Event(ctx); err != nil {
							return
						}
					}
				})
				wg.Go(func() {
					var wcs [4]ibv.WC
					for {
						if _, err := a.cq.Wait(ctx, wcs[:]); err != nil {
							return
						}
					}
				})
				var closers sync.WaitGroup
				for _, c := range []interface{ Close() error }{id, a.qp, a.cq, a.mr, a.pd, id, a.qp, a.cq} {
					closers.Go(func() {
						for {
							err := c.Close()
							var busy *ibv.BusyError
							if err == nil || !errors.As(err, &busy) {
								if err != nil {
									t.Errorf("close: %v", err)
								}
								return
							}
							time.Sleep(50 * time.Microsecond)
						}
					})
				}
				_ = soon(t, "closing all at once", func() error { closers.Wait(); return nil })
				stop()
				wg.Wait()
			}
		})
	}
}

// TestRXE_CM_ConnCloseAtOnce closes both ends and the listener several times at once, while others dial, accept and
// wait.
func TestRXE_CM_ConnCloseAtOnce(t *testing.T) {
	for range 8 {
		l := must(Listen(timeout(t), local(t).String(), nil))(t)
		a, b := pair(t, l, nil)
		var wg, others sync.WaitGroup
		for _, c := range []*Conn{a, b} {
			r := rigOf(t, c)
			c.OnClose(r.mr.Close)
			must(c.QP().PostRecv([]ibv.RecvWR{{ID: 1, SGEs: []ibv.SGE{r.mr.SGE(0, 64)}}}))(t)
			ok(t, c.CQ().Arm(false))
			others.Go(func() {
				var wcs [4]ibv.WC
				for {
					if _, err := c.CQ().Wait(timeout(t), wcs[:]); err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Errorf("wait: %v", err)
						}
						return
					}
				}
			})
			for range 2 {
				wg.Go(func() { ok(t, c.Close()) })
			}
		}
		others.Go(func() {
			for {
				c, err := l.Accept(timeout(t))
				if err != nil {
					if !errors.Is(err, ErrClosed) {
						t.Errorf("accept: %v", err)
					}
					return
				}
				ok(t, c.Close())
			}
		})
		for range 3 {
			others.Go(func() {
				if c, err := Dial(timeout(t), l.Addr().String(), nil); err == nil {
					ok(t, c.Close())
				}
			})
		}
		for range 2 {
			wg.Go(func() { ok(t, l.Close()) })
		}
		_ = soon(t, "closing connections and their listener", func() error { wg.Wait(); others.Wait(); return nil })
	}
}

// TestRXE_CM_CloseInPrepare closes from within what the connection runs.
func TestRXE_CM_CloseInPrepare(t *testing.T) {
	l := server(t, nil)
	_, err := Dial(timeout(t), l.Addr().String(), &Options{Prepare: func(c *Conn) error { return c.Close() }})
	if !errors.Is(err, ErrClosed) {
		t.Errorf("dial with a Prepare that closes: %v", err)
	}
	if _, err := l.Accept(brief(t, 20*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("accept: %v", err)
	}
}

// TestRXE_CM_OnCloseFails runs what failed in OnClose again with the next Close, and only that.
func TestRXE_CM_OnCloseFails(t *testing.T) {
	l := server(t, nil)
	a, _ := pair(t, l, nil)
	mr := must(a.PD().AllocMR(4096, ibv.LocalWrite, nil))(t)
	fails, runs := errors.New("not yet"), map[string]int{}
	a.OnClose(func() error { runs["mr"]++; return mr.Close() })
	a.OnClose(func() error {
		if runs["failing"]++; runs["failing"] == 1 {
			return fails
		}
		return nil
	})
	if err := a.Close(); !errors.Is(err, fails) {
		t.Errorf("close with a function that fails: %v", err)
	}
	ok(t, a.Close())
	if runs["mr"] != 1 || runs["failing"] != 2 {
		t.Errorf("the functions ran %v", runs)
	}
}

// TestRXE_CM_CloseFailsOnce lets the closing of each object fail once: what the caller has can be closed again, and
// what nobody has is closed all the same. TestMain looks for what is left.
func TestRXE_CM_CloseFailsOnce(t *testing.T) {
	for _, cmd := range []string{"cm_destroy_id", "destroy_qp", "destroy_cq"} {
		fault := "eio:cmd=" + cmd + ",count=1"
		twice := func(t *testing.T, what string, f func() error) {
			t.Helper()
			if err := f(); err == nil {
				t.Errorf("%s with %s reports nothing", what, fault)
			}
			ok(t, f())
		}
		t.Run(cmd, func(t *testing.T) {
			emu := needEmu(t)
			defer emu(t, "fault", "clear")
			l := must(Listen(timeout(t), local(t).String(), nil))(t)
			a, _ := pair(t, l, nil)
			emu(t, "fault", "add", fault)
			twice(t, "Conn.Close", a.Close)
			emu(t, "fault", "add", fault)
			no := errors.New("no")
			if _, err := Dial(timeout(t), l.Addr().String(), &Options{Prepare: func(*Conn) error {
				return no
			}}); !errors.Is(err, no) {
				t.Errorf("dial: %v", err)
			}
			if cmd == "cm_destroy_id" {
				emu(t, "fault", "add", fault)
				twice(t, "Listener.Close", l.Close)
			}
			ok(t, l.Close())
		})
	}
}

// TestRXE_CM_CloseWhileEventIsRead closes an ID while an event of it is read. Before it is known whose the event is, no
// other ID may get the address.
func TestRXE_CM_CloseWhileEventIsRead(t *testing.T) {
	ch := newChannel(t)
	_, addr := listener(t, ch, PortSpaceTCP, 4)
	id := newIDOn(t, ch, PortSpaceTCP)
	handle := id.handle
	ok(t, id.ResolveAddr(netip.AddrPort{}, addr, wait))
	closed := make(chan error, 1)
	read := func() error {
		return ch.lib.GetEvent(ch.file.handle, func(r *control.CMEvent) {
			if r.ID != handle {
				t.Errorf("an event of %#x, want one of %#x", r.ID, handle)
			}
			go func() { closed <- id.Close() }()
			testutil.Eventually(t, "the ID is not found any more", func() bool { return ids.find(handle) == nil })
			select {
			case err := <-closed:
				t.Errorf("the ID was closed meanwhile: %v", err)
				closed <- err
			case <-time.After(20 * time.Millisecond):
			}
		})
	}
	ok(t, ch.file.events.Read(timeout(t), read))
	ok(t, <-closed)
}
