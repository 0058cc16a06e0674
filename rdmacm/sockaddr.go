package rdmacm

import (
	"net/netip"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
)

func family(a *sockaddr.Addr) Family { return Family(a.Family()) }

func newSockaddr(ap netip.AddrPort) (sockaddr.Addr, error) {
	a, bad := sockaddr.New(ap)
	if bad != nil {
		return a, (*ibv.ArgError)(bad)
	}
	return a, nil
}

// IBAddr is an InfiniBand address, for PortSpaceIB and for hosts without IP over InfiniBand.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: struct sockaddr_ib.
type IBAddr struct {
	GID           ibv.GID
	PKey          uint16
	FlowInfo      uint32
	ServiceID     uint64
	ServiceIDMask uint64
	ScopeID       uint64
}

func (b *IBAddr) sockaddr() sockaddr.Addr {
	return sockaddr.NewIB(sockaddr.InfiniBand{
		GID: b.GID, PKey: b.PKey, FlowInfo: b.FlowInfo,
		ServiceID: b.ServiceID, ServiceIDMask: b.ServiceIDMask, ScopeID: b.ScopeID,
	})
}

func ibAddr(a *sockaddr.Addr) (IBAddr, bool) {
	b, ok := a.IB()
	return IBAddr{
		GID: b.GID, PKey: b.PKey, FlowInfo: b.FlowInfo,
		ServiceID: b.ServiceID, ServiceIDMask: b.ServiceIDMask, ScopeID: b.ScopeID,
	}, ok
}
