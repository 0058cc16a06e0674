//go:build linux

package rules

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/internal/testutil/emulated"
	"github.com/pureverbs/pureverbs/rdma"
	"github.com/pureverbs/pureverbs/rdmacm"
	"github.com/pureverbs/pureverbs/rdmacm/rsocket"
)

func TestMain(m *testing.M) { emulated.Main(m) }

// call is something that can break a rule. Its name begins with its package.
type call struct {
	name string
	do   func(h *host) error
}

// slow are calls that take minutes with Linux: there only a full run has them.
var slow = map[string]bool{"rsocket.Socket.Connect": true}

// rule is what calls of several packages have in common.
type rule struct {
	name  string
	roce  bool                   // needs RoCE
	check func(err error) string // what is wrong with the result of a call; "" for nothing
	calls []call
}

// has checks an error: it matches each target and has each word.
func has(words []string, targets ...error) func(error) string {
	return func(err error) string {
		if err == nil {
			return "no error"
		}
		for _, t := range targets {
			if !errors.Is(err, t) {
				return fmt.Sprintf("not %v", t)
			}
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				return fmt.Sprintf("nothing of %q", w)
			}
		}
		return ""
	}
}

func words(w ...string) []string { return w }

// typed checks that an error has the type E, and the words.
func typed[E error](w ...string) func(error) string {
	return func(err error) string {
		var e E
		if !errors.As(err, &e) {
			return fmt.Sprintf("no %T", e)
		}
		return has(w)(err)
	}
}

const noZone = "[fe80::1]:7471"

// soon is for what ends in a timeout: Linux looks for a neighbour without a zone on any interface.
const soon = 500 * time.Millisecond

