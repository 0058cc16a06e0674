// Rdma_server waits for a message from rdma_client, ours or rdma-core's, and answers it.
//
//	rdma_server
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/pureverbs/pureverbs/examples/internal/cm"
	"github.com/pureverbs/pureverbs/examples/internal/pingpong"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

func main() { cm.Main("rdma_server", run) }

// Messages have this size on both sides.
const size = 16

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	f := cm.Flags("rdma_server")
	host := f.StringP("server", "s", "", "`address` to listen on (default all)")
	port := f.StringP("port", "p", "7471", "`port` to listen on")
	limit := f.Duration("timeout", 30*time.Second, "longest `time` without a message, once a client is there")
	if err := cm.Parse(f, args, "rdma_server [options]\n", func() error { return nil }); err != nil {
		return err
	}
	l, err := rdmacm.Listen(ctx, net.JoinHostPort(*host, *port), nil)
	if err != nil {
		return err
	}
	defer pingpong.Close(l, &err)
	fmt.Fprintf(out, "listening on %v\n", l.Addr())
	request, err := l.Next(ctx)
	if err != nil {
		return err
	}

	// Post the receive before the client can send.
	var mr *ibv.MR
	c, err := request.Accept(ctx, &rdmacm.Options{
		QP: ibv.QPOptions{MaxSendWR: 1, MaxRecvWR: 1, MaxInline: size},
		Prepare: func(c *rdmacm.Conn) (err error) {
			if mr, err = c.PD().AllocMR(size, ibv.LocalWrite, nil); err != nil {
				return err
			}
			c.OnClose(mr.Close)
			_, err = c.QP().PostRecv([]ibv.RecvWR{{SGEs: []ibv.SGE{mr.SGE(0, size)}}})
			return err
		},
	})
	if err != nil {
		return err
	}
	defer pingpong.Close(c, &err)

	wc, err := cm.Next(ctx, c, *limit)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%v says %d bytes: %q\n", c.RemoteAddr(), wc.ByteLen,
		bytes.TrimRight(mr.Bytes()[:wc.ByteLen], "\x00"))

	// A short message goes into the work request itself, and needs no MR.
	hello := make([]byte, size)
	copy(hello, "hello, client")
	if _, err := c.QP().PostSend([]ibv.SendWR{{Opcode: ibv.OpSend, Flags: ibv.Signaled, Inline: hello}}); err != nil {
		return err
	}
	_, err = cm.Next(ctx, c, *limit) // complete: the client has it
	return err
}
