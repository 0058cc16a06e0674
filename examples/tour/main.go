// Tour runs the three programs of this repository's README, both ends of each, on the device at 10.88.0.1.
//
//	tour    prints what arrives
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	"github.com/pureverbs/pureverbs/examples/frame"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma"
	"github.com/pureverbs/pureverbs/rdmacm"
)

func main() { frame.Main("tour    prints what arrives\n", run) }

func run(ctx context.Context, _ io.Writer) error {
	log.SetFlags(0)
	log.SetPrefix("tour: ")
	messages(ctx)
	streams(ctx)
	verbs(ctx)
	return nil
}

// check ends the program on an error.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// must returns v, or ends the program on an error.
func must[T any](v T, err error) T {
	check(err)
	return v
}

func messages(ctx context.Context) {
	// doc: readme-messages
	l := must(rdma.Listen(ctx, "10.88.0.1:7471", nil)) // the server, on an address of its RDMA device
	// end
	defer l.Close()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		client(ctx)
	}()
	// doc: readme-messages
	s := must(l.Accept(ctx))
	m := must(s.Recv(ctx)) // m.Bytes() is where the adapter wrote it, until m.Release()

	// end
	fmt.Printf("message: %s\n", m.Bytes())
	m.Release()
	<-sent
	check(s.Close())
}

func client(ctx context.Context) {
	// doc: readme-messages
	c := must(rdma.Dial(ctx, "10.88.0.1:7471", nil)) // the client
	check(c.Send(ctx, []byte("hello")))              // returns when the message is accepted
	check(c.Flush(ctx))                              // waits until it is in the server's memory
	// end
	check(c.Close())
}

func streams(ctx context.Context) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	// doc: readme-http
	l := must(rdma.ListenStream(ctx, "10.88.0.1:8080", nil)) // a net.Listener
	go http.Serve(l, handler)
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) { return rdma.DialStream(ctx, addr, nil) }
	client := http.Client{Transport: &http.Transport{DialContext: dial}}
	resp := must(client.Get("http://10.88.0.1:8080/"))
	// end
	body := must(io.ReadAll(resp.Body))
	check(resp.Body.Close())
	fmt.Printf("http: %s\n", body)
	client.CloseIdleConnections()
	check(l.Close())
}

func verbs(ctx context.Context) {
	l, received := receiver(ctx)
	// doc: readme-verbs
	c := must(rdmacm.Dial(ctx, "10.88.0.1:7472", nil))    // a connected queue pair, its PD and its CQ
	mr := must(c.PD().AllocMR(4096, ibv.LocalWrite, nil)) // registered memory: mr.Bytes()
	batch := c.QP().Batch()
	batch.Send(1, ibv.Signaled, mr.SGE(0, copy(mr.Bytes(), "hello")))
	check(batch.Post()) // one doorbell
	wcs := make([]ibv.WC, 1)
	must(c.CQ().Wait(ctx, wcs)) // the goroutine sleeps, and holds no thread
	check(wcs[0].Err())
	// end
	c.OnClose(mr.Close)
	check(c.Close())
	<-received
	check(l.Close())
}

// receiver starts the peer of verbs, which prints one message and closes received when the connection has ended.
func receiver(ctx context.Context) (l *rdmacm.Listener, received chan struct{}) {
	var mr *ibv.MR
	// The receive is posted before the client can send.
	prepare := func(c *rdmacm.Conn) (err error) {
		if mr, err = c.PD().AllocMR(4096, ibv.LocalWrite, nil); err != nil {
			return err
		}
		c.OnClose(mr.Close)
		_, err = c.QP().PostRecv([]ibv.RecvWR{{ID: 1, SGEs: []ibv.SGE{mr.SGE(0, 4096)}}})
		return err
	}
	l = must(rdmacm.Listen(ctx, "10.88.0.1:7472", &rdmacm.Options{Prepare: prepare}))
	received = make(chan struct{})
	go func() {
		defer close(received)
		c := must(l.Accept(ctx))
		wcs := make([]ibv.WC, 1)
		_, err := c.CQ().Wait(ctx, wcs)
		check(errors.Join(err, wcs[0].Err()))
		fmt.Printf("verbs: %s\n", mr.Bytes()[:wcs[0].ByteLen])
		<-c.Done()
		check(c.Close())
	}()
	return l, received
}
