// Reference has the code of docs/rdma.md, and the calls of docs/guide/first-messages.md, with both ends of each part in
// one process.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/pureverbs/pureverbs/rdma"
)

func main() {
	log.SetFlags(0)
	ctx := context.Background()
	messages(ctx)
	calls(ctx)
	guideCalls(ctx)
	streams(ctx)
	datagrams(ctx)
	leases(ctx)
	check(rdma.CloseIdle())
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

// start runs f on a goroutine, and returns a channel that is closed when it returns.
func start(f func()) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return done
}

func messages(ctx context.Context) {
	// doc: rdma-server
	l := must(rdma.Listen(ctx, "10.88.0.1:7471", nil)) // the server
	// end
	done := start(func() {
		// doc: rdma-server
		c := must(l.Accept(ctx))
		m := must(c.Recv(ctx))        // the error is io.EOF after the peer's Close
		check(c.Send(ctx, m.Bytes())) // copies
		m.Release()
		// end
		m = must(c.Recv(ctx))
		fmt.Printf("%d bytes of a buffer\n", len(m.Bytes()))
		m.Release()
		check(c.Close())
	})
	// doc: rdma-client
	c := must(rdma.Dial(ctx, "10.88.0.1:7471", nil)) // the client
	check(c.Send(ctx, []byte("hello")))
	m := must(c.Recv(ctx))
	fmt.Printf("%s\n", m.Bytes())
	m.Release()

	// end
	data := make([]byte, 100_000)
	// doc: rdma-buffer
	b := must(c.Engine().Pool().GetWait(ctx, 256<<10)) // Get fails instead of waiting
	b.Truncate(copy(b.Bytes(), data))
	check(c.SendBuffer(ctx, b)) // b is no longer the program's, even if SendBuffer fails
	// end
	// doc: rdma-client
	check(c.Close()) // waits until the peer's adapter has everything
	// end
	<-done
	check(l.Close())
}

func calls(ctx context.Context) {
	l := must(rdma.Listen(ctx, "10.88.0.1:7472", nil))
	done := start(func() {
		c := must(l.Accept(ctx))
		// doc: rdma-serve
		upper := func(ctx context.Context, request *rdma.Message) ([]byte, error) {
			return bytes.ToUpper(request.Bytes()), nil
		}
		check(rdma.Serve(ctx, c, upper)) // the server: returns after the peer's Close, and does not close c
		// end
		check(c.Close())
	})
	c := must(rdma.Dial(ctx, "10.88.0.1:7472", nil))
	// doc: rdma-call
	caller := must(rdma.NewCaller(c)) // the client: one for each connection, for any number of goroutines
	reply := must(caller.Call(ctx, []byte("hello")))
	// end
	fmt.Printf("%s\n", reply.Bytes())
	// doc: rdma-call
	reply.Release()
	// end
	check(caller.Close())
	<-done
	check(l.Close())
}

func guideCalls(ctx context.Context) {
	l := must(rdma.Listen(ctx, "10.88.0.1:7473", nil))
	done := start(func() {
		c := must(l.Accept(ctx))
		check(serve(ctx, c))
		check(c.Close())
	})
	check(call(ctx, must(rdma.Dial(ctx, "10.88.0.1:7473", nil))))
	<-done
	check(l.Close())
}

func serve(ctx context.Context, c *rdma.Conn) error {
	// doc: calls-serve
	upper := func(_ context.Context, request *rdma.Message) ([]byte, error) {
		return bytes.ToUpper(request.Bytes()), nil
	}
	err := rdma.Serve(ctx, c, upper) // until the client closes
	// end
	return err
}

func call(ctx context.Context, c *rdma.Conn) error {
	// doc: calls-call
	caller, err := rdma.NewCaller(c)
	if err != nil {
		return err // the connection has a Caller
	}
	reply, err := caller.Call(ctx, []byte("hello"))
	if err != nil {
		return err // a *rdma.CallError if the handler returned an error
	}
	fmt.Printf("%s\n", reply.Bytes())
	reply.Release()
	return caller.Close()
	// end
}

func streams(ctx context.Context) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "by HTTP") })
	// doc: rdma-http
	l := must(rdma.ListenStream(ctx, "10.88.0.1:7475", nil))
	go http.Serve(l, handler) // or grpc.NewServer().Serve(l)

	dial := func(ctx context.Context, _, addr string) (net.Conn, error) { return rdma.DialStream(ctx, addr, nil) }
	client := http.Client{Transport: &http.Transport{DialContext: dial}}
	// end
	resp := must(client.Get("http://10.88.0.1:7475/"))
	fmt.Printf("%s\n", must(io.ReadAll(resp.Body)))
	check(resp.Body.Close())
	client.CloseIdleConnections()
	check(l.Close())
}

func datagrams(ctx context.Context) {
	// doc: rdma-packet-server
	p := must(rdma.ListenPacket(ctx, "10.88.0.1:7476", nil)) // the server
	// end
	done := start(func() {
		buf := make([]byte, 100)
		// doc: rdma-packet-server
		n, from, err := p.ReadFrom(buf)
		check(err)
		must(p.WriteTo(buf[:n], from))
		// end
	})
	packetClient(ctx)
	<-done
	check(p.Close())
}

func packetClient(ctx context.Context) {
	buf := make([]byte, 100)
	// doc: rdma-packet-client
	p := must(rdma.DialPacket(ctx, "10.88.0.1:7476", nil)) // the client
	must(p.Write([]byte("hello")))
	check(p.SetReadDeadline(time.Now().Add(time.Minute))) // a datagram may be lost
	n := must(p.Read(buf))
	// end
	fmt.Printf("%s\n", buf[:n])
	check(p.Close())
}

func leases(ctx context.Context) {
	opt := &rdma.Options{Leases: &rdma.LeaseOptions{}}
	l := must(rdma.Listen(ctx, "10.88.0.1:7477", opt))
	done := start(func() {
		c := must(l.Accept(ctx))
		owner(ctx, c)
		check(c.Close())
	})
	c := must(rdma.Dial(ctx, "10.88.0.1:7477", opt))
	borrower(ctx, c)
	<-done
	check(c.Close())
	check(l.Close())
}

func owner(ctx context.Context, c *rdma.Conn) {
	// doc: rdma-owner
	b := must(c.Engine().Pool().Get(1 << 20)) // the owner
	lease := must(c.Lend(ctx, b, rdma.MayRead|rdma.MayWrite, time.Minute))
	b = must(lease.Wait(ctx)) // until the peer returns it; Revoke ends it earlier
	// end
	fmt.Printf("%s\n", b.Bytes()[:4])
	// doc: rdma-owner
	b.Release()
	// end
}

func borrower(ctx context.Context, c *rdma.Conn) {
	data := "lent"
	// doc: rdma-borrower
	region := must(c.Borrow(ctx)) // the borrower
	b := must(c.Engine().Pool().Get(4096))
	copy(b.Bytes(), data)
	check(region.Write(ctx, b, 0)) // nil: the bytes are in the owner's memory
	check(region.Return(ctx))
	b.Release()
	// end
}

// Output:
// hello
// 100000 bytes of a buffer
// HELLO
// HELLO
// by HTTP
// hello
// lent
