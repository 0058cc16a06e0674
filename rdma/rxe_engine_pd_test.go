package rdma

import (
	"errors"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
)

// TestRXE_EnginePD has an engine share a PD with a program, which keeps it.
func TestRXE_EnginePD(t *testing.T) {
	r := testutil.NeedLogic(t)
	dev, err := ibv.Open(r.Dev[0])
	ok(t, err)
	defer func() { ok(t, dev.Close()) }()
	if attr, err := dev.QueryDevice(); err == nil && !link.HasSRQ(attr) {
		t.Skip("the device has no SRQ")
	}
	pd, err := dev.AllocPD()
	ok(t, err)
	defer func() { ok(t, pd.Close()) }()
	events := make(chan ibv.AsyncEvent, 100)
	var bad *ibv.ArgError
	if r.Dev[0] != r.Dev[1] {
		_, err := NewEngine(r.Dev[1], &EngineOptions{PD: pd})
		if !errors.As(err, &bad) || bad.Arg != "device" {
			t.Errorf("a PD of another device: %v", err)
		}
	}
	for _, name := range []string{r.Dev[0], ""} { // one after the other
		server, err := NewEngine(name, &EngineOptions{PD: pd, OnEvent: func(ev ibv.AsyncEvent) { events <- ev }})
		ok(t, err)
		if _, err := NewEngine("", &EngineOptions{PD: pd}); !errors.As(err, &bad) || bad.Arg != "PD" {
			t.Errorf("a second engine: %v", err)
		}
		if server.Device() != dev {
			t.Error("the engine has opened a device")
		}
		_, client := newEngines(t, nil)
		a, b := conns(t, server, client)
		echo(t, a, b)
		if b.l.Port.Conn.(interface{ QP() *ibv.QP }).QP().PD() != pd {
			t.Error("the connection is on another PD")
		}
		mr, err := pd.AllocMR(4096, ibv.LocalWrite, nil) // the program's own
		ok(t, err)
		cq, err := dev.CreateCQ(16, nil)
		ok(t, err)
		srq, err := pd.CreateSRQ(&ibv.SRQOptions{MaxWR: 16})
		ok(t, err)
		qp, err := pd.CreateQP(cq, cq, &ibv.QPOptions{Type: ibv.RC, SRQ: srq})
		ok(t, err)
		if r.Emulated { // SoftRoCE raises no such event
			ok(t, qp.Modify(&ibv.QPAttr{State: ibv.StateInit, Port: 1},
				ibv.MaskState|ibv.MaskPort|ibv.MaskPKeyIndex|ibv.MaskAccessFlags))
			ok(t, qp.Modify(&ibv.QPAttr{State: ibv.StateErr}, ibv.MaskState))
			for ev := range events {
				if ev.QP == qp && ev.Type == ibv.EventQPLastWQEReached {
					break
				}
			}
		}
		echo(t, a, b)
		ok(t, a.Close())
		ok(t, b.Close())
		untilNoConns(t, server)
		ok(t, server.Close())
		for _, c := range []interface{ Close() error }{qp, srq, cq, mr} {
			ok(t, c.Close())
		}
	}
}

// TestRXE_PipeEngine dials with the engine of a Pipe, which has no device.
func TestRXE_PipeEngine(t *testing.T) {
	r := testutil.NeedRXE(t)
	a, b, err := Pipe(nil)
	ok(t, err)
	var bad *ibv.ArgError
	if _, err := Dial(timeout(t), r.IP[0]+":1", &Options{Engine: a.Engine()}); !errors.As(err, &bad) ||
		bad.Arg != "Engine" {
		t.Errorf("%v, want an *ibv.ArgError for Engine", err)
	}
	ok(t, a.Close())
	ok(t, b.Close())
}
