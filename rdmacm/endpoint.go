package rdmacm

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"runtime"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
)

// CreateEP creates an ID from a result of GetAddrInfo. With the flag AddrInfoPassive the ID is
// bound and ready for Listen; otherwise it has a route and is ready for Connect. The ID has its own
// event channel, which is closed with it.
//
// Unlike in C, no call on the ID blocks a thread: wait for events on the ID's Channel, or with
// Request. Create QPs with PD.CreateQP or ID.CreateQP. If info has a Route, it is used instead of
// resolving one. The caller must put info's ConnectData before the private data given to Connect.
//
// An info of QPType ibv.XRCSend or ibv.XRCRecv, which Hints ask for together with the port space IB,
// makes an ID of XRC: the requests of a sender reach only a listener of receivers. Give it a QP of
// PD.CreateQP, or of XRCD.CreateQP on the receiving side, on the Device that Verbs returns, by BringUp
// and ConnParam.QPN. The sender learns the number of an SRQ from private data. Such an ID is made by
// librdmacm's function, which may wait in the background for some seconds after ctx ended.
//
// C: rdma_create_ep(3).
func CreateEP(ctx context.Context, info *AddrInfo) (*ID, error) {
	const op = "create endpoint"
	if info == nil {
		return nil, &ibv.OpError{Op: op, Err: &ibv.ArgError{Arg: "info", Got: "nil", Want: "a result of GetAddrInfo"}}
	}
	if info.QPType == ibv.XRCSend || info.QPType == ibv.XRCRecv {
		return createXRC(ctx, info)
	}
	ch, err := NewEventChannel()
	if err != nil {
		return nil, err
	}
	id, err := ch.CreateID(info.PortSpace)
	if err != nil {
		_ = ch.Close()
		return nil, err
	}
	id.own.Lock()
	id.own.solo = ch
	id.own.Unlock()
	if err := id.endpoint(ctx, info); err != nil {
		_ = id.Close()
		return nil, &ibv.OpError{Op: op, Object: info.String(), Err: err}
	}
	return id, nil
}

// createXRC makes an ID of XRC: rdma_create_id knows no such type, nor has the kernel's ID another one later.
func createXRC(ctx context.Context, info *AddrInfo) (*ID, error) {
	const op = "create endpoint"
	fail := func(err error) (*ID, error) {
		return nil, &ibv.OpError{Op: op, Object: info.String(), Err: verbs.ExplainCM(err)}
	}
	if err := info.checkAddresses(); err != nil {
		return fail(err)
	}
	src, dst := info.rawSockaddrs()
	c := control.AddrInfo{Flags: int32(info.Flags), Family: int32(info.Family), QPType: int32(info.QPType),
		PortSpace: int32(info.PortSpace), Route: bytes.Clone(info.Route)}
	if src != nil {
		c.Src = bytes.Clone(src[:])
	}
	if dst != nil {
		c.Dst = bytes.Clone(dst[:])
	}
	ch, err := NewEventChannel()
	if err != nil {
		return nil, err
	}
	type result struct {
		id  *ID
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // opens a file, to which no other may be allowed to write
		defer runtime.UnlockOSThread()
		h, err := ch.lib.CreateEP(&c)
		var id *ID
		if err == nil {
			id, err = ch.adopt(h, info.PortSpace)
		}
		select {
		case done <- result{id, err}:
		case <-ctx.Done():
			if err == nil {
				_ = id.Close()
			}
			_ = ch.Close()
		}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			_ = ch.Close()
			return fail(r.err)
		}
		id := r.id
		id.own.Lock()
		id.own.solo = ch
		id.own.Unlock()
		id.typ = info.QPType
		id.order.advance(stageRouted)
		if info.Flags&AddrInfoPassive != 0 {
			id.order.at.Store(uint32(stageBound))
		}
		return id, nil
	case <-ctx.Done():
		return fail(ctx.Err())
	}
}

// adopt makes an ID of a synchronous one of C, on whose thread it is called.
//
// Preconditions: nothing closes ch meanwhile.
func (ch *EventChannel) adopt(h uintptr, ps PortSpace) (*ID, error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if err := ch.write(func(file uintptr) error { return ch.lib.MigrateID(h, file) }); err != nil {
		_ = ch.lib.DestroyID(h)
		return nil, err
	}
	return newID(ch, h, ps), nil
}

// checkAddresses reports what is wrong with the addresses.
func (info *AddrInfo) checkAddresses() error {
	for _, raw := range [][]byte{info.RawSrc, info.RawDst} {
		if len(raw) > sockaddr.Size {
			return &ibv.ArgError{Arg: "info", Got: fmt.Sprintf("a raw address of %d bytes", len(raw)),
				Want: fmt.Sprintf("at most %d, a struct sockaddr_storage", sockaddr.Size)}
		}
	}
	src, dst := info.rawSockaddrs()
	if passive := info.Flags&AddrInfoPassive != 0; passive && src == nil || !passive && dst == nil {
		return &ibv.ArgError{Arg: "info", Got: "one without an address",
			Want: "with Src if it has AddrInfoPassive, else with Dst"}
	}
	return nil
}

func (id *ID) endpoint(ctx context.Context, info *AddrInfo) error {
	if err := info.checkAddresses(); err != nil {
		return err
	}
	src, dst := info.rawSockaddrs()
	if info.Flags&AddrInfoPassive != 0 {
		return id.do("bind", func() error { return id.bind(src, info.Src.String()) })
	}
	wait := resolveTimeout
	err := id.do("resolve address", func() error { return id.resolve(src, dst, wait, info.Dst.String()) })
	if err != nil {
		return err
	}
	if err := id.expect(ctx, EventAddrResolved); err != nil {
		return err
	}
	if len(info.Route) > 0 {
		err = id.setPaths(info.Route)
	} else {
		err = id.ResolveRoute(wait)
	}
	if err != nil {
		return err
	}
	return id.expect(ctx, EventRouteResolved)
}

// rawSockaddrs returns the addresses as librdmacm gave them, nil for one that is missing.
func (a *AddrInfo) rawSockaddrs() (src, dst *sockaddr.Addr) {
	raw := func(b []byte, ap netip.AddrPort) *sockaddr.Addr {
		var s sockaddr.Addr
		switch {
		case len(b) > 0:
			copy(s[:], b)
		case ap.Addr().IsValid():
			s, _ = newSockaddr(ap)
		default:
			return nil
		}
		return &s
	}
	return raw(a.RawSrc, a.Src), raw(a.RawDst, a.Dst)
}

// expect waits for an event on the ID's own channel.
func (id *ID) expect(ctx context.Context, want EventType) error {
	for {
		ev, err := id.Channel().Event(ctx)
		if err != nil {
			return err
		}
		if err := ev.Err(); err != nil {
			return err
		}
		if ev.Type == want {
			return nil
		}
	}
}

// Request waits for a connection request to a listening ID of CreateEP. The ID in the event uses
// the listening ID's channel; Migrate moves it to another.
//
// C: rdma_get_request(3).
func (id *ID) Request(ctx context.Context) (*Event, error) {
	for {
		ev, err := id.Channel().Event(ctx)
		if err != nil {
			return nil, err
		}
		if ev.Type == EventConnectRequest && ev.Listener == id {
			return ev, nil
		}
		if err := ev.Err(); err != nil && ev.ID == id {
			return nil, err
		}
	}
}
