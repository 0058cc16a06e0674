package ucma

import (
	"net/netip"
	"reflect"
	"slices"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

func raw(s string) []byte {
	a, _ := sockaddr.New(netip.MustParseAddrPort(s))
	return a[:a.Len()]
}

// TestGetAddrInfo: what librdmacm and getaddrinfo(3) return for the same arguments.
func TestGetAddrInfo(t *testing.T) {
	const (
		passive, numeric   = abi.RAI_PASSIVE, abi.RAI_NUMERICHOST
		tcp, udp, ib       = abi.RDMA_PS_TCP, abi.RDMA_PS_UDP, abi.RDMA_PS_IB
		rc, ud, xrc        = abi.IBV_QPT_RC, abi.IBV_QPT_UD, abi.IBV_QPT_XRC_SEND
		inet4, inet6, ibAF = sockaddr.INET, sockaddr.INET6, sockaddr.IB
	)
	src := raw("10.0.0.7:0")
	for _, tc := range []struct {
		node, service string
		hints         *control.AddrInfo
		want          control.AddrInfo
		code          int
	}{
		{"10.1.2.3", "7471", nil,
			control.AddrInfo{Family: inet4, QPType: rc, PortSpace: tcp, Dst: raw("10.1.2.3:7471")}, 0},
		{"10.1.2.3", "", &control.AddrInfo{PortSpace: udp, Src: src},
			control.AddrInfo{Family: inet4, QPType: ud, PortSpace: udp, Dst: raw("10.1.2.3:0"), Src: src}, 0},
		{"fe80::1%7", "9", &control.AddrInfo{Flags: numeric, QPType: ud},
			control.AddrInfo{Family: inet6, QPType: ud, PortSpace: udp, Dst: raw("[fe80::1%7]:9")}, 0},
		{"::ffff:10.1.2.3", "9", &control.AddrInfo{PortSpace: ib, QPType: xrc},
			control.AddrInfo{Family: inet4, QPType: xrc, PortSpace: ib, Dst: raw("10.1.2.3:9")}, 0},
		{"", "9", &control.AddrInfo{Flags: passive, Dst: src},
			control.AddrInfo{Flags: passive, Family: inet4, QPType: rc, PortSpace: tcp, Src: raw("0.0.0.0:9")}, 0},
		{"", "9", &control.AddrInfo{Flags: passive, Family: inet6},
			control.AddrInfo{Flags: passive, Family: inet6, QPType: rc, PortSpace: tcp, Src: raw("[::]:9")}, 0},
		{"", "9", &control.AddrInfo{Family: inet4},
			control.AddrInfo{Family: inet4, QPType: rc, PortSpace: tcp, Dst: raw("127.0.0.1:9")}, 0},
		{"", "9", nil, control.AddrInfo{Family: inet6, QPType: rc, PortSpace: tcp, Dst: raw("[::1]:9")}, 0},
		{"10.1.2.3", "9", &control.AddrInfo{Flags: passive | numeric},
			control.AddrInfo{Flags: passive, Family: inet4, QPType: rc, PortSpace: tcp, Src: raw("10.1.2.3:9")}, 0},
		{"", "", &control.AddrInfo{Flags: abi.RAI_NOROUTE, Family: inet4, QPType: ud, Src: src, Dst: src},
			control.AddrInfo{Flags: abi.RAI_NOROUTE, Family: inet4, QPType: ud, Src: src, Dst: src}, 0},

		{"", "", nil, control.AddrInfo{}, -1},
		{"", "sid", &control.AddrInfo{Flags: abi.RAI_SA}, control.AddrInfo{}, -1},
		{"name", "9", &control.AddrInfo{Flags: numeric}, control.AddrInfo{}, int(eaiNoName)},
		{"10.1.2.3", "9", &control.AddrInfo{Family: inet6}, control.AddrInfo{}, int(eaiNoName)},
		{"10.1.2.3", "9", &control.AddrInfo{Family: ibAF}, control.AddrInfo{}, int(eaiFamily)},
		{"10.1.2.3", "no-such-service", nil, control.AddrInfo{}, int(eaiService)},
		{"10.1.2.3", "9", &control.AddrInfo{QPType: ud, PortSpace: tcp}, control.AddrInfo{}, int(eaiSockType)},
		{"10.1.2.3", "9", &control.AddrInfo{QPType: rc, PortSpace: udp}, control.AddrInfo{}, int(eaiSockType)},
	} {
		r := newRig(t)
		list, code, err := r.GetAddrInfo(tc.node, tc.service, tc.hints)
		if code != tc.code || (err == nil) != (code == 0) {
			t.Errorf("%q, %q, %+v: code %d, %v", tc.node, tc.service, tc.hints, code, err)
			continue
		}
		if code != 0 {
			if known := r.GAIText(code) != ""; known != (code < -1) {
				t.Errorf("text of code %d: %t", code, known)
			}
			continue
		}
		got := list[0]
		if len(list) != 1 || !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%q, %q, %+v: %+v, want %+v", tc.node, tc.service, tc.hints, list, tc.want)
		}
	}
}

