// Rdma_client sends a message to rdma_server, ours or rdma-core's, and waits for the answer. It is
// the shortest program that connects and exchanges messages.
//
//	rdma_client -s HOST
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

func main() { cm.Main("rdma_client", run) }

// Messages have this size on both sides.
const size = 16

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	f := cm.Flags("rdma_client")
	host := f.StringP("server", "s", "127.0.0.1", "`address` of the server")
	port := f.StringP("port", "p", "7471", "`port` of the server")
	limit := f.Duration("timeout", 30*time.Second, "longest `time` without an answer")
	if err := cm.Parse(f, args, "rdma_client [options]\n", func() error { return nil }); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()

	// Post the receive before the server can answer.
	var mr *ibv.MR
	c, err := rdmacm.Dial(ctx, net.JoinHostPort(*host, *port), &rdmacm.Options{
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

	// A short message goes into the work request itself, and needs no MR.
	hello := make([]byte, size)
	copy(hello, "hello, server")
	if _, err := c.QP().PostSend([]ibv.SendWR{{Opcode: ibv.OpSend, Flags: ibv.Signaled, Inline: hello}}); err != nil {
		return err
	}
	for range 2 { // the completion of the send, and the answer
		wc, err := cm.Next(ctx, c, *limit)
		if err != nil {
			return err
		}
		if wc.Opcode == ibv.WCRecv {
			fmt.Fprintf(out, "%v answers with %d bytes: %q\n", c.RemoteAddr(), wc.ByteLen,
				bytes.TrimRight(mr.Bytes()[:wc.ByteLen], "\x00"))
		}
	}
	return c.Shutdown(ctx)
}
