package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/examples/program"
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
	run   *program.Run
	mr    *ibv.MR
	srq   *ibv.SRQ
	links []*link
}

// playXRC is the game of type xsrq. Each process has one XRC SRQ, and the messages for it come over the
// connections of any of the processes that share its domain.
func playXRC(r *program.Run, o *options) {
	dev := program.Keep(r, program.Must(ibv.Open(o.device)))
	pd := program.Keep(r, program.Must(dev.AllocPD()))
	// Room for a message from each client, and after them the one that is sent.
	mr := program.Keep(r, program.Must(pd.AllocMR((o.clients+1)*o.size, ibv.LocalWrite, nil)))

	// The processes of a host share the domain by its file.
	file, fileErr := os.OpenFile(o.file, os.O_RDONLY|os.O_CREATE, 0o440)
	if fileErr != nil {
		// That is enough for a server, and for a single client.
		fmt.Fprintf(r, "the domain is this process's alone: %v\n", fileErr)
	} else {
		program.Keep(r, file)
	}
	xrcd := program.Keep(r, program.Must(dev.OpenXRCD(file, os.O_CREATE)))
	sends := program.Keep(r, program.Must(dev.CreateCQ(o.clients, &ibv.CQOptions{NoEvents: true})))
	recvs := program.Keep(r, program.Must(dev.CreateCQ(o.clients, o.cqOptions())))
	opt := &ibv.SRQOptions{Type: ibv.SRQXRC, XRCD: xrcd, CQ: recvs, MaxWR: o.clients}
	srq := program.Keep(r, program.Must(pd.CreateSRQ(opt)))

	p := &player{o: o, run: r, mr: mr, srq: srq}
	for i := range o.clients {
		p.post(uint64(i))
		l := &link{recv: program.Keep(r, program.Must(xrcd.CreateQP()))}
		l.send = program.Keep(r, program.Must(pd.CreateQP(sends, nil, &ibv.QPOptions{Type: ibv.XRCSend})))
		p.links = append(p.links, l)
	}
	meet(r, o, o.clients, p.connect)
	if o.server() {
		for i := range p.links {
			p.send(i)
		}
	}
	p.exchange(recvs, sends)
	p.part()
	fmt.Fprintf(r, "%d messages of %d bytes each way\nsuccess\n", o.iters*o.clients, o.size)
}

// exchange replies to messages until all were received and sent.
func (p *player) exchange(recvs, sends *ibv.CQ) {
	timeout := program.Timeout{After: p.o.timeout, Lossy: true}
	for range p.o.iters * p.o.clients {
		wc := program.Must(timeout.Next(p.run, recvs))
		program.Ensure(int(wc.ByteLen) == p.o.size, "a message of %d bytes, want %d", wc.ByteLen, p.o.size)
		p.post(wc.ID)
		if i := p.find(wc.QPN); p.links[i].sent < p.o.iters {
			p.send(i)
		}
	}
	for range p.links { // the last send to each has a completion
		program.Must(timeout.Next(p.run, sends))
	}
}

// post posts the buffer of a receive.
func (p *player) post(id uint64) {
	program.Must(p.srq.PostRecv([]ibv.RecvWR{{ID: id, SGEs: []ibv.SGE{p.mr.SGE(int(id)*p.o.size, p.o.size)}}}))
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
func (p *player) send(i int) {
	l := p.links[i]
	over := p.links[(i+l.sent)%len(p.links)]
	wr := ibv.SendWR{ID: uint64(i), Opcode: ibv.OpSend, RemoteSRQN: l.srqn,
		SGEs: []ibv.SGE{p.mr.SGE(p.o.clients*p.o.size, p.o.size)}}
	if l.sent++; l.sent >= p.o.iters {
		wr.Flags = ibv.Signaled
	}
	program.Must(over.send.PostSend([]ibv.SendWR{wr}))
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

func parseXRCAddress(text string) (a xrcAddress, err error) {
	var gid string
	text = strings.TrimRight(text, "\x00")
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

// connect exchanges addresses with peer i, the client's first, and connects the two QPs. Both count packets from
// one PSN.
func (p *player) connect(i int, conn net.Conn) {
	l := p.links[i]
	l.conn = program.Keep(p.run, conn)
	defer context.AfterFunc(p.run, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	me := program.Must(l.send.Endpoint(p.o.port, p.o.gid))
	program.Must(l.recv.Endpoint(p.o.port, p.o.gid))
	srqn := program.Must(p.srq.Num())
	mine := xrcAddress{me.LID, l.recv.Num(), l.send.Num(), me.PSN, srqn, p.o.announced(me).GID}
	var theirs string
	p.o.turns(func() { theirs = hear(conn, xrcAddressLen) }, func() { tell(conn, mine.String()) })
	peer := program.Must(parseXRCAddress(theirs))
	for i, a := range []xrcAddress{mine, peer} {
		fmt.Fprintf(p.run, "%8s: LID %04x, QPN RECV %06x SEND %06x, PSN %06x, SRQN %06x, GID %v\n",
			[]string{"local", "remote"}[i], a.lid, a.recvQPN, a.sendQPN, a.psn, a.srqn, a.gid)
	}
	l.srqn = peer.srqn
	opt := &ibv.ConnectOptions{Local: &me, MTU: p.o.mtu, SL: p.o.sl}
	to := ibv.Endpoint{PSN: peer.psn, LID: peer.lid, GID: peer.gid, GRH: !peer.gid.IsZero()}
	to.QPN = peer.sendQPN
	program.Check(l.recv.Connect(to, opt))
	to.QPN = peer.recvQPN
	program.Check(l.send.Connect(to, opt))
}

// part waits until nobody needs the QPs of another any more: a message to one client may come by the
// QP of the next.
func (p *player) part() {
	p.o.turns(func() {
		for _, l := range p.links {
			s := hear(l.conn, len(end))
			program.Ensure(s == end, "the peer says %q at the end, want %q", s, end)
		}
	}, func() {
		for _, l := range p.links {
			tell(l.conn, end)
		}
	})
}

// turns calls both: a server hears first, a client tells first.
func (o *options) turns(hear, tell func()) {
	if !o.server() {
		hear, tell = tell, hear
	}
	hear()
	tell()
}
