package ucma

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

// gaiError is a failure that getaddrinfo(3) has a code for.
type gaiError int

// Codes of getaddrinfo(3), as Linux numbers them.
const (
	eaiNoName   gaiError = -2
	eaiAgain    gaiError = -3
	eaiFail     gaiError = -4
	eaiFamily   gaiError = -6
	eaiSockType gaiError = -7
	eaiService  gaiError = -8
)

var gaiTexts = map[gaiError]string{
	eaiNoName:   "unknown name or service",
	eaiAgain:    "temporary failure of name resolution",
	eaiFail:     "failure of name resolution",
	eaiFamily:   "unsupported address family",
	eaiSockType: "the QP type does not belong to the port space",
	eaiService:  "unknown service of the port space",
}

func (e gaiError) Error() string { return gaiTexts[e] }

// GAIText describes a code of GetAddrInfo.
func (c *CM) GAIText(code int) string { return gaiTexts[gaiError(code)] }

// GetAddrInfo is rdma_getaddrinfo, with Go's resolver: one address, as librdmacm has it. It finds no InfiniBand routes,
// which librdmacm gets from ibacm, and asks no subnet administrator.
func (c *CM) GetAddrInfo(node, service string, hints *control.AddrInfo) ([]control.AddrInfo, int, error) {
	if node == "" && service == "" && hints == nil {
		return nil, -1, syscall.EINVAL
	}
	if err := c.devices.some(); err != nil {
		return nil, -1, err
	}
	if hints == nil {
		hints = &control.AddrInfo{}
	}
	if hints.Flags&abi.RAI_SA != 0 {
		return nil, -1, control.ErrNoOp
	}
	a := control.AddrInfo{Flags: hints.Flags, Family: hints.Family, QPType: hints.QPType, PortSpace: hints.PortSpace,
		Src: hints.Src, Dst: hints.Dst}
	if node == "" && service == "" {
		return []control.AddrInfo{a}, 0, nil
	}
	network, err := complete(&a)
	var to netip.AddrPort
	if err == nil {
		to, err = lookUp(network, node, service, hints)
	}
	var code gaiError
	if errors.As(err, &code) {
		return nil, int(code), err
	} else if err != nil {
		return nil, -1, err
	}
	addr, bad := sockaddr.New(to)
	if bad != nil {
		return nil, int(eaiNoName), eaiNoName
	}
	a.Flags, a.Family, a.Dst = hints.Flags&abi.RAI_PASSIVE, int32(addr.Family()), nil
	raw := addr[:addr.Len()]
	if a.Flags != 0 {
		a.Src = raw
	} else {
		a.Dst = raw
	}
	return []control.AddrInfo{a}, 0, nil
}

// complete adds the QP type or the port space that the hints leave open, and returns the network of its services.
func complete(a *control.AddrInfo) (network string, err error) {
	datagrams := a.PortSpace == abi.RDMA_PS_UDP || a.PortSpace == abi.RDMA_PS_IPOIB
	if a.QPType == 0 {
		a.QPType = abi.IBV_QPT_RC
		if datagrams {
			a.QPType = abi.IBV_QPT_UD
		}
	}
	ud := a.QPType == abi.IBV_QPT_UD
	switch {
	case ud && a.PortSpace == abi.RDMA_PS_TCP, datagrams && !ud:
		return "", eaiSockType
	case a.PortSpace == 0 && ud:
		a.PortSpace = abi.RDMA_PS_UDP
	case a.PortSpace == 0:
		a.PortSpace = abi.RDMA_PS_TCP
	}
	if ud {
		return "udp", nil
	}
	return "tcp", nil
}

