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

// State returns what is known of an ID.
func (c *CM) State(h control.Handle) control.CMState {
	k := c.known(h)
	s := control.CMState{Port: k.port, PKey: k.pkey, SGID: k.sgid, DGID: k.dgid, Src: k.src, Dst: k.dst,
		HasQP: k.qp.handle != 0}
	if k.dev != nil {
		s.Verbs, s.Transport = k.dev.context, k.dev.transport
	}
	return s
}

// Paths returns a copy of the path records.
func (c *CM) Paths(h control.Handle) []abi.SAPathRec {
	return append([]abi.SAPathRec(nil), c.known(h).paths...)
}
