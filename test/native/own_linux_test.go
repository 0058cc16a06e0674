//go:build linux && amd64 && !race

package native

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/mlx5dv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// memfd returns memory that the emulator takes for a dma-buf.
func memfd(n int64) (*os.File, error) {
	fd, err := unix.MemfdCreate("native", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), "memfd"), unix.Ftruncate(fd, n)
}

// own uses what mlx5 alone has.
func (w *work) own() {
	d := w.dev
	get(w, "mlx5 device", func() (*mlx5dv.DeviceAttr, error) { return mlx5dv.QueryDevice(d) })
	get(w, "clock", func() (mlx5dv.Clock, error) { return mlx5dv.ReadClock(d) })
	w.connected()
	w.commands()
	w.rules()
}

// connected makes both kinds of QPs of DC.
func (w *work) connected() {
	srq, ok := create(w, "srq of a dct", func() (*ibv.SRQ, error) { return w.pd.CreateSRQ(&ibv.SRQOptions{MaxWR: 16}) })
	if !ok {
		return
	}
	cq, ok := create(w, "cq of a dct", func() (*ibv.CQ, error) {
		return w.dev.CreateCQ(16, &ibv.CQOptions{NoEvents: true})
	})
	if !ok {
		return
	}
	for name, call := range w.kinds(srq, cq) {
		qp, ok := create(w, name, call)
		if !ok {
			continue
		}
		if _, ok := get(w, "endpoint", func() (ibv.Endpoint, error) { return qp.Endpoint(1, w.gid) }); ok {
			w.try("connect", func() error { return qp.Connect(ibv.Endpoint{}, nil) })
		}
	}
}

func (w *work) kinds(srq *ibv.SRQ, cq *ibv.CQ) func(func(string, func() (*ibv.QP, error)) bool) {
	return func(yield func(string, func() (*ibv.QP, error)) bool) {
		_ = yield("dct", func() (*ibv.QP, error) {
			return mlx5dv.CreateQP(w.pd, nil, cq, &mlx5dv.QPOptions{QPOptions: ibv.QPOptions{Type: ibv.DCT, SRQ: srq},
				DC: &mlx5dv.DCOptions{AccessKey: 7}})
		}) && yield("dci", func() (*ibv.QP, error) {
			return mlx5dv.CreateQP(w.pd, w.cq, nil, &mlx5dv.QPOptions{QPOptions: ibv.QPOptions{Type: ibv.DCI}})
		})
	}
}

// Commands of the device, as DevX sends them.
const (
	opNop          = 0x80d
	opAllocCounter = 0x939
	opQueryCounter = 0x93b
)

func command(op uint16, n int) []byte {
	b := make([]byte, n)
	binary.BigEndian.PutUint16(b, op)
	return b
}

func (w *work) commands() {
	d, out := w.dev, make([]byte, 32)
	w.try("devx command", func() error { return mlx5dv.DevXCommand(d, command(opNop, 16), out) })
	get(w, "event queue", func() (uint32, error) { return mlx5dv.QueryEQN(d, 0) })
	create(w, "umem", func() (*mlx5dv.Umem, error) { return mlx5dv.RegUmem(d, w.mr.Bytes()[:4096], nil) })
	create(w, "uar", func() (*mlx5dv.UAR, error) { return mlx5dv.AllocUAR(d, mlx5dv.UARBlueFlame) })
	create(w, "var", func() (*mlx5dv.VAR, error) { return mlx5dv.AllocVAR(d) })
	create(w, "pacing", func() (*mlx5dv.PacketPacing, error) {
		return mlx5dv.AllocPacketPacing(d, []byte{0, 0, 0, 100}, 0)
	})
	o, ok := create(w, "devx object", func() (*mlx5dv.DevXObject, error) {
		return mlx5dv.CreateDevXObject(d, command(opAllocCounter, 16), out[:16])
	})
	if !ok {
		return
	}
	in := command(opQueryCounter, 32)
	copy(in[28:], out[8:12])
	w.try("devx query", func() error { return o.Query(in, out) })
	w.try("devx modify", func() error {
		var refused *mlx5dv.CommandError // a counter cannot be modified
		if err := o.Modify(command(opNop, 16), out); !errors.As(err, &refused) {
			return fmt.Errorf("%w: %w", errWrong, err)
		}
		return nil
	})
	q, ok := create(w, "devx queries", func() (*mlx5dv.DevXQueries, error) { return mlx5dv.CreateDevXQueries(d) })
	if ok && w.try("devx start", func() error { return q.Start(o, 1, in, 32) }) {
		w.try("devx read", func() error {
			return w.await(func(ctx context.Context) error { _, err := q.Read(ctx); return err })
		})
	}
}

