package ucma

import (
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
		if err := usercm.Tell(w, usercm.CmdBind, &abi.UCMBind{ID: i.number, AddrSize: size, Addr: addr}); err != nil {
			return err
		}
		return i.query(w, &c.devices)
	})
}

// ResolveAddr is rdma_resolve_addr.
func (c *CM) ResolveAddr(h control.Handle, src, dst *sockaddr.Addr, ms int) error {
	q := abi.UCMResolveAddr{TimeoutMs: uint32(ms)}
	var err error
	if q.DstAddr, q.DstSize, err = sized(dst); err != nil {
		return err
	}
	if src != nil {
		if q.SrcAddr, q.SrcSize, err = sized(src); err != nil {
			return err
		}
	}
	return c.once(h, func(w usercm.Writer, i *id) error {
		q.ID = i.number
		was := i.setDst(q.DstAddr) // before the event can come
		err := usercm.Tell(w, usercm.CmdResolveAddr, &q)
		if err != nil {
			i.setDst(was)
		}
		return err
	})
}

// ResolveRoute is rdma_resolve_route.
func (c *CM) ResolveRoute(h control.Handle, ms int) error {
	return c.tell(h, usercm.CmdResolveRoute, uint32(ms))
}

// Notify is rdma_notify.
func (c *CM) Notify(h control.Handle, event uint32) error { return c.tell(h, usercm.CmdNotify, event) }

// tell writes a command about an ID and a number.
func (c *CM) tell(h control.Handle, cmd usercm.Command, arg uint32) error {
	return c.once(h, func(w usercm.Writer, i *id) error {
		return usercm.Tell(w, cmd, &abi.UCMIDArg{ID: i.number, Arg: arg})
	})
}

// Listen is rdma_listen.
func (c *CM) Listen(h control.Handle, backlog int) error {
	return c.with(h, func(w usercm.Writer, i *id) error {
		if err := usercm.Tell(w, usercm.CmdListen, &abi.UCMIDArg{ID: i.number, Arg: uint32(backlog)}); err != nil {
			return err
		}
		return i.query(w, &c.devices) // has the port, if the kernel has chosen it
	})
}

// known returns what is known of an ID; zero if there is none.
func (c *CM) known(h control.Handle) state {
	i, err := c.ids.get(h)
	if err != nil {
		return state{}
	}
	return i.now()
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