var rules = []rule{
	{"a peer that answers fewer reads is named", false, typed[*ibv.LimitError]("the peer's"), []call{
		{"ibv.QP.Connect", func(h *host) error {
			a, b := h.pair(ibv.RC)
			b.at.MaxDestRdAtomic = 4
			return a.qp.Connect(b.at, &ibv.ConnectOptions{MaxRdAtomic: 5})
		}},
		{"rdmacm.Request.Accept", func(h *host) error {
			return h.request(&rdmacm.Options{ResponderResources: 1}, func(r *rdmacm.Request) error {
				_, err := r.Accept(h.ctx, &rdmacm.Options{InitiatorDepth: 2})
				return err
			})
		}},
		{"rdmacm.ID.BringUp", func(h *host) error {
			return h.request(&rdmacm.Options{ResponderResources: 1}, func(r *rdmacm.Request) error {
				return r.ID().BringUp(h.qpOf(r), &rdmacm.ConnParam{InitiatorDepth: 2})
			})
		}},
		{"rdmacm.ID.Accept", func(h *host) error {
			return h.request(&rdmacm.Options{ResponderResources: 1}, func(r *rdmacm.Request) error {
				return r.ID().Accept(&rdmacm.ConnParam{InitiatorDepth: 2, QPN: 5})
			})
		}},
	}},
	{"a peer without a queue pair is refused", false, has(words("0"), syscall.EINVAL), []call{
		{"ibv.QP.Connect", func(h *host) error {
			a, b := h.pair(ibv.RC)
			b.at.QPN = 0
			return a.qp.Connect(b.at, nil)
		}},
		{"rdmacm.ID.Connect", func(h *host) error { return h.routed().Connect(&rdmacm.ConnParam{}) }},
		{"rdmacm.ID.Accept", func(h *host) error {
			return h.request(nil, func(r *rdmacm.Request) error { return r.ID().Accept(&rdmacm.ConnParam{}) })
		}},
	}},
	{"numbers of queue pairs have 24 bits", false, has(words("24"), syscall.EINVAL), []call{
		{"ibv.QP.Connect", func(h *host) error {
			a, b := h.pair(ibv.RC)
			b.at.QPN = 1 << 24
			return a.qp.Connect(b.at, nil)
		}},
		{"rdmacm.ID.Connect", func(h *host) error { return h.routed().Connect(&rdmacm.ConnParam{QPN: 1 << 24}) }},
	}},
	{"counts of retries have 3 bits", false, has(words("8", "7"), syscall.EINVAL), counts(8)},
	{"negative counts are None alone", false, has(words("-2"), syscall.EINVAL), counts(-2)},
	{"the time for an acknowledgement is in range", false, typed[*ibv.ArgError]("AckTimeout", "14ns"), []call{
		{"ibv.QP.Connect", func(h *host) error {
			a, b := h.pair(ibv.RC)
			return a.qp.Connect(b.at, &ibv.ConnectOptions{AckTimeout: 14})
		}},
		{"rdmacm.Dial", func(h *host) error { return h.dialCM(h.rxe.IP[1]+":9", &rdmacm.Options{AckTimeout: 14}) }},
		{"rdmacm.Listen", func(h *host) error { return h.listenCM(h.rxe.IP[1]+":0", &rdmacm.Options{AckTimeout: 14}) }},
		{"rdma.Dial", func(h *host) error { return h.dial(h.rxe.IP[1]+":9", &rdma.Options{AckTimeout: 14}) }},
		{"rdma.Listen", func(h *host) error { return h.listen(h.rxe.IP[1]+":0", &rdma.Options{AckTimeout: 14}) }},
	}},
	{"AccessNone goes with no other right", false, typed[*ibv.ArgError]("ccess", "AccessNone"), []call{
		{"ibv.QP.Connect", func(h *host) error {
			a, b := h.pair(ibv.RC)
			return a.qp.Connect(b.at, &ibv.ConnectOptions{Access: ibv.AccessNone | ibv.RemoteRead})
		}},
		{"rdmacm.Dial", func(h *host) error {
			return h.dialCM(h.rxe.IP[1]+":9", &rdmacm.Options{Access: ibv.AccessNone | ibv.RemoteRead})
		}},
		{"rdmacm.ID.Connect", func(h *host) error {
			return h.routed().Connect(&rdmacm.ConnParam{QPN: 5, Access: ibv.AccessNone | ibv.RemoteRead})
		}},
	}},
	{"a queue pair in a group can be closed", false, func(err error) string {
		if err != nil {
			return "an error"
		}
		return ""
	}, []call{
		{"ibv.QP.AttachMcast", func(h *host) error {
			a, _ := h.pair(ibv.UD)
			if err := a.qp.AttachMcast(h.group(), h.groupLID()); err != nil {
				return err
			}
			return a.qp.Close()
		}},
		{"rdmacm.ID.CreateQP", func(h *host) error {
			id, dev := h.bound(rdmacm.PortSpaceUDP)
			pd, cq := h.pdcq(dev)
			qp, err := id.CreateQP(pd, cq, cq, nil)
			h.ok(err)
			h.join(id)
			return errors.Join(qp.Close(), pd.Close())
		}},
		{"rdmacm.ID.JoinMulticast, with a queue pair of ibv", func(h *host) error {
			id, dev := h.bound(rdmacm.PortSpaceUDP)
			pd, cq := h.pdcq(dev)
			qp, err := pd.CreateQP(cq, cq, &ibv.QPOptions{Type: ibv.UD})
			h.ok(err)
			ev := h.join(id)
			h.ok(qp.AttachMcast(ev.UD.AH.DGID, ev.UD.AH.DLID))
			return errors.Join(qp.Close(), pd.Close())
		}},
		{"rdma.PacketConn.Join", func(h *host) error {
			c, err := rdma.ListenPacket(h.ctx, h.rxe.IP[0]+":0", nil)
			h.ok(err)
			h.ok(c.Join(h.ctx, netip.MustParseAddr("239.1.2.7")))
			return c.Close()
		}},
	}},
	{"an IPv6 group on RoCE v2 is not supported", true, has(words("IPv6 group"), ibv.ErrNotSupported), []call{
		{"rdmacm.ID.JoinMulticast", func(h *host) error {
			id, _ := h.bound(rdmacm.PortSpaceUDP)
			return id.JoinMulticast(netip.MustParseAddr("ff0e::1"), rdmacm.JoinFullMember)
		}},
		{"rdma.PacketConn.Join", func(h *host) error {
			c, err := rdma.ListenPacket(h.ctx, h.rxe.IP[0]+":0", nil)
			h.ok(err)
			defer c.Close()
			return c.Join(h.ctx, netip.MustParseAddr("ff0e::1"))
		}},
	}},
	{"a request that was withdrawn is named", false, has(nil, rdmacm.ErrWithdrawn), []call{
		{"rdmacm.Request.Accept", func(h *host) error {
			return h.withdrawn(func(r *rdmacm.Request) error { _, err := r.Accept(h.ctx, nil); return err })
		}},
		{"rdmacm.Request.Reject", func(h *host) error {
			return h.withdrawn(func(r *rdmacm.Request) error { return r.Reject([]byte("no")) })
		}},
		{"rdmacm.ID.Accept", func(h *host) error {
			return h.withdrawn(func(r *rdmacm.Request) error { return r.ID().Accept(&rdmacm.ConnParam{QPN: 5}) })
		}},
		{"rdmacm.ID.Reject", func(h *host) error {
			return h.withdrawn(func(r *rdmacm.Request) error { return r.ID().Reject(nil) })
		}},
		{"rdmacm.ID.InitQP", func(h *host) error {
			return h.withdrawn(func(r *rdmacm.Request) error { return r.ID().BringUp(h.qpOf(r), nil) })
		}},
	}},
	{"a link-local address has a zone", false, typed[*ibv.ArgError]("fe80::1%INTERFACE", "zone"), []call{
		{"rdmacm.Dial", func(h *host) error { return h.dialCM(noZone, &rdmacm.Options{Timeout: soon}) }},
		{"rdmacm.DialAddr", func(h *host) error {
			_, err := rdmacm.DialAddr(h.ctx, netip.MustParseAddrPort(noZone), &rdmacm.Options{Timeout: soon})
			return err
		}},
		{"rdmacm.Dial, LocalAddr", func(h *host) error {
			return h.dialCM("[2001:db8::1]:9", &rdmacm.Options{LocalAddr: netip.MustParseAddrPort(noZone)})
		}},
		{"rdmacm.Listen", func(h *host) error { return h.listenCM(noZone, nil) }},
		{"rdmacm.ID.Bind", func(h *host) error {
			return h.id(rdmacm.PortSpaceTCP).Bind(netip.MustParseAddrPort(noZone))
		}},
		{"rdmacm.ID.ResolveAddr", func(h *host) error {
			id := h.id(rdmacm.PortSpaceTCP)
			if err := id.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort(noZone), soon); err != nil {
				return err
			}
			return h.next(id, rdmacm.EventAddrError).Err()
		}},
		{"rdmacm.CreateEP", func(h *host) error {
			list, err := rdmacm.GetAddrInfo(h.ctx, "fe80::1", "7471", nil)
			h.ok(err)
			_, err = rdmacm.CreateEP(h.ctx, &list[0])
			return err
		}},
		{"rdma.Dial", func(h *host) error { return h.dial(noZone, &rdma.Options{Timeout: soon}) }},
		{"rdma.DialStream", func(h *host) error {
			_, err := rdma.DialStream(h.ctx, noZone, &rdma.Options{Timeout: soon})
			return err
		}},
		{"rdma.DialPacket", func(h *host) error { _, err := rdma.DialPacket(h.ctx, noZone, nil); return err }},
		{"rdma.Listen", func(h *host) error { return h.listen(noZone, nil) }},
		{"rdma.ListenStream", func(h *host) error { _, err := rdma.ListenStream(h.ctx, noZone, nil); return err }},
		{"rdma.ListenPacket", func(h *host) error { _, err := rdma.ListenPacket(h.ctx, noZone, nil); return err }},
		{"rsocket.Socket.Bind", func(h *host) error {
			return h.socket(rsocket.DomainINET6).Bind(netip.MustParseAddrPort(noZone))
		}},
		{"rsocket.Socket.Connect", func(h *host) error {
			return h.connect(h.socket(rsocket.DomainINET6), netip.MustParseAddrPort(noZone))
		}},
	}},
	{"a port in use is in use, also by a wildcard", false, has(words("in use"), syscall.EADDRINUSE), []call{
		{"rdmacm.Listen", func(h *host) error { return h.listenCM(h.taken("tcp"), nil) }},
		{"rdmacm.ID.Bind", func(h *host) error {
			return h.id(rdmacm.PortSpaceTCP).Bind(netip.MustParseAddrPort(h.taken("tcp")))
		}},
		{"rdmacm.Dial, LocalAddr", func(h *host) error {
			return h.dialCM(h.rxe.IP[1]+":9", &rdmacm.Options{LocalAddr: netip.MustParseAddrPort(h.taken("tcp"))})
		}},
		{"rdma.Listen", func(h *host) error { return h.listen(h.taken("tcp"), nil) }},
		{"rdma.ListenStream", func(h *host) error {
			_, err := rdma.ListenStream(h.ctx, h.taken("tcp"), nil)
			return err
		}},
		{"rdma.Dial, LocalAddr", func(h *host) error {
			return h.dial(h.rxe.IP[1]+":9", &rdma.Options{LocalAddr: netip.MustParseAddrPort(h.taken("tcp"))})
		}},
		{"rdma.ListenPacket", func(h *host) error {
			_, err := rdma.ListenPacket(h.ctx, h.taken("udp"), nil)
			return err
		}},
		{"rsocket.Socket.Bind", func(h *host) error {
			return h.socket(rsocket.DomainINET).Bind(netip.MustParseAddrPort(h.taken("tcp")))
		}},
	}},
	{"an address that no device has is not in use", false, func(err error) string {
		if errors.Is(err, syscall.EADDRINUSE) {
			return "in use"
		}
		return has(words("no RDMA device"))(err)
	}, []call{
		{"rdmacm.Listen", func(h *host) error { return h.listenCM("203.0.113.9:7471", nil) }},
		{"rdma.Listen", func(h *host) error { return h.listen("203.0.113.9:7471", nil) }},
		{"rdma.ListenPacket", func(h *host) error {
			_, err := rdma.ListenPacket(h.ctx, "203.0.113.9:7471", nil)
			return err
		}},
		{"rsocket.Socket.Bind", func(h *host) error {
			return h.socket(rsocket.DomainINET).Bind(netip.MustParseAddrPort("203.0.113.9:7471"))
		}},
	}},
	{"ports have 16 bits", false, has(words("port")), []call{
		{"rdmacm.Dial", func(h *host) error { return h.dialCM(h.rxe.IP[1]+":65536", nil) }},
		{"rdmacm.Listen", func(h *host) error { return h.listenCM(h.rxe.IP[1]+":65536", nil) }},
		{"rdmacm.GetAddrInfo", func(h *host) error {
			_, err := rdmacm.GetAddrInfo(h.ctx, h.rxe.IP[1], "65536", nil)
			return err
		}},
		{"rdmacm.GetAddrInfo, as strtoul reads it", func(h *host) error {
			_, err := rdmacm.GetAddrInfo(h.ctx, h.rxe.IP[1], " +4294967303", nil)
			return err
		}},
		{"rdmacm.ID.ResolveAddrInfo", func(h *host) error {
			return h.id(rdmacm.PortSpaceTCP).ResolveAddrInfo(h.rxe.IP[1], "65536", nil)
		}},
		{"rdma.Dial", func(h *host) error { return h.dial(h.rxe.IP[1]+":65536", nil) }},
		{"rdma.Listen", func(h *host) error { return h.listen(h.rxe.IP[1]+":65536", nil) }},
		{"rdma.ListenPacket", func(h *host) error {
			_, err := rdma.ListenPacket(h.ctx, h.rxe.IP[1]+":65536", nil)
			return err
		}},
	}},
	{"source and destination are of one family", false, has(words("IPv6", "IPv4"), syscall.EINVAL), []call{
		{"rdmacm.Dial, LocalAddr", func(h *host) error {
			return h.dialCM(h.rxe.IP[1]+":9", &rdmacm.Options{LocalAddr: netip.MustParseAddrPort("[2001:db8::1]:0")})
		}},
		{"rdma.Dial, LocalAddr", func(h *host) error {
			return h.dial(h.rxe.IP[1]+":9", &rdma.Options{LocalAddr: netip.MustParseAddrPort("[2001:db8::1]:0")})
		}},
	}},
	{"a loopback address is no wildcard", false, has(words("refused by test")), []call{
		{"rdmacm.Listen", func(h *host) error {
			l, err := rdmacm.Listen(h.ctx, "127.0.0.1:0", nil)
			h.ok(err)
			defer l.Close()
			return h.refused(h.dialCM(at(h.rxe.IP[1], l.Addr()), nil))
		}},
		{"rdma.Listen", func(h *host) error {
			l, err := rdma.Listen(h.ctx, "127.0.0.1:0", nil)
			h.ok(err)
			defer l.Close()
			return h.refused(h.dial(at(h.rxe.IP[1], l.Addr()), nil))
		}},
		{"rsocket.Socket.Listen", func(h *host) error { return h.refused(h.rsocketLoopback()) }},
	}},
	{"what is busy is named", false, func(err error) string {
		var busy *ibv.BusyError
		if !errors.As(err, &busy) && !errors.Is(err, ibv.ErrNotSupported) { // SoftRoCE cannot register again
			return has(words("memory windows", "the MR is unchanged"), syscall.EBUSY)(err)
		}
		return ""
	}, []call{
		{"ibv.MR.Close, with windows", func(h *host) error { return h.windowed((*ibv.MR).Close) }},
		{"ibv.MR.Rereg, with windows", func(h *host) error {
			return h.windowed(func(mr *ibv.MR) error {
				access := ibv.LocalWrite | ibv.RemoteRead | ibv.MWBind
				return mr.Rereg(&ibv.ReregOptions{Access: &access})
			})
		}},
		{"rdmacm.ID.Close, with a queue pair", func(h *host) error {
			id, dev := h.bound(rdmacm.PortSpaceTCP)
			pd, cq := h.pdcq(dev)
			qp, err := id.CreateQP(pd, cq, cq, nil)
			h.ok(err)
			defer func() { h.ok(errors.Join(qp.Close(), pd.Close())) }()
			return id.Close()
		}},
	}},
}

