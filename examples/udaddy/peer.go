package main

import (
	"context"
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// grh is the size of the header in front of each datagram that is received: a GRH, or with RoCE v2
// over IPv4 an IPv4 header in its last 20 bytes.
const grh = 40

// peer is the queue pair for one peer. It is not safe for concurrent use.
type peer struct {
	o  *options
	c  *rdmacm.Conn
	mr *ibv.MR // a place for each datagram that comes, with its header, and behind them one for each that goes

	ah        *ibv.AH // where the other side is
	qpn, qkey uint32

	gone int // sends that have completed
}

func (p *peer) options() *rdmacm.Options {
	return &rdmacm.Options{
		PortSpace: rdmacm.PortSpaceUDP,
		QP:        ibv.QPOptions{MaxSendWR: p.o.count, MaxRecvWR: p.o.count},
		Prepare:   p.prepare,
	}
}

// slot is the size of the buffer for a received datagram.
func (p *peer) slot() int { return grh + p.o.size }

// prepare posts a receive for every datagram before the other side can send.
func (p *peer) prepare(c *rdmacm.Conn) (err error) {
	p.c = c
	if err := fitsMTU(c.PD().Device(), c.ID().Port(), p.o.size); err != nil {
		return err
	}
	if p.mr, err = c.PD().AllocMR(p.o.count*(p.slot()+p.o.size), ibv.LocalWrite, nil); err != nil {
		return err
	}
	c.OnClose(p.mr.Close)
	wrs := make([]ibv.RecvWR, p.o.count)
	for i := range wrs {
		wrs[i] = ibv.RecvWR{ID: uint64(i), SGEs: []ibv.SGE{p.mr.SGE(i*p.slot(), p.slot())}}
	}
	_, err = c.QP().PostRecv(wrs)
	return err
}

// send posts all datagrams.
func (p *peer) send() error {
	for n := range p.o.count {
		at := p.o.count*p.slot() + n*p.o.size
		copy(p.mr.Bytes()[at:], pattern(p.o.size, n))
		if _, err := p.c.QP().PostSend([]ibv.SendWR{{
			Opcode: ibv.OpSendImm, Flags: ibv.Signaled, SGEs: []ibv.SGE{p.mr.SGE(at, p.o.size)}, Imm: p.c.QP().Num(),
			AH: p.ah, RemoteQPN: p.qpn, RemoteQKey: p.qkey,
		}}); err != nil {
			return err
		}
	}
	return nil
}

// receive waits for all datagrams. A server learns from the first where to reply.
func (p *peer) receive(ctx context.Context) error {
	for n := 0; n < p.o.count; {
		wc, err := p.next(ctx)
		if err != nil {
			return fmt.Errorf("%d datagrams received of %d: %w", n, p.o.count, err)
		}
		if wc.Opcode == ibv.WCSend {
			p.gone++
			continue
		}
		datagram := p.mr.Bytes()[int(wc.ID)*p.slot():][:wc.ByteLen]
		if err := p.check(n, &wc, datagram); err != nil {
			return err
		}
		if p.ah == nil {
			if err := p.replyTo(&wc, datagram); err != nil {
				return err
			}
		}
		n++
	}
	return nil
}

func (p *peer) check(n int, wc *ibv.WC, datagram []byte) error {
	if wc.Flags&ibv.WCWithImm == 0 || wc.Imm != wc.SrcQPN {
		return fmt.Errorf("datagram %d has the immediate data %#x (%v), want %#x, its sender's queue pair", n, wc.Imm,
			wc.Flags, wc.SrcQPN)
	}
	if len(datagram) != p.slot() {
		return fmt.Errorf("datagram %d has %d bytes, want %d: give both sides the same -S", n, len(datagram)-grh,
			p.o.size)
	}
	if !p.o.verify {
		return nil
	}
	return verify(datagram[grh:], n)
}

func (p *peer) replyTo(wc *ibv.WC, datagram []byte) error {
	var err error
	p.ah, err = p.c.PD().CreateAHFromWC(p.c.ID().Port(), wc, datagram)
	p.qpn, p.qkey = wc.Imm, rdmacm.UDPQKey
	return err
}

// sent waits until all datagrams are on their way.
func (p *peer) sent(ctx context.Context) error {
	for ; p.gone < p.o.count; p.gone++ {
		if _, err := p.next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// next waits for a completion of the connection, which must be a success, for as long as --timeout says.
func (p *peer) next(ctx context.Context) (ibv.WC, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.o.timeout, fmt.Errorf("nothing for %v: the peer is gone or stuck, "+
		"or a datagram was lost (--timeout waits longer)", p.o.timeout))
	defer cancel()
	var wc [1]ibv.WC
	_, err := p.c.CQ().Wait(ctx, wc[:])
	switch {
	case ctx.Err() != nil:
		return wc[0], context.Cause(ctx)
	case err == nil:
		err = wc[0].Err()
	}
	if err != nil && p.c.Err() != nil {
		err = p.c.Err() // the connection has ended, which flushes work requests
	}
	return wc[0], err
}

// pattern returns the contents of message n: different from byte to byte and from message to message.
func pattern(size, n int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i)*7 + byte(i>>8)*13 + byte(n)*29 + byte(n>>8)*31 + 1
	}
	return b
}

func verify(b []byte, n int) error {
	for i, want := range pattern(len(b), n) {
		if b[i] != want {
			return fmt.Errorf("message %d: byte %d is %#02x, want %#02x (is the peer one of these examples?)", n, i,
				b[i], want)
		}
	}
	return nil
}

// fitsMTU checks that a datagram fits in one packet.
func fitsMTU(dev *ibv.Device, port uint8, size int) error {
	p, err := dev.QueryPort(port)
	if err != nil {
		return err
	}
	if mtu := p.ActiveMTU.Bytes(); size > mtu {
		return fmt.Errorf("-S %d: a datagram fits in one packet, and the MTU of the port is %d", size, mtu)
	}
	return nil
}