// rules steers frames, and changes them.
func (w *work) rules() {
	d := w.dev
	create(w, "anchor", func() (*mlx5dv.SteeringAnchor, error) {
		return mlx5dv.CreateSteeringAnchor(d, mlx5dv.TableNICRx, 0)
	})
	create(w, "reformat", func() (*ibv.FlowAction, error) {
		return mlx5dv.CreateReformatAction(d, mlx5dv.TableNICRx, mlx5dv.ReformatL2FromTunnel, nil)
	})
	create(w, "header", func() (*ibv.FlowAction, error) {
		return mlx5dv.CreateHeaderAction(d, mlx5dv.TableNICRx, mlx5dv.SetHeader(mlx5dv.FieldTTL, 1))
	})
	if m, ok := create(w, "matcher", func() (*mlx5dv.FlowMatcher, error) {
		return mlx5dv.CreateFlowMatcher(d, nil)
	}); ok && root() {
		create(w, "rule", func() (*mlx5dv.Flow, error) { return m.CreateFlow(nil, mlx5dv.FlowDrop{}) })
	}
}

var (
	group = netip.MustParseAddr("239.1.2.3")
	local = netip.MustParseAddrPort("10.88.0.1:0")
)

// event waits for an event of a type.
func (w *work) event(ch *rdmacm.EventChannel, want rdmacm.EventType) (ev *rdmacm.Event, ok bool) {
	ok = w.try("event "+want.String(), func() error {
		return w.await(func(ctx context.Context) (err error) {
			for {
				if ev, err = ch.Event(ctx); err != nil || ev.Type == want {
					return err
				}
				if ev.Type == rdmacm.EventConnectRequest {
					w.left = append(w.left, left{"request", ev.ID.Close})
				}
				if ev.Type != rdmacm.EventTimewaitExit {
					return fmt.Errorf("%w: event %v, want %v", errWrong, ev, want)
				}
			}
		})
	})
	return ev, ok
}

// connections connects two IDs, joins a group and does the rest of rdma_cm.
func (w *work) connections() {
	ch, ok := create(w, "event channel", rdmacm.NewEventChannel)
	if !ok {
		return
	}
	w.streams(ch)
	if other, ok := create(w, "event channel", rdmacm.NewEventChannel); ok {
		w.refusal(ch, other)
	}
	w.groups(ch)
}

// resolved returns a listener, and an ID with a route to it.
func (w *work) resolved(ch *rdmacm.EventChannel, ps rdmacm.PortSpace) (id *rdmacm.ID, ok bool) {
	newID := func() (*rdmacm.ID, error) { return ch.CreateID(ps) }
	l, ok := create(w, "listener", newID)
	if !ok || !w.try("reuse", func() error { return l.SetReuseAddr(true) }) ||
		!w.try("bind", func() error { return l.Bind(local) }) ||
		!w.try("listen", func() error { return l.Listen(4) }) {
		return nil, false
	}
	if id, ok = create(w, "id", newID); !ok || !w.try("resolve address", func() error {
		return id.ResolveAddr(netip.AddrPort{}, l.LocalAddr(), time.Minute)
	}) {
		return nil, false
	}
	if _, ok = w.event(ch, rdmacm.EventAddrResolved); !ok ||
		!w.try("resolve route", func() error { return id.ResolveRoute(time.Minute) }) {
		return nil, false
	}
	_, ok = w.event(ch, rdmacm.EventRouteResolved)
	return id, ok
}

