package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
)

// AddrInfo is one address that a name resolves to, to connect to or to listen on.
//
// C: struct rdma_addrinfo.
type AddrInfo struct {
	Flags       AddrInfoFlags
	Family      Family
	QPType      ibv.QPType
	PortSpace   PortSpace
	Src, Dst    netip.AddrPort // zero if there is none, or if it is not an IP address
	RawSrc      []byte         // struct sockaddr
	RawDst      []byte
	SrcName     string
	DstName     string
	Route       []byte // struct ibv_path_data[]
	ConnectData []byte // starts the private data of the request
}

// Hints restrict what GetAddrInfo looks for. The zero value restricts nothing.
type Hints struct {
	Flags     AddrInfoFlags
	Family    Family
	QPType    ibv.QPType
	PortSpace PortSpace
	Src, Dst  netip.AddrPort
}

func (h *Hints) check() error {
	if h == nil {
		return nil
	}
	for _, a := range []netip.AddrPort{h.Src, h.Dst} {
		if a.Addr().IsValid() {
			if _, err := newSockaddr(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// Preconditions: h.check returned nil.
func (h *Hints) toC() *control.AddrInfo {
	if h == nil {
		return nil
	}
	encode := func(ap netip.AddrPort) []byte {
		if !ap.Addr().IsValid() {
			return nil
		}
		a, _ := newSockaddr(ap)
		return a[:a.Len()]
	}
	return &control.AddrInfo{
		Flags: int32(h.Flags), Family: int32(h.Family), QPType: int32(h.QPType), PortSpace: int32(h.PortSpace),
		Src: encode(h.Src), Dst: encode(h.Dst),
	}
}

func addrInfosFromC(c []control.AddrInfo) (list []AddrInfo) {
	for _, a := range c {
		src, dst := sockaddr.Of(a.Src), sockaddr.Of(a.Dst)
		list = append(list, AddrInfo{
			Flags: AddrInfoFlags(a.Flags), Family: Family(a.Family), QPType: qpType(a.QPType),
			PortSpace: PortSpace(a.PortSpace),
			Src:       src.AddrPort(), Dst: dst.AddrPort(), RawSrc: a.Src, RawDst: a.Dst, SrcName: a.SrcName,
			DstName: a.DstName,
			Route:   a.Route, ConnectData: a.Connect,
		})
	}
	return list
}

func checkNames(node, service string, hints *Hints) error {
	for _, n := range []string{node, service} {
		if strings.IndexByte(n, 0) >= 0 {
			return &ibv.ArgError{Arg: "name", Got: strconv.Quote(n), Want: "without a zero byte"}
		}
	}
	if hints != nil && hints.Flags&AddrInfoResolveSA != 0 {
		return nil // a name that the subnet administrator knows
	}
	// What strtoul(3) takes for a number is a port to getaddrinfo(3), which cuts it to 16 bits.
	digits := strings.TrimLeft(service, " \t\n\v\f\r")
	negative := strings.HasPrefix(digits, "-")
	digits = strings.TrimPrefix(strings.TrimPrefix(digits, "-"), "+")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return nil
	}
	if n, err := strconv.ParseUint(digits, 10, 16); err != nil || negative && n > 0 {
		return &ibv.ArgError{Arg: "service", Got: strconv.Quote(service), Want: "a name, or a port from 0 to 65535"}
	}
	return nil
}

// GetAddrInfo resolves a node and a service; one of them may be empty; hints may be nil. The C call may wait for DNS
// and cannot be interrupted: when ctx ends, GetAddrInfo returns at once, and the call finishes in the background.
//
// C: rdma_getaddrinfo(3).
func GetAddrInfo(ctx context.Context, node, service string, hints *Hints) ([]AddrInfo, error) {
	const op = "get address info"
	if err := errors.Join(checkNames(node, service, hints), hints.check()); err != nil {
		return nil, &ibv.OpError{Op: op, Object: node, Err: err}
	}
	lib, err := library()
	if err != nil {
		return nil, err
	}
	if hints != nil {
		h := *hints
		hints = &h
	}
	type result struct {
		list []AddrInfo
		err  error
	}
	done := make(chan result, 1)
	go func() {
		list, code, err := lib.GetAddrInfo(node, service, hints.toC())
		done <- result{addrInfosFromC(list), addrInfoError(lib, op, node, service, code, err)}
	}()
	select {
	case r := <-done:
		return r.list, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// addrInfoError returns the error for a code of getaddrinfo(3), or err if there is an errno.
func addrInfoError(lib control.CM, op, node, service string, code int, err error) error {
	const eaiSystem = -11
	if err == nil {
		return nil
	}
	if code < -1 && code != eaiSystem {
		err = &AddrInfoError{Node: node, Service: service, Code: code, Text: lib.GAIText(code)}
	} else {
		err = verbs.ExplainCM(err)
	}
	return &ibv.OpError{Op: op, Object: node, Err: err}
}

// ResolveAddrInfo is an asynchronous GetAddrInfo. EventAddrInfoResolved follows, after which
// QueryAddrInfo returns the result, or EventAddrInfoError. It needs rdma-core v60 and a kernel that
// supports it.
//
// C: rdma_resolve_addrinfo(3).
func (id *ID) ResolveAddrInfo(node, service string, hints *Hints) error {
	const op = "resolve address info"
	return id.do(op, func() error {
		if err := errors.Join(checkNames(node, service, hints), hints.check()); err != nil {
			return err
		}
		code, err := id.lib.ResolveAddrInfo(id.handle, node, service, hints.toC())
		switch {
		case err != nil:
			return addrInfoError(id.lib, op, node, service, code, err)
		case code > 0:
			return abi.Errno(code)
		}
		return nil
	})
}

// QueryAddrInfo returns the result of ResolveAddrInfo, once.
//
// C: rdma_query_addrinfo(3).
func (id *ID) QueryAddrInfo() (list []AddrInfo, err error) {
	err = id.do("query address info", func() error {
		c, err := id.lib.QueryAddrInfo(id.handle)
		list = addrInfosFromC(c)
		return err
	})
	return list, err
}

// String describes the address: its port space, QP type, source and destination.
func (a AddrInfo) String() string {
	s := fmt.Sprintf("%v %v", a.PortSpace, a.QPType)
	if a.Src.IsValid() {
		s += " from " + a.Src.String()
	}
	if a.Dst.IsValid() {
		s += " to " + a.Dst.String()
	}
	return s
}
