package main

import (
	"context"
	"fmt"

	"github.com/pureverbs/pureverbs/examples/internal/cm"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// peer is the queue pair for one peer. It is not safe for concurrent use.
type peer struct {
	o  *options
	c  *rdmacm.Conn
	mr *ibv.MR // a place for each datagram that comes, with its header, and behind them one for each that goes

	ah        *ibv.AH // where the other side is
	qpn, qkey uint32

	gone int // sends that have completed
}

// DatagramError reports a datagram that is not as expected.
type DatagramError struct {
	Number int
	Got    string
	Want   string
}

func (e *DatagramError) Error() string {
	return fmt.Sprintf("datagram %d has %s, want %s", e.Number, e.Got, e.Want)
}

func (p *peer) options() *rdmacm.Options {
	return &rdmacm.Options{
		PortSpace: rdmacm.PortSpaceUDP,
		QP:        ibv.QPOptions{MaxSendWR: p.o.count, MaxRecvWR: p.o.count},
		Prepare:   p.prepare,
	}
}

// slot is the size of the buffer for a received datagram.
func (p *peer) slot() int { return cm.GRHSize + p.o.size }

// prepare posts a receive for every datagram before the other side can send.
func (p *peer) prepare(c *rdmacm.Conn) (err error) {
	p.c = c
	if err := cm.FitsMTU(c.PD().Device(), c.ID().Port(), p.o.size); err != nil {
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
		cm.Fill(p.mr.Bytes()[at:][:p.o.size], n)
		if _, err := p.c.QP().PostSend([]ibv.SendWR{{
			Opcode: ibv.OpSendImm, Flags: ibv.Signaled, SGEs: []ibv.SGE{p.mr.SGE(at, p.o.size)}, Imm: p.c.QP().Num(),
			AH: p.ah, RemoteQPN: p.qpn, RemoteQKey: p.qkey,
		}}); err != nil {
			return err
		}
	}
	return nil
}

// receive waits for all datagrams. A server learns from the first where to answer.
func (p *peer) receive(ctx context.Context) error {
	for n := 0; n < p.o.count; {
		wc, err := cm.Next(ctx, p.c, p.o.timeout)
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
			if err := p.answerTo(&wc, datagram); err != nil {
				return err
			}
		}
		n++
	}
	return nil
}

func (p *peer) check(n int, wc *ibv.WC, datagram []byte) error {
	if wc.Flags&ibv.WCWithImm == 0 || wc.Imm != wc.SrcQPN {
		return &DatagramError{n, fmt.Sprintf("the immediate data %#x (%v)", wc.Imm, wc.Flags),
			fmt.Sprintf("%#x, its sender's queue pair", wc.SrcQPN)}
	}
	if len(datagram) != p.slot() {
		return &DatagramError{n, fmt.Sprintf("%d bytes", len(datagram)-cm.GRHSize),
			fmt.Sprintf("%d: give both sides the same -S", p.o.size)}
	}
	if !p.o.verify {
		return nil
	}
	return cm.Check(datagram[cm.GRHSize:], n)
}

func (p *peer) answerTo(wc *ibv.WC, datagram []byte) error {
	var err error
	p.ah, err = p.c.PD().CreateAHFromWC(p.c.ID().Port(), wc, datagram)
	p.qpn, p.qkey = wc.Imm, rdmacm.UDPQKey
	return err
}

// sent waits until all datagrams are on their way.
func (p *peer) sent(ctx context.Context) error {
	for ; p.gone < p.o.count; p.gone++ {
		if _, err := cm.Next(ctx, p.c, p.o.timeout); err != nil {
			return err
		}
	}
	return nil
}
