// Rdma_client sends a message to rdma_server, ours or rdma-core's, and waits for the answer. It is
// the shortest program that connects and exchanges messages.
//
//	rdma_client -s HOST
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

var (
	host  = flag.String("s", "127.0.0.1", "`address` of the server")
	port  = flag.String("p", "7471", "`port` of the server")
	limit = flag.Duration("timeout", 30*time.Second, "longest `time` without a reply")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "rdma_client:", err)
		os.Exit(1)
	}
}

// Messages have this size on both sides.
const size = 16

func run(ctx context.Context, out io.Writer) (err error) {
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
	defer func() { err = errors.Join(err, c.Close()) }()

	// A short message goes into the work request itself, and needs no MR.
	hello := make([]byte, size)
	copy(hello, "hello, server")
	if _, err := c.QP().PostSend([]ibv.SendWR{{Opcode: ibv.OpSend, Flags: ibv.Signaled, Inline: hello}}); err != nil {
		return err
	}
	for range 2 { // the completion of the send, and the answer
		wc, err := next(ctx, c)
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

// next waits for the next completion, which must be a success.
func next(ctx context.Context, c *rdmacm.Conn) (ibv.WC, error) {
	var wc [1]ibv.WC
	_, err := c.CQ().Wait(ctx, wc[:])
	if err == nil {
		err = wc[0].Err()
	}
	if err != nil && c.Err() != nil {
		err = c.Err() // the connection has ended, which flushes work requests
	}
	return wc[0], err
}
