// Hello sends a message to a server and waits for the reply: the shortest program that connects with
// package rdmacm and exchanges messages. Either side may be the stock rdma_server or rdma_client.
//
//	hello              waits for a client
//	hello -s HOST      connects to a server
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/pureverbs/pureverbs/examples/frame"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

var (
	server = flag.String("s", "", "`address` of the server; without it, be one")
	bind   = flag.String("b", "", "`address` to listen on; without it, all")
	port   = flag.String("p", "7471", "`port` of the server")
	limit  = flag.Duration("timeout", 30*time.Second, "longest `time` without a message")
)

func main() { frame.Main("hello\nhello -s HOST\n", run) }

func run(ctx context.Context, out io.Writer) error {
	if *server == "" {
		return serve(ctx, out)
	}
	return call(ctx, out)
}

// Messages have this size on both sides.
const size = 16

// side is one end of the connection.
type side struct {
	c  *rdmacm.Conn
	mr *ibv.MR // for the message that is received, and for the one that is sent
}

// options make a queue pair for one message each way.
func (s *side) options() *rdmacm.Options {
	return &rdmacm.Options{
		QP: ibv.QPOptions{MaxSendWR: 1, MaxRecvWR: 1},
		Prepare: func(c *rdmacm.Conn) (err error) { // before the peer can send
			if s.mr, err = c.PD().AllocMR(2*size, ibv.LocalWrite, nil); err != nil {
				return err
			}
			c.OnClose(s.mr.Close)
			_, err = c.QP().PostRecv([]ibv.RecvWR{{SGEs: []ibv.SGE{s.mr.SGE(0, size)}}})
			return err
		},
	}
}

// send posts a message.
func (s *side) send(text string) error {
	copy(s.mr.Bytes()[size:], text)
	_, err := s.c.QP().PostSend([]ibv.SendWR{{Opcode: ibv.OpSend, Flags: ibv.Signaled,
		SGEs: []ibv.SGE{s.mr.SGE(size, size)}}})
	return err
}

// next waits for the next completion, which must be a success. For a received message it returns the text.
func (s *side) next(ctx context.Context) (text []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	var wc [1]ibv.WC
	if _, err = s.c.CQ().Wait(ctx, wc[:]); err == nil {
		err = wc[0].Err()
	}
	switch {
	case err != nil && s.c.Err() != nil:
		return nil, s.c.Err() // the connection has ended, which flushes work requests
	case err != nil || wc[0].Opcode != ibv.WCRecv:
		return nil, err
	}
	return bytes.TrimRight(s.mr.Bytes()[:wc[0].ByteLen], "\x00"), nil
}

func serve(ctx context.Context, out io.Writer) (err error) {
	l, err := rdmacm.Listen(ctx, net.JoinHostPort(*bind, *port), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	fmt.Fprintf(out, "listening on %v\n", l.Addr())
	request, err := l.Next(ctx)
	if err != nil {
		return err
	}
	s := &side{}
	if s.c, err = request.Accept(ctx, s.options()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.c.Close()) }()
	text, err := s.next(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%v says %q\n", s.c.RemoteAddr(), text)
	if err := s.send("hello, client"); err != nil {
		return err
	}
	_, err = s.next(ctx) // complete: the client has it
	return err
}

func call(ctx context.Context, out io.Writer) (err error) {
	s := &side{}
	if s.c, err = rdmacm.Dial(ctx, net.JoinHostPort(*server, *port), s.options()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.c.Close()) }()
	if err := s.send("hello, server"); err != nil {
		return err
	}
	for range 2 { // the completion of the send, and the reply
		text, err := s.next(ctx)
		if err != nil {
			return err
		}
		if text != nil {
			fmt.Fprintf(out, "%v replies %q\n", s.c.RemoteAddr(), text)
		}
	}
	return s.c.Shutdown(ctx)
}
