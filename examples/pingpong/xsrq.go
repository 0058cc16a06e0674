package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// link is a connection: a QP for each direction, and what the peer said.
type link struct {
	send, recv *ibv.QP
	conn       net.Conn
	srqn       uint32 // the peer's SRQ
	sent       int
}

// player is one process.
type player struct {
	o     *options
	out   io.Writer
	mr    *ibv.MR
	srq   *ibv.SRQ
	links []*link
}

// playXRC is the game of type xsrq. Each process has one XRC SRQ, and the messages for it come over the
// connections of any of the processes that share its domain.
func playXRC(ctx context.Context, o *options, out io.Writer) (err error) {
	closing := func(c io.Closer) { err = errors.Join(err, c.Close()) }
	dev, err := ibv.Open(o.device)
	if err != nil {
		return err
	}
	defer closing(dev)
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	defer closing(pd)
	// Room for a message from each client, and after them the one that is sent.
	mr, err := pd.AllocMR((o.clients+1)*o.size, ibv.LocalWrite, nil)
	if err != nil {
		return err
	}
	defer closing(mr)

	// The processes of a host share the domain by its file.
	file, err := os.OpenFile(o.file, os.O_RDONLY|os.O_CREATE, 0o440)
	if err != nil {
		// That is enough for a server, and for a single client.
		fmt.Fprintf(out, "the domain is this process's alone: %v\n", err)
	} else {
		defer closing(file)
	}
	xrcd, err := dev.OpenXRCD(file, os.O_CREATE)
	if err != nil {
		return err
	}
	defer closing(xrcd)
	sends, err := dev.CreateCQ(o.clients, &ibv.CQOptions{NoEvents: true})
	if err != nil {
		return err
	}
	defer closing(sends)
	recvs, err := dev.CreateCQ(o.clients, o.cqOptions())
	if err != nil {
		return err
	}
	defer closing(recvs)
	srq, err := pd.CreateSRQ(&ibv.SRQOptions{Type: ibv.SRQXRC, XRCD: xrcd, CQ: recvs, MaxWR: o.clients})
	if err != nil {
		return err
	}
	defer closing(srq)

	p := &player{o: o, out: out, mr: mr, srq: srq}
	for i := range o.clients {
		if err := p.post(uint64(i)); err != nil {
			return err
		}
		l := &link{}
		if l.recv, err = xrcd.CreateQP(); err != nil {
			return err
		}
		defer closing(l.recv)
		if l.send, err = pd.CreateQP(sends, nil, &ibv.QPOptions{Type: ibv.XRCSend}); err != nil {
			return err
		}
		defer closing(l.send)
		p.links = append(p.links, l)
	}
	defer func() {
		for _, l := range p.links {
			if l.conn != nil {
				closing(l.conn)
			}
		}
	}()
	if err := p.meet(ctx); err != nil {
		return err
	}
	if o.server() {
		for i := range p.links {
			if err := p.send(i); err != nil {
				return err
			}
		}
	}
	if err := p.exchange(ctx, recvs, sends); err != nil {
		return err
	}
	if err := p.part(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d messages of %d bytes each way\nsuccess\n", o.iters*o.clients, o.size)
	return nil
}

// exchange replies to messages until all were received and sent.
func (p *player) exchange(ctx context.Context, recvs, sends *ibv.CQ) error {
	for range p.o.iters * p.o.clients {
		wc, err := p.next(ctx, recvs)
		if err != nil {
			return err
		}
		if int(wc.ByteLen) != p.o.size {
			return fmt.Errorf("a message of %d bytes, want %d", wc.ByteLen, p.o.size)
		}
		if err := p.post(wc.ID); err != nil {
			return err
		}
		if i := p.find(wc.QPN); p.links[i].sent < p.o.iters {
			if err := p.send(i); err != nil {
				return err
			}
		}
	}
	for range p.links { // the last send to each has a completion
		if _, err := p.next(ctx, sends); err != nil {
			return err
		}
	}
	return nil
}

// post posts the buffer of a receive.
func (p *player) post(id uint64) error {
	_, err := p.srq.PostRecv([]ibv.RecvWR{{ID: id, SGEs: []ibv.SGE{p.mr.SGE(int(id)*p.o.size, p.o.size)}}})
	return err
}

// find returns the connection by which a message came.
func (p *player) find(qpn uint32) int {
	for i, l := range p.links {
		if l.recv.Num() == qpn {
			return i
		}
	}
	return 0 // by that of another process that shares the domain
}

// send sends a message to peer i, each time over another connection.
func (p *player) send(i int) error {
	l := p.links[i]
	over := p.links[(i+l.sent)%len(p.links)]
	wr := ibv.SendWR{ID: uint64(i), Opcode: ibv.OpSend, RemoteSRQN: l.srqn,
		SGEs: []ibv.SGE{p.mr.SGE(p.o.clients*p.o.size, p.o.size)}}
	if l.sent++; l.sent >= p.o.iters {
		wr.Flags = ibv.Signaled
	}
	_, err := over.send.PostSend([]ibv.SendWR{wr})
	return err
}

// next waits for the next completion of a CQ, which must be a success.
func (p *player) next(ctx context.Context, cq *ibv.CQ) (ibv.WC, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.o.timeout,
		fmt.Errorf("no completion for %v: the peer is gone, or a message was lost", p.o.timeout))
	defer cancel()
	var wc [1]ibv.WC
	if _, err := cq.Wait(ctx, wc[:]); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return wc[0], err
	}
	return wc[0], wc[0].Err()
}