// counts are calls with a number of retries that is out of range.
func counts(n int) []call {
	return []call{
		{"ibv.QP.Connect", func(h *host) error {
			a, b := h.pair(ibv.RC)
			return a.qp.Connect(b.at, &ibv.ConnectOptions{RetryCount: n, RNRRetry: n})
		}},
		{"rdmacm.Dial", func(h *host) error { return h.dialCM(h.rxe.IP[1]+":9", &rdmacm.Options{RetryCount: n}) }},
		{"rdmacm.ID.Connect", func(h *host) error {
			return h.routed().Connect(&rdmacm.ConnParam{QPN: 5, RNRRetryCount: n})
		}},
		{"rdma.Dial", func(h *host) error { return h.dial(h.rxe.IP[1]+":9", &rdma.Options{RetryCount: n}) }},
	}
}

// TestRXE_Rules runs each rule through each call.
func TestRXE_Rules(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	rxe.NeedIP(t)
	t.Cleanup(func() {
		if err := rdma.CloseIdle(); err != nil {
			t.Error(err)
		}
	})
	for _, r := range rules {
		if r.roce && rxe.IB {
			continue
		}
		for _, c := range r.calls {
			if slow[c.name] && !rxe.Emulated && !testutil.Full() {
				continue
			}
			t.Run(strings.ReplaceAll(r.name+"/"+c.name, " ", "_"), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
				defer cancel()
				err := c.do(&host{T: t, rxe: rxe, ctx: ctx})
				if why := r.check(err); why != "" {
					t.Errorf("%s: %v", why, err)
				}
			})
		}
	}
}
