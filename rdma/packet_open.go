package rdma

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/attempts"
	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/rdma/internal/datagram"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// ListenPacket opens a socket for datagrams at host:port. The host must be an address of a device;
// port 0 is any free port. opt may be nil. ctx bounds the lookup of the host only: Close closes the
// socket.
func ListenPacket(ctx context.Context, addr string, opt *Options) (*PacketConn, error) {
	c, err := listenPacket(ctx, addr, opt)
	return openedPacket("listen", addr, c, err)
}

// openedPacket returns a socket to the program.
func openedPacket(op, addr string, c *PacketConn, err error) (*PacketConn, error) {
	if err != nil {
		return nil, netOp(op, nil, addrOf("udp", addr), &ibv.OpError{Op: op, Object: addr, Err: err})
	}
	c.opened = leak.Track("packet socket at " + c.at.Local.String())
	return c, nil
}

func listenPacket(ctx context.Context, addr string, opt *Options) (*PacketConn, error) {
	if opt == nil {
		opt = &Options{}
	}
	if err := opt.check(callListenPacket); err != nil {
		return nil, err
	}
	c, err := newPacketConn(opt)
	if err != nil {
		return nil, err
	}
	at, err := packetLookup(ctx, addr)
	if err == nil {
		err = c.open(at[0])
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// DialPacket opens a socket for datagrams to and from host:port, where ListenPacket listens. The addresses of a host
// name are tried as by Dial, until one replies. ctx bounds the call only: Close closes the socket.
func DialPacket(ctx context.Context, addr string, opt *Options) (*PacketConn, error) {
	c, err := dialPacket(ctx, addr, opt)
	return openedPacket("dial", addr, c, err)
}

func dialPacket(ctx context.Context, addr string, opt *Options) (*PacketConn, error) {
	if opt == nil {
		opt = &Options{}
	}
	if err := opt.check(callDialPacket); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, opt.dialTime())
	defer cancel()
	addrs, err := packetLookup(ctx, addr)
	if err != nil {
		return nil, err
	}
	return attempts.Dial(ctx, addrs, opt.LocalAddr.Addr(), func(ctx context.Context, to netip.AddrPort) (*PacketConn,
		error) {
		c, err := newPacketConn(opt)
		if err != nil {
			return nil, err
		}
		if err := c.dial(ctx, to); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return c, nil
	}, func(c *PacketConn) { _ = c.Close() })
}

func (c *PacketConn) dial(ctx context.Context, to netip.AddrPort) error {
	b := bound{Ctx: ctx}
	from := c.opt.LocalAddr
	if !from.Addr().IsValid() {
		var err error
		if from, err = c.localFor(b, to); err != nil {
			return err
		}
	}
	if err := c.open(from); err != nil {
		return err
	}
	to = netip.AddrPortFrom(c.at.Host(to.Addr()), to.Port())
	n, err := c.resolve(b, to, c.limit(), true)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.table.Dial(n)
	c.mu.Unlock()
	return nil
}

// packetLookup returns the addresses of host:port.
func packetLookup(ctx context.Context, addr string) ([]netip.AddrPort, error) {
	list, err := lookUp(ctx, "udp", addr)
	if err == nil && list[0].Addr().IsUnspecified() {
		return nil, &ibv.ArgError{Arg: "host", Got: list[0].Addr().String(), Want: oneDevice}
	}
	return list, err
}

const oneDevice = "an address: a queue pair is on one device"

func newPacketConn(opt *Options) (*PacketConn, error) {
	c := &PacketConn{
		packetSocket: newPacketSocket(), opt: *opt, addr: new(net.UDPAddr),
	}
	c.table = datagram.NewTable(func(a datagram.Address) net.Addr { return &PacketAddr{c, a} })
	c.readTurn.Init(1)
	c.writeTurn.Init(1)
	if err := c.cm.open(c); err != nil {
		return nil, err
	}
	return c, nil
}

// open makes the queue pair at an address, and replies to requests for it.
func (c *PacketConn) open(at netip.AddrPort) error {
	id, err := c.cm.bind(at, c.opt.ReuseAddr)
	if err != nil {
		return err
	}
	c.at.Local, c.at.Num = id.LocalAddr(), id.Port()
	c.addr = net.UDPAddrFromAddrPort(c.at.Local)
	dev, err := id.Verbs()
	if err != nil {
		return err
	}
	e, err := c.opt.useEngine(dev, func(e *Engine) error {
		if err := c.look(e.shards[0], id); err != nil {
			return err
		}
		return e.shards[0].addPacket(&c.packetSocket)
	})
	if err != nil {
		return err
	}
	if t := e.transport(); !t.Datagrams() {
		return &ibv.UnsupportedError{Feature: "a packet socket", Need: "InfiniBand or RoCE",
			Have: fmt.Sprintf("%s, a device of %v", dev.Name(), t)}
	}
	s := e.shards[0]
	sizes := ibv.QPOptions{Type: ibv.UD, MaxSendWR: atMost(datagram.Sends, e.attr.MaxQPWR),
		MaxRecvWR: atMost(datagram.Recvs, e.attr.MaxQPWR)}
	qp, err := e.makeQP(s.cq.Device(), &sizes)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.qp = qp
	c.slots.Limit(sizes.MaxRecvWR, sizes.MaxSendWR)
	c.mu.Unlock()
	if err := id.InitQP(qp); err != nil {
		return err
	}
	c.mu.Lock()
	c.post() // before a peer can send
	err = c.err
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if err := id.BringUp(qp, nil); err != nil {
		return err
	}
	return id.Listen(0)
}

// look finds out what the device's port has.
func (c *PacketConn) look(e *shard, id *rdmacm.ID) error {
	at := &c.at
	attr, err := e.eng.dev.QueryPort(at.Num)
	if err != nil {
		return err
	}
	at.MTU = attr.ActiveMTU.Bytes()
	table, err := e.eng.dev.GIDTable()
	if err != nil {
		return err
	}
	local, _ := id.GIDs()
	if local.IsZero() {
		local = ibv.GID(at.Local.Addr().As16())
	}
	at.SGID = make(map[bool]uint8)
	for _, g := range table {
		v2 := g.Type == ibv.GIDTypeRoCEv2
		if _, known := at.SGID[v2]; g.Port == at.Num && g.GID == local && !known && g.Index < 256 {
			at.SGID[v2] = uint8(g.Index)
		}
	}
	return nil
}
