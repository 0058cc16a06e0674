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
	"github.com/pureverbs/pureverbs/rdma/internal/admit"
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
	c.opened = leak.Track("packet socket at " + c.local.String())
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
	to = netip.AddrPortFrom(c.host(to.Addr()), to.Port())
	n, err := c.resolve(b, to, c.limit(), true)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.to = n
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
		packetTable: newPacketTable(), packetPort: packetPort{addr: new(net.UDPAddr)},
		packetCM: packetCM{waiting: make(map[*rdmacm.ID]chan *rdmacm.Event)},
		over:     make(chan struct{}), rested: make(chan struct{}),
		readWake: make(chan struct{}, 1), writeWake: make(chan struct{}, 1),
	}
	c.readTurn.Init(1)
	c.writeTurn.Init(1)
	c.opt = *opt
	ch, err := rdmacm.NewEventChannel()
	if err != nil {
		return nil, err
	}
	c.ch = ch
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	c.proofs = admit.New(ctx, admit.Limits{Handshakes: askMost, Backlog: askMost, Waiting: waitingMost,
		Grace: handshakeGrace}, c.prove)
	c.events.Go(func() { c.watch(ctx) })
	return c, nil
}

// open makes the queue pair at an address, and replies to requests for it.
func (c *PacketConn) open(at netip.AddrPort) error {
	id, err := c.ch.CreateID(rdmacm.PortSpaceUDP)
	if err != nil {
		return err
	}
	c.id = id
	if c.opt.ReuseAddr {
		if err := id.SetReuseAddr(true); err != nil {
			return err
		}
	}
	if err := id.Bind(at); err != nil {
		return err
	}
	c.local, c.port = id.LocalAddr(), id.Port()
	c.addr = net.UDPAddrFromAddrPort(c.local)
	dev, err := id.Verbs()
	if err != nil {
		return err
	}
	e, err := c.opt.useEngine(dev, func(e *Engine) error {
		if err := c.look(e.shards[0]); err != nil {
			return err
		}
		return e.shards[0].addPacket(c)
	})
	if err != nil {
		return err
	}
	if t := e.transport(); !t.Datagrams() {
		return &ibv.UnsupportedError{Feature: "a packet socket", Need: "InfiniBand or RoCE",
			Have: fmt.Sprintf("%s, a device of %v", dev.Name(), t)}
	}
	s := e.shards[0]
	sizes := ibv.QPOptions{Type: ibv.UD, MaxSendWR: atMost(packetSends, e.attr.MaxQPWR),
		MaxRecvWR: atMost(packetRecvs, e.attr.MaxQPWR)}
	qp, err := e.makeQP(s.cq, &sizes)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.qp = qp
	c.recvs, c.sends = c.recvs[:sizes.MaxRecvWR], c.sends[:sizes.MaxSendWR]
	c.mu.Unlock()
	if err := id.InitQP(qp); err != nil {
		return err
	}
	c.mu.Lock()
	for i := range c.recvs {
		c.unposted = append(c.unposted, uint32(i))
	}
	for i := range c.sends {
		c.free = append(c.free, uint32(i))
	}
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
func (c *PacketConn) look(e *shard) error {
	attr, err := e.eng.dev.QueryPort(c.port)
	if err != nil {
		return err
	}
	c.mtu = attr.ActiveMTU.Bytes()
	table, err := e.eng.dev.GIDTable()
	if err != nil {
		return err
	}
	local, _ := c.id.GIDs()
	if local.IsZero() {
		local = ibv.GID(c.local.Addr().As16())
	}
	c.sgid = make(map[bool]uint8)
	for _, g := range table {
		v2 := g.Type == ibv.GIDTypeRoCEv2
		if _, known := c.sgid[v2]; g.Port == c.port && g.GID == local && !known && g.Index < 256 {
			c.sgid[v2] = uint8(g.Index)
		}
	}
	return nil
}
