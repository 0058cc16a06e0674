package rdmacm

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// must fails the test on an error.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// closing closes v at the end of the test and fails it if that fails.
func closing[T interface{ Close() error }](t testing.TB, v T) T {
	t.Helper()
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return v
}

// timeout bounds a test's waiting; it is no measure of speed.
func timeout(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Patience)
	t.Cleanup(cancel)
	return ctx
}

const wait = time.Minute

// local is an address of a device, with port 0: any.
func local(t testing.TB) netip.AddrPort {
	t.Helper()
	r := testutil.NeedRXE(t)
	return netip.AddrPortFrom(netip.MustParseAddr(r.IP[0]), 0)
}

// newChannel opens a channel until the end of the test.
func newChannel(t testing.TB) *EventChannel {
	t.Helper()
	testutil.NeedRXE(t)
	return closing(t, must(NewEventChannel())(t))
}

func newIDOn(t testing.TB, ch *EventChannel, ps PortSpace) *ID {
	t.Helper()
	return closing(t, must(ch.CreateID(ps))(t))
}

// beforeEvent, if not nil, is called before an event is waited for.
var beforeEvent func()

// event waits for an event of a type.
func event(t testing.TB, ch *EventChannel, want EventType) *Event {
	t.Helper()
	if beforeEvent != nil {
		beforeEvent()
	}
	for {
		ev := must(ch.Event(timeout(t)))(t)
		if ev.Type == want {
			return ev
		}
		if ev.Type == EventTimewaitExit && want != EventTimewaitExit {
			continue
		}
		t.Fatalf("event %v (%v), want %v", ev.Type, ev, want)
	}
}

// listener listens on any port of a device.
func listener(t testing.TB, ch *EventChannel, ps PortSpace, backlog int) (*ID, netip.AddrPort) {
	t.Helper()
	id := newIDOn(t, ch, ps)
	ok(t, id.Bind(local(t)))
	ok(t, id.Listen(backlog))
	return id, id.LocalAddr()
}

// resolved is an ID with a route to dst.
func resolved(t testing.TB, ch *EventChannel, ps PortSpace, dst netip.AddrPort) *ID {
	t.Helper()
	id := newIDOn(t, ch, ps)
	ok(t, id.ResolveAddr(netip.AddrPort{}, dst, wait))
	event(t, ch, EventAddrResolved)
	ok(t, id.ResolveRoute(wait))
	event(t, ch, EventRouteResolved)
	return id
}

// rig is a PD, a CQ and a QP for an ID.
type rig struct {
	pd *ibv.PD
	cq *ibv.CQ
	qp *ibv.QP
	mr *ibv.MR
}

// newRig makes what a connection needs; with own the QP is librdmacm's.
func newRig(t testing.TB, id *ID, own bool) *rig {
	t.Helper()
	dev := must(id.Verbs())(t)
	r := &rig{}
	r.pd = closing(t, must(dev.AllocPD())(t))
	r.cq = closing(t, must(dev.CreateCQ(64, nil))(t))
	r.mr = closing(t, must(r.pd.AllocMR(4096, ibv.LocalWrite|ibv.RemoteWrite|ibv.RemoteRead, nil))(t))
	opt := &ibv.QPOptions{}
	if id.PortSpace() == PortSpaceUDP {
		opt.Type = ibv.UD
	}
	if own && opt.Type != ibv.UD { // which has rdma_create_qp_ex create it
		opt.SendOps = ibv.SendOpSend | ibv.SendOpSendImm | ibv.SendOpWrite | ibv.SendOpRead
	}
	if own {
		r.qp = must(id.CreateQP(r.pd, r.cq, r.cq, opt))(t)
	} else {
		r.qp = must(r.pd.CreateQP(r.cq, r.cq, opt))(t)
		ok(t, id.InitQP(r.qp))
	}
	closing(t, r.qp)
	return r
}

func (r *rig) param(data string) *ConnParam {
	return &ConnParam{QPN: r.qp.Num(), PrivateData: []byte(data)}
}

// one waits for a completion, which must be a success.
func (r *rig) one(t testing.TB) ibv.WC {
	t.Helper()
	var wc [1]ibv.WC
	must(r.cq.Wait(timeout(t), wc[:]))(t)
	ok(t, wc[0].Err())
	return wc[0]
}

// pingpong sends a message each way.
func pingpong(t testing.TB, a, b *rig) {
	t.Helper()
	for _, d := range [][2]*rig{{a, b}, {b, a}} {
		from, to := d[0], d[1]
		copy(from.mr.Bytes(), "over the connection")
		must(to.qp.PostRecv([]ibv.RecvWR{{ID: 1, SGEs: []ibv.SGE{to.mr.SGE(1024, 64)}}}))(t)
		must(from.qp.PostSend([]ibv.SendWR{{ID: 2, Opcode: ibv.OpSend, Flags: ibv.Signaled,
			SGEs: []ibv.SGE{from.mr.SGE(0, 19)}}}))(t)
		from.one(t)
		to.one(t)
		if got := string(to.mr.Bytes()[1024:][:19]); got != "over the connection" {
			t.Fatalf("received %q", got)
		}
	}
}
