// Package packet has sockets for datagrams. It asks for the queue pairs of peers, and proves those that ask.
package packet

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/deadline"
	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/rdma/internal/datagram"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// Conn is a socket for datagrams: see PacketConn of package rdma.
type Conn struct {
	link.PacketSocket
	opt    Options
	Addr   *net.UDPAddr // at.Local
	cm     packetCM
	Table  datagram.Table // guarded by Mu
	closed bool           // by Close; guarded by Mu

	readBy, writeBy     deadline.Deadline
	readTurn, writeTurn turn.Turn
	closing             sync.Mutex
	Opened              *leak.Record
}

// Options configure a socket.
type Options struct {
	TOS       uint8
	ReuseAddr bool
	From      netip.AddrPort // of one that dials
	Ask       time.Duration  // bounds asking a peer that is not known

	Use  func(dev *ibv.Device, f func(*link.Engine) error) (*link.Engine, error) // has f use the engine of a device
	Addr func(c *Conn, a datagram.Address) net.Addr                              // the program's name of a queue pair
}

// Source is a queue pair that has sent a datagram to a socket.
type Source struct {
	Of *Conn // whose device the address is for
	At datagram.Address
}

// Peer returns the peer of a socket that was dialed, or nil.
func (c *Conn) Peer() *datagram.Name {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.Table.To
}

// Stats returns the counters, and the number of peers.
func (c *Conn) Stats() (n datagram.Counts, peers int) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.Slots.Counts, c.Table.Len()
}

// Receive waits for a datagram, and copies it to p.
func (c *Conn) Receive(p []byte) (int, net.Addr, error) {
	b := turn.Bound{Deadline: &c.readBy}
	if err := c.readTurn.Enter(b); err != nil {
		return 0, nil, err
	}
	defer c.readTurn.Leave()
	for {
		c.Mu.Lock()
		switch {
		case c.closed:
			c.Mu.Unlock()
			return 0, nil, ibv.ErrClosed
		case c.Slots.Unread() > 0:
			wc, mem := c.Slots.Take()
			c.Mu.Unlock()
			addr, ours, err := c.from(&wc, mem[:datagram.GRHLen])
			ours = ours && err == nil
			n := 0
			if ours {
				n = copy(p, mem[datagram.GRHLen:wc.ByteLen])
			}
			c.giveBack(&wc, ours)
			if ours {
				return n, addr, nil
			}
			continue
		}
		err := c.Err
		c.Mu.Unlock()
		if err != nil {
			return 0, nil, err
		}
		if err := c.Shard.Progress.Wait(b, c.ReadWake); err != nil {
			return 0, nil, err
		}
	}
}

// giveBack gives a receive back to the device, soon.
func (c *Conn) giveBack(wc *ibv.WC, ours bool) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Slots.GiveBack(wc, ours) {
		c.Post()
	}
}

// Write sends p to the peer of a socket that was dialed.
func (c *Conn) Write(p []byte) (int, error) {
	c.Mu.Lock()
	to := c.Table.To
	lost := to != nil && to.Lost
	c.Mu.Unlock()
	if to == nil {
		return 0, syscall.ENOTCONN
	}
	b := turn.Bound{Deadline: &c.writeBy}
	if lost {
		if _, err := c.resolve(b, to.AP, c.opt.Ask, true); err != nil {
			return 0, err
		}
	}
	return c.send(b, p, to)
}

// WriteTo sends p to an address, which is that of a queue pair if from is not nil.
func (c *Conn) WriteTo(p []byte, addr net.Addr, from *Source) (int, error) {
	c.Mu.Lock()
	dialed := c.Table.To != nil
	c.Mu.Unlock()
	if dialed {
		return 0, net.ErrWriteToConnected
	}
	b := turn.Bound{Deadline: &c.writeBy}
	if err := c.fits(p); err != nil {
		return 0, err
	}
	if err := b.Expired(); err != nil {
		return 0, err
	}
	to, err := c.addressee(b, addr, from)
	if err != nil {
		return 0, err
	}
	return c.send(b, p, to)
}

// fits reports a datagram that is too long.
func (c *Conn) fits(p []byte) error {
	if len(p) <= c.At.MTU {
		return nil
	}
	return fmt.Errorf("%w: %w", link.ErrTooLarge, &ibv.LimitError{What: "bytes of a datagram", Asked: uint64(len(p)),
		Limit: uint64(c.At.MTU), Where: "the MTU of " + c.Shard.Engine.Name()})
}

func (c *Conn) send(b turn.Bound, p []byte, name *datagram.Name) (int, error) {
	if err := c.fits(p); err != nil {
		return 0, err
	}
	if err := c.writeTurn.Enter(b); err != nil {
		return 0, err
	}
	defer c.writeTurn.Leave()
	c.Mu.Lock()
	for !c.Slots.MaySend() && !c.closed && c.Err == nil {
		c.Mu.Unlock()
		if err := c.Shard.Progress.Wait(b, c.WriteWake); err != nil {
			return 0, err
		}
		c.Mu.Lock()
	}
	defer c.Mu.Unlock()
	if c.closed {
		return 0, ibv.ErrClosed
	}
	if c.Err != nil {
		return 0, c.Err
	}
	to := c.Table.Current(name)
	if c.Table.MustAsk(name, c.now()) {
		go c.askAgain(name)
	}
	to.Hold()
	qkey := name.QKey
	slot, payload := c.Slots.TakeSend()
	c.Mu.Unlock() // the slot is ours, and the peer is kept
	n := copy(payload, p)
	ah, err := to.AH, error(nil) // of one that is held only the holder of writeTurn sets it
	if ah == nil {
		attr := to.Addr.Attr
		ah, err = c.Shard.Engine.PD.CreateAH(&attr)
	}
	c.Mu.Lock()
	to.AH = ah
	if err == nil && c.Ending {
		err = ibv.ErrClosed
	}
	if err == nil {
		err = c.Slots.Send(c.QP, slot, n, datagram.State(c.At.Local.Port()), to, qkey)
	}
	if err != nil {
		to.Drop()
		c.Slots.Unsent(slot)
		return 0, err
	}
	return n, nil
}

// SetDeadlines sets the deadlines of reading, of writing, or both.
func (c *Conn) SetDeadlines(t time.Time, read, write bool) error {
	if c.why() == ibv.ErrClosed {
		return ibv.ErrClosed
	}
	if read {
		c.readBy.Set(t)
	}
	if write {
		c.writeBy.Set(t)
	}
	return nil
}
