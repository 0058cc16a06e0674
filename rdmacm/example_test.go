package rdmacm_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// A client that sends one message.
func Example() {
	ctx := context.Background()
	c, err := rdmacm.Dial(ctx, "10.8.0.1:7471", &rdmacm.Options{PrivateData: []byte("v1")})
	var refused *rdmacm.RejectError
	if errors.As(err, &refused) {
		fmt.Printf("refused: %v, %q\n", refused.Reason, refused.PrivateData)
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	mr, err := c.PD().AllocMR(4096, ibv.LocalWrite, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	c.OnClose(mr.Close)
	n := copy(mr.Bytes(), "hello")
	if _, err := c.QP().PostSend([]ibv.SendWR{{ID: 1, Opcode: ibv.OpSend, Flags: ibv.Signaled,
		SGEs: []ibv.SGE{mr.SGE(0, n)}}}); err != nil {
		fmt.Println(err)
		return
	}
	var wc [1]ibv.WC
	if _, err := c.CQ().Wait(ctx, wc[:]); err != nil || wc[0].Err() != nil {
		fmt.Println(err, wc[0].Err())
	}
}

// A server that posts a receive before the peer can send.
func ExampleListen() {
	ctx := context.Background()
	l, err := rdmacm.Listen(ctx, ":7471", &rdmacm.Options{Prepare: func(c *rdmacm.Conn) error {
		mr, err := c.PD().AllocMR(4096, ibv.LocalWrite, nil)
		if err != nil {
			return err
		}
		c.OnClose(mr.Close)
		_, err = c.QP().PostRecv([]ibv.RecvWR{{ID: 1, SGEs: []ibv.SGE{mr.SGE(0, 4096)}}})
		return err
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	for {
		c, err := l.Accept(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		go func() {
			defer c.Close()
			var wc [1]ibv.WC
			if _, err := c.CQ().Wait(ctx, wc[:]); err == nil {
				fmt.Printf("%d bytes from %v\n", wc[0].ByteLen, c.RemoteAddr())
			}
			<-c.Done()
		}()
	}
}

// The steps of a client, by events.
func ExampleEventChannel() {
	ctx := context.Background()
	ch, err := rdmacm.NewEventChannel()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ch.Close()
	id, err := ch.CreateID(rdmacm.PortSpaceTCP)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer id.Close()
	if err := id.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort("10.8.0.1:7471"), time.Second); err != nil {
		fmt.Println(err)
		return
	}
	ev, err := ch.Event(ctx)
	if err == nil {
		err = ev.Err()
	}
	fmt.Println(ev, err, id.LocalAddr())
}
