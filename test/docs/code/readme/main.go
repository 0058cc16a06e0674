// Readme runs the programs of README.md on the first RDMA device.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// check ends the program on an error.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	ctx := context.Background()
	messages(ctx)
	streams()
	verbs(ctx)
	check(rdma.CloseIdle())
}

func messages(ctx context.Context) {
	// doc: readme-messages
	l, err := rdma.Listen(ctx, "10.88.0.1:7471", nil) // the server, on an address of its RDMA device
	check(err)
	// end
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		client(ctx)
	}()
	// doc: readme-messages
	c, err := l.Accept(ctx)
	check(err)
	m, err := c.Recv(ctx) // m.Bytes() are valid until m.Release()
	check(err)
	// end
	fmt.Printf("message: %s\n", m.Bytes())
	m.Release()
	<-done
	check(c.Close())
}

func client(ctx context.Context) {
	// doc: readme-messages
	c, err := rdma.Dial(ctx, "10.88.0.1:7471", nil) // the client
	check(err)
	check(c.Send(ctx, []byte("hello"))) // returns when the message is accepted
	check(c.Flush(ctx))                 // waits until it is in the server's memory
	// end
	check(c.Close())
}

func streams() {
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	// doc: readme-http
	l, err := rdma.ListenStream(context.Background(), "10.88.0.1:8080", nil)
	check(err)
	go http.Serve(l, handler)

	dial := func(ctx context.Context, _, addr string) (net.Conn, error) { return rdma.DialStream(ctx, addr, nil) }
	client := http.Client{Transport: &http.Transport{DialContext: dial}}
	resp, err := client.Get("http://10.88.0.1:8080/")
	check(err)
	// end
	body, err := io.ReadAll(resp.Body)
	check(errors.Join(err, resp.Body.Close()))
	fmt.Printf("http: %s\n", body)
	client.CloseIdleConnections()
	check(l.Close())
}

// receive starts the peer of verbs, which prints one message. served is closed when its connection is.
func receive(ctx context.Context) (l *rdmacm.Listener, served chan struct{}) {
	// It posts its receive before the client can send.
	var mr *ibv.MR
	l, err := rdmacm.Listen(ctx, "10.88.0.1:7472", &rdmacm.Options{Prepare: func(c *rdmacm.Conn) (err error) {
		if mr, err = c.PD().AllocMR(4096, ibv.LocalWrite, nil); err != nil {
			return err
		}
		c.OnClose(mr.Close)
		_, err = c.QP().PostRecv([]ibv.RecvWR{{ID: 1, SGEs: []ibv.SGE{mr.SGE(0, 4096)}}})
		return err
	}})
	check(err)
	served = make(chan struct{})
	go func() {
		defer close(served)
		c, err := l.Accept(ctx)
		check(err)
		wcs := make([]ibv.WC, 1)
		_, err = c.CQ().Wait(ctx, wcs)
		check(errors.Join(err, wcs[0].Err()))
		fmt.Printf("verbs: %s\n", mr.Bytes()[:wcs[0].ByteLen])
		<-c.Done()
		check(c.Close())
	}()
	return l, served
}

func verbs(ctx context.Context) {
	l, served := receive(ctx)
	// doc: readme-verbs
	c, err := rdmacm.Dial(ctx, "10.88.0.1:7472", nil) // a queue pair that is connected, its PD and its CQ
	check(err)
	mr, err := c.PD().AllocMR(4096, ibv.LocalWrite, nil) // registered memory: mr.Bytes()
	check(err)
	batch := c.QP().Batch()
	batch.Send(1, ibv.Signaled, mr.SGE(0, copy(mr.Bytes(), "hello")))
	check(batch.Post())
	wcs := make([]ibv.WC, 1)
	_, err = c.CQ().Wait(ctx, wcs) // until there is a completion
	check(errors.Join(err, wcs[0].Err()))
	// end
	c.OnClose(mr.Close)
	check(c.Close())
	<-served
	check(l.Close())
}

// Output:
// message: hello
// http: hello
// verbs: hello