// TestResolveAddrInfo: the result is there once, when its event has come.
func TestResolveAddrInfo(t *testing.T) {
	r := newRig(t)
	h := r.id(abi.RDMA_PS_TCP)
	if _, err := r.QueryAddrInfo(h); err != syscall.ENOENT {
		t.Errorf("before: %v", err)
	}
	if code, err := r.ResolveAddrInfo(h, "10.1.2.3", "9", nil); code != 0 || err != nil {
		t.Fatal(code, err)
	}
	if code, err := r.ResolveAddrInfo(h, "10.1.2.3", "9", nil); code != -1 || err != syscall.EBUSY {
		t.Errorf("a second look-up: %d, %v", code, err)
	}
	q := last[abi.UCMWriteCMEvent](r.k, usercm.CmdWriteCMEvent)
	r.k.emit(h, q.Event, func(e *abi.UCMEventResp) { e.Param = q.Param })
	r.want("event", r.get().Event, abi.RDMA_CM_EVENT_ADDRINFO_RESOLVED)
	list, err := r.QueryAddrInfo(h)
	if err != nil || len(list) != 1 || !slices.Equal(list[0].Dst, raw("10.1.2.3:9")) {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := r.QueryAddrInfo(h); err != syscall.ENOENT {
		t.Errorf("a second result: %v", err)
	}
	code, err := r.ResolveAddrInfo(h, "name", "9", &control.AddrInfo{Flags: abi.RAI_NUMERICHOST})
	if code != int(eaiNoName) {
		t.Errorf("%d, %v", code, err)
	}
	r.k.fail[usercm.CmdWriteCMEvent] = syscall.EINVAL // a kernel without it
	for range 2 {
		if code, err := r.ResolveAddrInfo(h, "10.1.2.3", "9", nil); code != -1 || err != syscall.EINVAL {
			t.Errorf("%d, %v", code, err)
		}
	}
	if _, err := r.QueryAddrInfo(h); err != syscall.ENOENT {
		t.Errorf("a result without an event: %v", err)
	}
}

// TestCreateEP: an ID of any QP type, on a channel of its own until it is migrated.
func TestCreateEP(t *testing.T) {
	r := newRig(t)
	l := r.must(r.CreateEP(&control.AddrInfo{Flags: abi.RAI_PASSIVE, QPType: abi.IBV_QPT_XRC_RECV,
		PortSpace: abi.RDMA_PS_IB, Src: raw("10.0.0.1:9")}))
	if q := last[abi.UCMCreateID](r.k, usercm.CmdCreateID); q.QPType != abi.IBV_QPT_XRC_RECV || q.PS != abi.RDMA_PS_IB {
		t.Errorf("%+v", q)
	}
	r.want("the kernel", r.k.said(), []string{"CREATE_ID", "BIND"})
	r.want("channels", r.count(), 2)
	r.ok(r.MigrateID(l, r.ch))
	r.want("channels after it was migrated", r.count(), 1)
	r.ok(r.DestroyID(l))

	// The kernel answers each command with an event, before CreateEP asks for it.
	for _, tc := range []struct {
		name   string
		events []uint32
		status int32
		route  []byte
		err    error
		said   []string
	}{
		{"resolved", []uint32{abi.RDMA_CM_EVENT_ADDR_RESOLVED, abi.RDMA_CM_EVENT_ROUTE_RESOLVED}, 0, nil, nil,
			[]string{"CREATE_ID", "RESOLVE_ADDR", "RESOLVE_ROUTE"}},
		{"with a route", []uint32{abi.RDMA_CM_EVENT_ADDR_RESOLVED, abi.RDMA_CM_EVENT_ROUTE_RESOLVED}, 0,
			make([]byte, 72), nil, []string{"CREATE_ID", "RESOLVE_ADDR", "SET_OPTION"}},
		{"no address", []uint32{abi.RDMA_CM_EVENT_ADDR_ERROR}, -int32(syscall.ETIMEDOUT), nil, syscall.ETIMEDOUT,
			[]string{"CREATE_ID", "RESOLVE_ADDR", "DESTROY_ID"}},
	} {
		r := newRig(t)
		next := uint64(r.last.Load()) + 2 // the handle after that of the channel
		for _, e := range tc.events {
			r.k.queue = append(r.k.queue, abi.UCMEventResp{UID: next, Event: e, Status: tc.status})
		}
		h, err := r.CreateEP(&control.AddrInfo{QPType: abi.IBV_QPT_XRC_SEND, PortSpace: abi.RDMA_PS_IB,
			Dst: raw("10.0.0.2:9"), Route: tc.route})
		if err != tc.err || (h == 0) != (err != nil) {
			t.Errorf("%s: %d, %v", tc.name, h, err)
		}
		r.want(tc.name+": the kernel", r.k.said(), tc.said)
		if err == nil {
			r.ok(r.DestroyID(h))
		}
		r.want(tc.name+": channels at the end", r.count(), 1)
	}
}

// count returns how many channels there are.
func (r *rig) count() (n int) {
	r.channels.m.Range(func(any, any) bool { n++; return true })
	return n
}
