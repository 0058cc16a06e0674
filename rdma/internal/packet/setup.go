package packet

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/datagram"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// New makes a socket without a queue pair.
func New(opt Options) (*Conn, error) {
	c := &Conn{opt: opt, Addr: new(net.UDPAddr)}
	c.ReadWake, c.WriteWake = make(chan struct{}, 1), make(chan struct{}, 1)
	c.Table = datagram.NewTable(func(a datagram.Address) net.Addr { return c.opt.Addr(c, a) })
	c.readTurn.Init(1)
	c.writeTurn.Init(1)
	if err := c.cm.open(c); err != nil {
		return nil, err
	}
	return c, nil
}

// Dial opens the socket, and asks for the queue pair of the address.
func (c *Conn) Dial(ctx context.Context, to netip.AddrPort) error {
	b := turn.Bound{Ctx: ctx}
	from := c.opt.From
	if !from.Addr().IsValid() {
		var err error
		if from, err = c.localFor(b, to); err != nil {
			return err
		}
	}
	if err := c.Open(from); err != nil {
		return err
	}
	to = netip.AddrPortFrom(c.At.Host(to.Addr()), to.Port())
	n, err := c.resolve(b, to, c.opt.Ask, true)
	if err != nil {
		return err
	}
	c.Mu.Lock()
	c.Table.To = n
	c.Mu.Unlock()
	return nil
}

// Open makes the queue pair at an address, and replies to requests for it.
func (c *Conn) Open(at netip.AddrPort) error {
	id, err := c.cm.bind(at, c.opt.ReuseAddr)
	if err != nil {
		return err
	}
	c.At.Local, c.At.Num = id.LocalAddr(), id.Port()
	c.Addr = net.UDPAddrFromAddrPort(c.At.Local)
	dev, err := id.Verbs()
	if err != nil {
		return err
	}
	e, err := c.opt.Use(dev, func(e *link.Engine) error {
		if err := c.look(e.Shards[0], id); err != nil {
			return err
		}
		return e.Shards[0].AddPacket(&c.PacketSocket)
	})
	if err != nil {
		return err
	}
	if t := e.Transport(); !t.Datagrams() {
		return &ibv.UnsupportedError{Feature: "a packet socket", Need: "InfiniBand or RoCE",
			Have: fmt.Sprintf("%s, a device of %v", dev.Name(), t)}
	}
	s := e.Shards[0]
	sizes := ibv.QPOptions{Type: ibv.UD, MaxSendWR: link.AtMost(datagram.Sends, e.Attr.MaxQPWR),
		MaxRecvWR: link.AtMost(datagram.Recvs, e.Attr.MaxQPWR)}
	qp, err := e.MakeQP(s.CQ.Device(), &sizes)
	if err != nil {
		return err
	}
	c.Mu.Lock()
	c.QP = qp
	c.Slots.Limit(sizes.MaxRecvWR, sizes.MaxSendWR)
	c.Mu.Unlock()
	if err := id.InitQP(qp); err != nil {
		return err
	}
	c.Mu.Lock()
	c.Post() // before a peer can send
	err = c.Err
	c.Mu.Unlock()
	if err != nil {
		return err
	}
	if err := id.BringUp(qp, nil); err != nil {
		return err
	}
	return id.Listen(0)
}

// look finds out what the device's port has.
func (c *Conn) look(e *link.Shard, id *rdmacm.ID) error {
	at := &c.At
	attr, err := e.Engine.Device.QueryPort(at.Num)
	if err != nil {
		return err
	}
	at.MTU = attr.ActiveMTU.Bytes()
	table, err := e.Engine.Device.GIDTable()
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