// end makes the QP of an ID, and returns the parameters of its connection.
func (w *work) pair(id *rdmacm.ID) (*rdmacm.ConnParam, *ibv.QP, bool) {
	d, ok := get(w, "device of the id", id.Verbs)
	if !ok {
		return nil, nil, false
	}
	pd, ok := create(w, "pd of the id", d.AllocPD)
	if !ok {
		return nil, nil, false
	}
	cq, ok := create(w, "cq of the id", func() (*ibv.CQ, error) {
		return d.CreateCQ(16, &ibv.CQOptions{NoEvents: true})
	})
	if !ok {
		return nil, nil, false
	}
	opt := &ibv.QPOptions{MaxSendWR: 8, MaxRecvWR: 8}
	if id.PortSpace() == rdmacm.PortSpaceUDP {
		opt.Type = ibv.UD
	}
	qp, ok := create(w, "qp of the id", func() (*ibv.QP, error) { return pd.CreateQP(cq, cq, opt) })
	if !ok || !w.try("init qp", func() error { return id.InitQP(qp) }) {
		return nil, nil, false
	}
	return &rdmacm.ConnParam{QPN: qp.Num(), PrivateData: []byte("hello")}, qp, true
}

func (w *work) streams(ch *rdmacm.EventChannel) {
	id, ok := w.resolved(ch, rdmacm.PortSpaceTCP)
	if !ok {
		return
	}
	a, aQP, ok := w.pair(id)
	if !ok || !w.try("cm connect", func() error { return id.Connect(a) }) {
		return
	}
	req, ok := w.event(ch, rdmacm.EventConnectRequest)
	if !ok {
		return
	}
	peer := req.ID
	w.left = append(w.left, left{"request", peer.Close})
	b, bQP, ok := w.pair(peer)
	if !ok || !w.try("bring up", func() error { return peer.BringUp(bQP, nil) }) ||
		!w.try("cm accept", func() error { return peer.Accept(b) }) {
		return
	}
	if _, ok = w.event(ch, rdmacm.EventConnectResponse); !ok ||
		!w.try("bring up", func() error { return id.BringUp(aQP, nil) }) ||
		!w.try("establish", id.Establish) {
		return
	}
	if _, ok := w.event(ch, rdmacm.EventEstablished); !ok {
		return
	}
	w.try("notify", func() error {
		if err := peer.Notify(ibv.EventCommEst); !errors.Is(err, unix.EISCONN) {
			return err
		}
		return nil
	})
	w.try("disconnect", id.Disconnect)
	w.event(ch, rdmacm.EventDisconnected)
}

// refusal rejects a request, on an ID that has moved to another channel.
func (w *work) refusal(ch, other *rdmacm.EventChannel) {
	id, ok := w.resolved(ch, rdmacm.PortSpaceTCP)
	if !ok {
		return
	}
	if !w.try("migrate", func() error { return id.Migrate(other) }) {
		return
	}
	if err := id.WriteEvent(1, 2); !errors.Is(err, ibv.ErrNotSupported) { // as of librdmacm before v60
		if w.try("raise", func() error { return err }) {
			w.event(other, rdmacm.EventUser)
		}
	}
	p, _, ok := w.pair(id)
	if !ok || !w.try("cm connect", func() error { return id.Connect(p) }) {
		return
	}
	if req, ok := w.event(ch, rdmacm.EventConnectRequest); ok {
		w.left = append(w.left, left{"request", req.ID.Close})
		w.try("reject", func() error { return req.ID.Reject([]byte("no")) })
		w.event(other, rdmacm.EventRejected)
	}
}

func (w *work) groups(ch *rdmacm.EventChannel) {
	id, ok := create(w, "id of a group", func() (*rdmacm.ID, error) { return ch.CreateID(rdmacm.PortSpaceUDP) })
	if !ok || !w.try("bind", func() error { return id.Bind(local) }) {
		return
	}
	_, qp, ok := w.pair(id)
	if !ok || !w.try("bring up", func() error { return id.BringUp(qp, nil) }) ||
		!w.try("join", func() error { return id.JoinMulticast(group, rdmacm.JoinFullMember) }) {
		return
	}
	w.event(ch, rdmacm.EventMulticastJoin)
	w.try("leave", func() error { return id.LeaveMulticast(group) })
}
