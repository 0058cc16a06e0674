// Rdma_server waits for a message from rdma_client, ours or rdma-core's, and answers it.
//
//	rdma_server
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
	host  = flag.String("s", "", "`address` to listen on (default all)")
	port  = flag.String("p", "7471", "`port` to listen on")
	limit = flag.Duration("timeout", 30*time.Second, "longest `time` without a message, once a client is there")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "rdma_server:", err)
		os.Exit(1)
	}
}

// Messages have this size on both sides.
const size = 16

func run(ctx context.Context, out io.Writer) (err error) {
	l, err := rdmacm.Listen(ctx, net.JoinHostPort(*host, *port), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
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
	defer func() { err = errors.Join(err, c.Close()) }()

	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	wc, err := next(ctx, c)
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
	_, err = next(ctx, c) // complete: the client has it
	return err
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
