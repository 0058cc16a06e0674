// Xsrq_pingpong sends messages back and forth by XRC: each process has one XRC SRQ, and the messages
// for it come over the connections of any of the processes that share its domain. It plays with
// itself or with the stock ibv_xsrq_pingpong, as server or as client.
//
//	xsrq_pingpong -d mlx5_0 -c 2     # on one host: waits for two clients
//	xsrq_pingpong -d mlx5_1 HOST     # on the other, twice
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/pureverbs/pureverbs/examples/internal/cm"
	"github.com/pureverbs/pureverbs/examples/internal/pingpong"
	"github.com/pureverbs/pureverbs/ibv"
)

func main() { cm.Main("xsrq_pingpong", run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	return play(ctx, o, out)
}

// link is a connection: a QP for each direction, and what the peer said.
type link struct {
	send, recv *ibv.QP
	conn       net.Conn
	srqn       uint32 // the peer's SRQ
	sent       int
}

// player is one process.
type player struct {
	*options
	out   io.Writer
	mr    *ibv.MR
	srq   *ibv.SRQ
	links []*link
}

func play(ctx context.Context, o *options, out io.Writer) (err error) {
	dev, err := ibv.Open(o.device)
	if err != nil {
		return err
	}
	defer pingpong.Close(dev, &err)
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	defer pingpong.Close(pd, &err)
	// Room for a message from each client, and after them the one that is sent.
	mr, err := pd.AllocMR((o.clients+1)*o.size, ibv.LocalWrite, nil)
	if err != nil {
		return err
	}
	defer pingpong.Close(mr, &err)

	// The processes of a host share the domain by its file.
	file, err := os.OpenFile(o.file, os.O_RDONLY|os.O_CREATE, 0o440)
	if err != nil {
		// That is enough for a server, and for a single client.
		fmt.Fprintf(out, "the domain is this process's alone: %v\n", err)
	} else {
		defer pingpong.Close(file, &err)
	}
	xrcd, err := dev.OpenXRCD(file, os.O_CREATE)
	if err != nil {
		return err
	}
	defer pingpong.Close(xrcd, &err)
	sends, err := dev.CreateCQ(o.clients, &ibv.CQOptions{NoEvents: true})
	if err != nil {
		return err
	}
	defer pingpong.Close(sends, &err)
	recvs, err := dev.CreateCQ(o.clients, o.cqOptions())
	if err != nil {
		return err
	}
	defer pingpong.Close(recvs, &err)
	srq, err := pd.CreateSRQ(&ibv.SRQOptions{Type: ibv.SRQXRC, XRCD: xrcd, CQ: recvs, MaxWR: o.clients})
	if err != nil {
		return err
	}
	defer pingpong.Close(srq, &err)

	p := &player{options: o, out: out, mr: mr, srq: srq}
	for i := range o.clients {
		if err := p.post(uint64(i)); err != nil {
			return err
		}
		l := &link{}
		if l.recv, err = xrcd.CreateQP(); err != nil {
			return err
		}
		defer pingpong.Close(l.recv, &err)
		if l.send, err = pd.CreateQP(sends, nil, &ibv.QPOptions{Type: ibv.XRCSend}); err != nil {
			return err
		}
		defer pingpong.Close(l.send, &err)
		p.links = append(p.links, l)
	}
	defer func() {
		for _, l := range p.links {
			if l.conn != nil {
				pingpong.Close(l.conn, &err)
			}
		}
	}()
	if err := p.meet(ctx); err != nil {
		return err
	}
	if o.host == "" {
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
	fmt.Fprintf(out, "%d messages of %d bytes each way\nsuccess\n", o.tests*o.clients, o.size)
	return nil
}

// exchange answers messages until all were received and sent.
func (p *player) exchange(ctx context.Context, recvs, sends *ibv.CQ) error {
	for range p.tests * p.clients {
		wc, err := cm.NextOf(ctx, recvs, p.timeout)
		if err != nil {
			return err
		}
		if int(wc.ByteLen) != p.size {
			return fmt.Errorf("a message of %d bytes, want %d", wc.ByteLen, p.size)
		}
		if err := p.post(wc.ID); err != nil {
			return err
		}
		if i := p.find(wc.QPN); p.links[i].sent < p.tests {
			if err := p.send(i); err != nil {
				return err
			}
		}
	}
	for range p.links { // the last send to each has a completion
		if _, err := cm.NextOf(ctx, sends, p.timeout); err != nil {
			return err
		}
	}
	return nil
}

// post posts the buffer of a receive.
func (p *player) post(id uint64) error {
	_, err := p.srq.PostRecv([]ibv.RecvWR{{ID: id, SGEs: []ibv.SGE{p.mr.SGE(int(id)*p.size, p.size)}}})
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
		SGEs: []ibv.SGE{p.mr.SGE(p.clients*p.size, p.size)}}
	if l.sent++; l.sent >= p.tests {
		wr.Flags = ibv.Signaled
	}
	_, err := over.send.PostSend([]ibv.SendWR{wr})
	return err
}