// xrcAddress is the address that ibv_xsrq_pingpong sends to its peer, in 66 bytes of text.
type xrcAddress struct {
	lid                         uint16
	recvQPN, sendQPN, psn, srqn uint32
	gid                         ibv.GID
}

const (
	xrcAddressLen = 66
	end           = "END\x00"
)

func (a xrcAddress) String() string {
	return fmt.Sprintf("%04x:%06x:%06x:%06x:%06x:%x\x00", a.lid, a.recvQPN, a.sendQPN, a.psn, a.srqn, a.gid[:])
}

func parseXRCAddress(b []byte) (a xrcAddress, err error) {
	var gid string
	text := string(bytes.TrimRight(b, "\x00"))
	_, err = fmt.Sscanf(text, "%x:%x:%x:%x:%x:%s", &a.lid, &a.recvQPN, &a.sendQPN, &a.psn, &a.srqn, &gid)
	if err != nil {
		return a, fmt.Errorf("the peer's address %q: %w", text, err)
	}
	raw, err := hex.DecodeString(gid)
	if err != nil || len(raw) != len(a.gid) {
		return a, fmt.Errorf("the peer's GID %q: want 32 hexadecimal digits", gid)
	}
	return xrcAddress{a.lid, a.recvQPN, a.sendQPN, a.psn, a.srqn, ibv.GID(raw)}, nil
}

// meet connects with all peers.
func (p *player) meet(ctx context.Context) error {
	addr := net.JoinHostPort(p.o.host, strconv.Itoa(p.o.tcpPort))
	if !p.o.server() {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return p.connect(ctx, p.links[0], conn)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer l.Close()
	for _, link := range p.links {
		conn, err := accept(ctx, l)
		if err != nil {
			return err
		}
		if err := p.connect(ctx, link, conn); err != nil {
			return err
		}
	}
	return nil
}

// connect exchanges addresses, the client's first, and connects the two QPs. Both count packets from
// one PSN.
func (p *player) connect(ctx context.Context, l *link, conn net.Conn) error {
	l.conn = conn
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	me, err := l.send.Endpoint(p.o.port, p.o.gid)
	if err != nil {
		return err
	}
	if _, err := l.recv.Endpoint(p.o.port, p.o.gid); err != nil {
		return err
	}
	srqn, err := p.srq.Num()
	if err != nil {
		return err
	}
	mine := xrcAddress{me.LID, l.recv.Num(), l.send.Num(), me.PSN, srqn, p.o.announced(me).GID}
	b := make([]byte, xrcAddressLen)
	tell := func() error { _, err := io.WriteString(conn, mine.String()); return err }
	hear := func() error { _, err := io.ReadFull(conn, b); return err }
	steps := []func() error{hear, tell}
	if !p.o.server() {
		steps = []func() error{tell, hear}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	peer, err := parseXRCAddress(b)
	if err != nil {
		return err
	}
	for i, a := range []xrcAddress{mine, peer} {
		fmt.Fprintf(p.out, "%8s: LID %04x, QPN RECV %06x SEND %06x, PSN %06x, SRQN %06x, GID %v\n",
			[]string{"local", "remote"}[i], a.lid, a.recvQPN, a.sendQPN, a.psn, a.srqn, a.gid)
	}
	l.srqn = peer.srqn
	opt := &ibv.ConnectOptions{Local: &me, MTU: p.o.mtu, SL: p.o.sl}
	to := ibv.Endpoint{PSN: peer.psn, LID: peer.lid, GID: peer.gid, GRH: !peer.gid.IsZero()}
	to.QPN = peer.sendQPN
	if err := l.recv.Connect(to, opt); err != nil {
		return err
	}
	to.QPN = peer.recvQPN
	return l.send.Connect(to, opt)
}

// part waits until nobody needs the QPs of another any more: a message to one client may come by the
// QP of the next.
func (p *player) part() error {
	hear := func(l *link) error {
		b := make([]byte, len(end))
		if _, err := io.ReadFull(l.conn, b); err != nil {
			return err
		}
		if string(b) != end {
			return fmt.Errorf("the peer says %q at the end, want %q", b, end)
		}
		return nil
	}
	tell := func(l *link) error { _, err := io.WriteString(l.conn, end); return err }
	steps := []func(*link) error{hear, tell}
	if !p.o.server() {
		steps = []func(*link) error{tell, hear}
	}
	for _, step := range steps {
		for _, l := range p.links {
			if err := step(l); err != nil {
				return err
			}
		}
	}
	return nil
}
