package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/foreign"
)

// handshake runs a handshake. If it fails, or a function of Options ends the goroutine, nothing of the connection
// remains.
func (c *Conn) handshake(opt *Options, run func() error) (err error) {
	foreign.Call(func() { err = run() }, func(returned bool) {
		if !returned {
			go func() { _ = c.undo(opt, foreign.ErrExited) }()
		}
	})
	if err != nil {
		return c.undo(opt, err)
	}
	return nil
}

// undo closes a connection whose handshake has failed, and returns why. If a call of C has not returned, it closes it
// afterwards.
func (c *Conn) undo(opt *Options, err error) error {
	if left := c.left; left != nil {
		c.left = nil
		go func() {
			<-left
			_ = c.undo(opt, err)
		}()
		return err
	}
	if opt.Failed != nil {
		foreign.Call(func() { opt.Failed(c, err) }, func(returned bool) {
			if !returned {
				go dispose(c)
			}
		})
	}
	if closing := dispose(c); closing != nil {
		return errors.Join(err, closing)
	}
	return err
}

// await waits for the next event of the handshake, and fails if it is not want.
func (c *Conn) await(ctx context.Context, want EventType) (*Event, error) {
	var ev *Event
	select {
	case ev = <-c.events:
	default:
		select {
		case ev = <-c.events:
		case <-c.done:
			select {
			case ev = <-c.events: // what came before the end counts
			default:
				return nil, c.Err()
			}
		case <-ctx.Done():
			return nil, c.explainTimeout(want, ctx.Err())
		}
	}
	if err := ev.Err(); err != nil {
		return nil, err
	}
	if ev.Type != want {
		return nil, &EventError{Type: ev.Type, Status: ev.Status}
	}
	return ev, nil
}

// awaitEstablished waits until the peer has confirmed the connection. A peer whose confirmation is
// lost, and that then disconnects, has confirmed it too: only an established connection sends a DREQ
// (IB spec 12.9.7), and what the peer sent before may be in the receive queue.
func (c *Conn) awaitEstablished(ctx context.Context) error {
	_, err := c.await(ctx, EventEstablished)
	if errors.Is(err, ErrDisconnected) {
		return nil
	}
	return err
}

// explainTimeout adds the likely reason why an event did not arrive in time.
func (c *Conn) explainTimeout(want EventType, err error) error {
	err = fmt.Errorf("while waiting for the event %v: %w", want, err)
	if want == EventAddrResolved {
		return withoutZone(c.remote, err)
	}
	if !errors.Is(err, context.DeadlineExceeded) || want != EventConnectResponse && want != EventEstablished {
		return err
	}
	dev, e := c.id.Verbs()
	if e != nil {
		return err
	}
	port := c.id.Port()
	attr, e := dev.QueryPort(port)
	switch {
	case e != nil:
		return err
	case attr.State != ibv.PortActive:
		return fmt.Errorf("%w: port %d of %s is %v (check its cable, rdma link and ip link): %w", err, port,
			dev.Name(), attr.State, syscall.ENETDOWN)
	}
	return fmt.Errorf("%w (the peer's program does not respond, or its port is down)", err)
}

// removed returns the device's removal as the error if that is why a call failed. Its event may
// arrive a moment after the EIO.
func (c *Conn) removed(err error) error {
	if !errors.Is(err, syscall.EIO) || errors.Is(err, ErrDeviceRemoved) {
		return err
	}
	timer := time.NewTimer(eventDelay)
	defer timer.Stop()
	select {
	case <-c.done:
		if gone := c.Err(); errors.Is(gone, ErrDeviceRemoved) {
			return fmt.Errorf("%w: %w", gone, err)
		}
	case <-timer.C:
	}
	return err
}

// eventDelay is the time within which the event that explains a failed call arrives.
const eventDelay = 200 * time.Millisecond

// setup creates the objects that the connection needs and Options did not supply. It returns the
// options as Options.Use has left them.
func (c *Conn) setup(opt *Options) (*Options, error) {
	if opt.Use != nil {
		chosen := *opt
		dev, err := c.id.Verbs()
		if err != nil {
			return nil, err
		}
		foreign.Call(func() { err = opt.Use(dev, &chosen) }, nil)
		if err != nil {
			return nil, err
		}
		if err := chosen.check(); err != nil {
			return nil, err
		}
		opt = &chosen
	}
	if err := limited(func() error { return c.makeQP(opt) }); err != nil {
		return nil, err
	}
	var err error
	if opt.Prepare != nil {
		foreign.Call(func() { err = opt.Prepare(c) }, nil)
	}
	return opt, err
}

func (c *Conn) makeQP(opt *Options) error {
	dev, err := c.id.Verbs()
	if err != nil {
		return err
	}
	c.pd = opt.PD
	if c.pd == nil {
		if c.pd, err = dev.AllocPD(); err != nil {
			return err
		}
		c.ownPD = c.pd
	} else if have := c.pd.Device(); have != dev && have.Name() != dev.Name() {
		return &ibv.ArgError{Arg: "PD", Got: "one of " + have.Name(), Want: "one of " + dev.Name() +
			", the device that the address leads to"}
	}
	q := opt.QP
	q.Type = ibv.RC
	if c.ps.datagram() {
		q.Type = ibv.UD
	}
	c.srq = q.SRQ != nil
	c.sendCQ, c.recvCQ = opt.SendCQ, opt.RecvCQ
	if c.sendCQ == nil || c.recvCQ == nil {
		send, recv := verbs.QueueSizes(c.pd.Device(), &q)
		cq, err := c.pd.Device().CreateCQ(send+recv, opt.CQ)
		if err != nil {
			return err
		}
		c.ownCQ = cq
		if c.sendCQ == nil {
			c.sendCQ = cq
		}
		if c.recvCQ == nil {
			c.recvCQ = cq
		}
	}
	qp, err := c.pd.CreateQP(c.sendCQ, c.recvCQ, &q)
	if err != nil {
		return err
	}
	if g := qp.Cap(); c.ownCQ != nil && g.MaxSendWR+g.MaxRecvWR > c.ownCQ.Cap().CQE {
		_ = c.ownCQ.Resize(g.MaxSendWR + g.MaxRecvWR) // a device that cannot has room for what was asked for
	}
	c.mu.Lock()
	c.qp = qp
	c.mu.Unlock()
	if opt.Prepare == nil {
		return nil // BringUp starts with INIT
	}
	return c.id.InitQP(qp)
}

// ready marks the handshake as done.
func (c *Conn) ready() {
	local, remote := c.id.LocalAddr(), c.id.PeerAddr()
	c.mu.Lock()
	c.local, c.remote, c.established = local, remote, true
	c.mu.Unlock()
}