// lookUp returns the first address of a node and a service; one of them may be empty.
func lookUp(network, node, service string, hints *control.AddrInfo) (to netip.AddrPort, err error) {
	ctx, port := context.Background(), 0
	if service != "" {
		if port, err = net.DefaultResolver.LookupPort(ctx, network, service); err != nil {
			return to, eaiService
		}
	}
	family, only := "ip", netip.Addr.IsValid
	switch hints.Family {
	case 0:
	case sockaddr.INET:
		family, only = "ip4", netip.Addr.Is4
	case sockaddr.INET6:
		family, only = "ip6", netip.Addr.Is6
	default:
		return to, eaiFamily
	}
	addrs := []netip.Addr{netip.IPv6Loopback(), netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	switch numeric, bad := netip.ParseAddr(node); {
	case node == "" && hints.Flags&abi.RAI_PASSIVE != 0:
		addrs = []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	case node == "":
	case bad == nil:
		addrs = []netip.Addr{numeric.Unmap()}
	case hints.Flags&abi.RAI_NUMERICHOST != 0:
		return to, eaiNoName
	default:
		if addrs, err = sockaddr.LookUp(ctx, family, node); err != nil {
			return to, unresolved(err)
		}
	}
	for _, a := range addrs {
		if only(a) {
			return netip.AddrPortFrom(a, uint16(port)), nil
		}
	}
	return to, eaiNoName
}

// unresolved returns the code for an error of Go's resolver.
func unresolved(err error) gaiError {
	var dns *net.DNSError
	switch {
	case !errors.As(err, &dns):
		return eaiFail
	case dns.IsNotFound:
		return eaiNoName
	case dns.IsTemporary, dns.IsTimeout:
		return eaiAgain
	}
	return eaiFail
}

// ResolveAddrInfo is rdma_resolve_addrinfo. It looks the name up before it returns, as librdmacm does. The kernel
// passes the event on; the error of one that cannot is EINVAL.
func (c *CM) ResolveAddrInfo(h control.Handle, node, service string, hints *control.AddrInfo) (int, error) {
	i, err := c.ids.get(h)
	if err != nil {
		return -1, err
	}
	if !i.startAddrInfo() {
		return -1, syscall.EBUSY
	}
	list, code, err := c.GetAddrInfo(node, service, hints)
	i.endAddrInfo(list)
	if err != nil {
		return code, err
	}
	err = c.with(h, func(w usercm.Writer, i *id) error {
		q := abi.UCMWriteCMEvent{ID: i.number, Event: abi.RDMA_CM_EVENT_INTERNAL}
		usercm.SetArg(&q, abi.RDMA_CM_EVENT_ADDRINFO_RESOLVED)
		return usercm.Tell(w, usercm.CmdWriteCMEvent, &q)
	})
	if err != nil {
		i.endAddrInfo(nil)
		return -1, err
	}
	return 0, nil
}

// startAddrInfo notes that a look-up is under way; ok is false if another one is, or has a result.
func (i *id) startAddrInfo() (ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	ok = !i.resolving
	i.resolving = true
	return ok
}

// endAddrInfo notes the result of a look-up, nil for none.
func (i *id) endAddrInfo(list []control.AddrInfo) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.resolved, i.resolving = list, list != nil
}

// QueryAddrInfo is rdma_query_addrinfo.
func (c *CM) QueryAddrInfo(h control.Handle) ([]control.AddrInfo, error) {
	i, err := c.ids.get(h)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	list := i.resolved
	if list == nil {
		return nil, syscall.ENOENT
	}
	i.resolved, i.resolving = nil, false
	return list, nil
}

// CreateEP is rdma_create_ep, without a QP. The ID has a channel of its own until it is migrated.
func (c *CM) CreateEP(a *control.AddrInfo) (control.Handle, error) {
	own, err := c.CreateEventChannel()
	if err != nil {
		return 0, err
	}
	i, err := c.create(own, uint32(a.PortSpace), uint32(a.QPType))
	if err != nil {
		c.DestroyEventChannel(own)
		return 0, err
	}
	i.mu.Lock()
	i.own = own
	i.mu.Unlock()
	if err := lead(c, i.handle, own, a); err != nil {
		_ = c.DestroyID(i.handle)
		return 0, err
	}
	return i.handle, nil
}

// lead binds an ID, or resolves its way.
func lead(c *CM, h, ch control.Handle, a *control.AddrInfo) error {
	src, dst := sockaddr.Of(a.Src), sockaddr.Of(a.Dst)
	if a.Flags&abi.RAI_PASSIVE != 0 {
		return c.BindAddr(h, &src)
	}
	from := &src
	if len(a.Src) == 0 {
		from = nil
	}
	if err := c.ResolveAddr(h, from, &dst, resolveTime); err != nil {
		return err
	}
	if err := outcome(c, ch); err != nil {
		return err
	}
	var err error
	if len(a.Route) > 0 {
		err = c.SetOption(h, abi.RDMA_OPTION_IB, abi.RDMA_OPTION_IB_PATH, a.Route)
	} else {
		err = c.ResolveRoute(h, resolveTime)
	}
	if err != nil {
		return err
	}
	return outcome(c, ch)
}

const resolveTime = 2000 // ms, as librdmacm

// outcome waits for the event of a call, and returns the error that it reports.
func outcome(c *CM, ch control.Handle) error {
	status := int32(0)
	if err := c.GetEvent(ch, func(ev *control.CMEvent) { status = ev.Status }); err != nil {
		return err
	}
	if status != 0 {
		return syscall.Errno(max(status, -status))
	}
	return nil
}
