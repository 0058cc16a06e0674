package ucma

import (
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

// sized returns an address and its size; the error is EINVAL for an unknown family.
func sized(a *sockaddr.Addr) (sockaddr.Addr, uint16, error) {
	if n := a.Len(); n > 0 {
		return *a, uint16(n), nil
	}
	return sockaddr.Addr{}, 0, syscall.EINVAL
}

// BindAddr is rdma_bind_addr.
func (c *CM) BindAddr(h control.Handle, a *sockaddr.Addr) error {
	addr, size, err := sized(a)
	if err != nil {
		return err
	}
	return c.with(h, func(w usercm.Writer, i *id) error {
		if err := usercm.Tell(w, usercm.CmdBind, &usercm.Bind{ID: i.number, Size: size, Addr: addr}); err != nil {
			return err
		}
		if err := c.queryAddr(w, i); err != nil {
			return err
		}
		return c.queryGIDs(w, i)
	})
}

// ResolveAddr is rdma_resolve_addr.
func (c *CM) ResolveAddr(h control.Handle, src, dst *sockaddr.Addr, ms int) error {
	q := usercm.ResolveAddr{Timeout: uint32(ms)}
	var err error
	if q.Dst, q.DstSize, err = sized(dst); err != nil {
		return err
	}
	if src != nil {
		if q.Src, q.SrcSize, err = sized(src); err != nil {
			return err
		}
	}
	return c.with(h, func(w usercm.Writer, i *id) error {
		q.ID = i.number
		was := i.setDst(q.Dst) // before the event can come
		err := usercm.Tell(w, usercm.CmdResolveAddr, &q)
		if err != nil {
			i.setDst(was)
		}
		return err
	})
}

func (i *id) setDst(a sockaddr.Addr) (was sockaddr.Addr) {
	i.mu.Lock()
	defer i.mu.Unlock()
	was, i.dst = i.dst, a
	return was
}

// ResolveRoute is rdma_resolve_route.
func (c *CM) ResolveRoute(h control.Handle, ms int) error {
	return c.tell(h, usercm.CmdResolveRoute, uint32(ms))
}

// Notify is rdma_notify.
func (c *CM) Notify(h control.Handle, event uint32) error { return c.tell(h, usercm.CmdNotify, event) }

// tell writes a command about an ID and a number.
func (c *CM) tell(h control.Handle, cmd usercm.Command, arg uint32) error {
	return c.with(h, func(w usercm.Writer, i *id) error {
		return usercm.Tell(w, cmd, &usercm.IDArg{ID: i.number, Arg: arg})
	})
}

// Listen is rdma_listen.
func (c *CM) Listen(h control.Handle, backlog int) error {
	return c.with(h, func(w usercm.Writer, i *id) error {
		if err := usercm.Tell(w, usercm.CmdListen, &usercm.IDArg{ID: i.number, Arg: uint32(backlog)}); err != nil {
			return err
		}
		return c.queryAddr(w, i) // has the port, if the kernel has chosen it
	})
}

func ask(w usercm.Writer, i *id, what uint32) (r usercm.AddrResp, err error) {
	q := usercm.Query{ID: i.number, Arg: what}
	r.DeviceIndex = none
	err = usercm.Ask(w, usercm.CmdQuery, &q, &q.Response, &r)
	if n := max(r.SrcSize, r.DstSize); err == nil && n > sockaddr.Size {
		err = &usercm.ReplyError{Command: usercm.CmdQuery, What: "the size of an address", Got: fmt.Sprint(n),
			Want: fmt.Sprintf("0 to %d", sockaddr.Size)}
	}
	return r, err
}

// queryAddr fetches the addresses, and the device if the ID has got one. The error is ENODEV if the device cannot be
// opened.
func (c *CM) queryAddr(w usercm.Writer, i *id) error {
	r, err := ask(w, i, usercm.QueryAddr)
	if err != nil {
		return err
	}
	i.mu.Lock()
	copy(i.src[:], r.Src[:r.SrcSize])
	copy(i.dst[:], r.Dst[:r.DstSize])
	known := i.dev != nil || r.NodeGUID == 0
	i.mu.Unlock()
	if known {
		return nil
	}
	dev, err := c.devices.get(r.NodeGUID.Get(), r.DeviceIndex)
	if err != nil {
		return syscall.ENODEV
	}
	if r.Port == 0 || r.Port > dev.ports {
		c.devices.put(dev)
		return &usercm.ReplyError{Command: usercm.CmdQuery, What: "the port", Got: fmt.Sprint(r.Port),
			Want: fmt.Sprintf("1 to %d", dev.ports)}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.dev != nil { // another call was faster
		c.devices.put(dev)
		return nil
	}
	i.dev, i.port, i.pkey = dev, r.Port, r.PKey.Get()
	return nil
}

// queryGIDs fetches the GIDs. The kernel has them as the addresses of two struct sockaddr_ib.
func (c *CM) queryGIDs(w usercm.Writer, i *id) error {
	const gid = 8 // its offset there
	r, err := ask(w, i, usercm.QueryGID)
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	copy(i.sgid[:], r.Src[gid:])
	copy(i.dgid[:], r.Dst[gid:])
	return nil
}

// queryPaths fetches the path records.
func (c *CM) queryPaths(w usercm.Writer, i *id) error {
	q, r := usercm.Query{ID: i.number, Arg: usercm.QueryPath}, usercm.PathResp{}
	if err := usercm.Ask(w, usercm.CmdQuery, &q, &q.Response, &r); err != nil {
		return err
	}
	paths := make([]abi.SAPathRec, min(int(r.NumPaths), len(r.Paths)))
	for k := range paths {
		paths[k] = record(&r.Paths[k])
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(paths) > 0 {
		i.paths = paths
	}
	return nil
}

// record unpacks a path record of the subnet administration.
func record(d *abi.PathData) abi.SAPathRec {
	const exactly = 2 // the selector of what librdmacm takes for exact values
	p := &d.Path
	r := abi.SAPathRec{DGID: p.DGID, SGID: p.SGID, DLID: p.DLID, SLID: p.SLID,
		HopLimit: uint8(p.FlowlabelHoplimit.Get()), TrafficClass: p.Tclass, Reversible: int32(p.ReversibleNumpath >> 7),
		NumbPath: 1, PKey: p.PKey, SL: uint8(p.QosclassSL.Get() & 0xf), MTUSelector: exactly, MTU: p.MTU & 0x1f,
		RateSelector: exactly, Rate: p.Rate & 0x1f, PacketLifeTimeSelector: exactly,
		PacketLifeTime: p.Packetlifetime & 0x1f, Preference: uint8(d.Flags)}
	r.FlowLabel.Set(p.FlowlabelHoplimit.Get() >> 8)
	return r
}

// known returns what is known of an ID; zero if there is none.
func (c *CM) known(h control.Handle) route {
	i, err := c.ids.get(h)
	if err != nil {
		return route{}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.route
}

// Verbs returns the context of the ID's device, 0 before it has one.
func (c *CM) Verbs(h control.Handle) control.Handle {
	if d := c.known(h).dev; d != nil {
		return d.context
	}
	return 0
}

// Transport returns the enum ibv_transport_type of the ID's device, 0 before it has one.
func (c *CM) Transport(h control.Handle) int32 {
	if d := c.known(h).dev; d != nil {
		return d.transport
	}
	return 0
}

// Port returns the device's port.
func (c *CM) Port(h control.Handle) uint8 { return c.known(h).port }

// PKey returns the partition key.
func (c *CM) PKey(h control.Handle) uint16 { return c.known(h).pkey }

// GIDs returns the local and the peer's GID.
func (c *CM) GIDs(h control.Handle) (local, peer abi.GID) {
	r := c.known(h)
	return r.sgid, r.dgid
}

// Src returns the local address.
func (c *CM) Src(h control.Handle) sockaddr.Addr { return c.known(h).src }

// Dst returns the peer's address.
func (c *CM) Dst(h control.Handle) sockaddr.Addr { return c.known(h).dst }

// Paths returns a copy of the path records.
func (c *CM) Paths(h control.Handle) []abi.SAPathRec {
	return append([]abi.SAPathRec(nil), c.known(h).paths...)
}
