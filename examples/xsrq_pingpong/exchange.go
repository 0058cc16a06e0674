package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// address is what ibv_xsrq_pingpong tells its peer, in 66 bytes of text.
type address struct {
	lid                         uint16
	recvQPN, sendQPN, psn, srqn uint32
	gid                         ibv.GID
}

const (
	addressLen = 66
	end        = "END\x00"
)

func (a address) String() string {
	return fmt.Sprintf("%04x:%06x:%06x:%06x:%06x:%x\x00", a.lid, a.recvQPN, a.sendQPN, a.psn, a.srqn, a.gid[:])
}

func parseAddress(b []byte) (a address, err error) {
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
	return address{a.lid, a.recvQPN, a.sendQPN, a.psn, a.srqn, ibv.GID(raw)}, nil
}

// meet connects with all peers.
func (p *player) meet(ctx context.Context) error {
	if p.host != "" {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(p.host, p.port))
		if err != nil {
			return err
		}
		return p.connect(ctx, p.links[0], conn)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("", p.port))
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for _, link := range p.links {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return ctx.Err()
		}
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
	me, err := l.send.Endpoint(p.ibPort, p.gid)
	if err != nil {
		return err
	}
	if _, err := l.recv.Endpoint(p.ibPort, p.gid); err != nil {
		return err
	}
	srqn, err := p.srq.Num()
	if err != nil {
		return err
	}
	mine := address{me.LID, l.recv.Num(), l.send.Num(), me.PSN, srqn, me.GID}
	b := make([]byte, addressLen)
	tell := func() error { _, err := io.WriteString(conn, mine.String()); return err }
	hear := func() error { _, err := io.ReadFull(conn, b); return err }
	steps := []func() error{hear, tell}
	if p.host != "" {
		steps = []func() error{tell, hear}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	peer, err := parseAddress(b)
	if err != nil {
		return err
	}
	for i, a := range []address{mine, peer} {
		fmt.Fprintf(p.out, "%8s: LID %04x, QPN RECV %06x SEND %06x, PSN %06x, SRQN %06x, GID %v\n",
			[]string{"local", "remote"}[i], a.lid, a.recvQPN, a.sendQPN, a.psn, a.srqn, a.gid)
	}
	l.srqn = peer.srqn
	mtu, _ := ibv.MTUFromBytes(p.mtu)
	opt := &ibv.ConnectOptions{Local: &me, MTU: mtu, SL: p.sl}
	to := ibv.Endpoint{PSN: peer.psn, LID: peer.lid, GID: peer.gid}
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
	if p.host != "" {
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
