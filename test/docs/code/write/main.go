// Write writes into the memory of a peer, on verbs.
//
//	write serve ADDRESS
//	write ADDRESS TEXT
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"os"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: write serve ADDRESS, or write ADDRESS TEXT")
	}
	ctx := context.Background()
	var err error
	if os.Args[1] == "serve" {
		err = serve(ctx, os.Args[2])
	} else {
		err = write(ctx, os.Args[1], os.Args[2])
	}
	if err != nil {
		log.Fatal(err)
	}
}

// serve lets one peer write into its memory and prints what was written.
func serve(ctx context.Context, addr string) (err error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return err
	}
	dev, _, err := ibv.OpenAddr(at.Addr())
	if err != nil {
		return err
	}
	defer closing(&err, dev.Close)
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	defer closing(&err, pd.Close)
	mr, err := pd.AllocMR(4096, ibv.LocalWrite|ibv.RemoteWrite, nil)
	if err != nil {
		return err
	}
	defer closing(&err, mr.Close)
	where, err := json.Marshal(mr.Remote()) // address, key, length
	if err != nil {
		return err
	}
	l, err := rdmacm.Listen(ctx, addr, &rdmacm.Options{
		PD:          pd,
		PrivateData: where,
		Prepare: func(c *rdmacm.Conn) error { // before the peer can send
			_, err := c.QP().PostRecv([]ibv.RecvWR{{ID: 1}}) // a write with immediate data takes a receive
			return err
		},
	})
	if err != nil {
		return err
	}
	defer closing(&err, l.Close)
	fmt.Println("listening at", l.Addr())
	c, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	defer closing(&err, c.Close)
	wc, err := wait(ctx, c.RecvCQ())
	if err != nil {
		return err
	}
	fmt.Printf("written: %s\n", mr.Bytes()[:wc.Imm])
	return nil
}

// write writes a text into the memory of the peer at addr.
func write(ctx context.Context, addr, text string) (err error) {
	c, err := rdmacm.Dial(ctx, addr, nil)
	if err != nil {
		return err
	}
	defer closing(&err, c.Close)
	var remote ibv.RemoteMemory
	if err := json.Unmarshal(bytes.TrimRight(c.PrivateData(), "\x00"), &remote); err != nil {
		return err
	}
	mr, err := c.PD().AllocMR(4096, ibv.LocalWrite, nil)
	if err != nil {
		return err
	}
	c.OnClose(mr.Close) // after the queue pair
	n := copy(mr.Bytes(), text)
	batch := c.QP().Batch()
	batch.WriteImm(1, ibv.Signaled, mr.SGE(0, n), remote.At(0), uint32(n))
	if err := batch.Post(); err != nil { // one doorbell
		return err
	}
	_, err = wait(ctx, c.SendCQ())
	return err
}

// wait waits for one completion. The goroutine sleeps; no thread does.
func wait(ctx context.Context, cq *ibv.CQ) (ibv.WC, error) {
	var wcs [1]ibv.WC
	if _, err := cq.Wait(ctx, wcs[:]); err != nil {
		return wcs[0], err
	}
	return wcs[0], wcs[0].Err()
}

// closing closes something at the end of a function and keeps the error.
func closing(err *error, f func() error) { *err = errors.Join(*err, f()) }
