package rdma_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/pureverbs/pureverbs/rdma"
)

// echo asks itself over a connection at an address of a device, such as "10.8.0.1:0".
func echo(ctx context.Context, addr, text string) (answer string, err error) {
	l, err := rdma.Listen(ctx, addr, nil)
	if err != nil {
		return "", err
	}
	defer l.Close()
	go func() { // a server has one of these for each connection
		c, err := l.Accept(ctx)
		if err != nil {
			return
		}
		defer c.Close()
		for {
			m, err := c.Recv(ctx) // io.EOF after the peer's Close
			if err != nil {
				return
			}
			_ = c.Send(ctx, m.Bytes()) // the next Recv says what is wrong
			m.Release()
		}
	}()
	c, err := rdma.Dial(ctx, l.Addr().String(), nil)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.Send(ctx, []byte(text)); err != nil {
		return "", err
	}
	m, err := c.Recv(ctx)
	if err != nil {
		return "", err
	}
	defer m.Release()
	return string(m.Bytes()), nil
}

// Messages, with the server and the client in one process.
func Example() {
	fmt.Println(echo(context.Background(), "10.8.0.1:7471", "hello"))
}

// call makes a call over a connection.
func call(ctx context.Context, addr, request string) (answer string, err error) {
	l, err := rdma.Listen(ctx, addr, nil)
	if err != nil {
		return "", err
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err == nil {
			err = rdma.Serve(ctx, c, func(_ context.Context, request *rdma.Message) ([]byte, error) {
				if request.Len() == 0 {
					return nil, errors.New("an empty request") // a *CallError at the caller
				}
				return append([]byte("you said "), request.Bytes()...), nil
			})
			err = errors.Join(err, c.Close())
		}
		served <- err
	}()
	c, err := rdma.Dial(ctx, l.Addr().String(), nil)
	if err != nil {
		return "", err
	}
	caller, err := rdma.NewCaller(c)
	if err != nil {
		return "", errors.Join(err, c.Close())
	}
	defer func() { err = errors.Join(err, caller.Close(), <-served) }()
	m, err := caller.Call(ctx, []byte(request)) // of many goroutines, if need be
	if err != nil {
		return "", err
	}
	defer m.Release()
	return string(m.Bytes()), nil
}

// Requests and answers.
func ExampleCaller() {
	fmt.Println(call(context.Background(), "10.8.0.1:7472", "hello"))
}

// fetch gets a page by HTTP over a stream.
func fetch(ctx context.Context, addr, page string) (body string, err error) {
	l, err := rdma.ListenStream(ctx, addr, nil)
	if err != nil {
		return "", err
	}
	server := http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page) })}
	go server.Serve(l) // until Close
	defer server.Close()

	transport := &http.Transport{DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
		return rdma.DialStream(ctx, addr, nil)
	}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.Addr().String()+"/", nil)
	if err != nil {
		return "", err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	return string(b), err
}

// Streams are net.Conn: HTTP over RDMA.
func ExampleDialStream() {
	fmt.Println(fetch(context.Background(), "10.8.0.1:7473", "a page"))
}

// lend has a peer write into memory of this side.
func lend(ctx context.Context, addr, text string) (written string, err error) {
	opt := &rdma.Options{Leases: &rdma.LeaseOptions{}} // at both ends
	l, err := rdma.Listen(ctx, addr, opt)
	if err != nil {
		return "", err
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() { done <- borrow(ctx, l, text) }()

	c, err := rdma.Dial(ctx, l.Addr().String(), opt)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, c.Close(), <-done) }()
	b, err := c.Engine().Pool().Get(4096)
	if err != nil {
		return "", err
	}
	lease, err := c.Lend(ctx, b, rdma.MayRead|rdma.MayWrite, time.Minute)
	if err != nil {
		b.Release()
		return "", err
	}
	if b, err = lease.Wait(ctx); err != nil { // from here on the peer reads and writes nothing
		return "", err
	}
	defer b.Release()
	return string(b.Bytes()[:len(text)]), nil
}

// borrow is the peer: it writes without the owner's processor.
func borrow(ctx context.Context, l *rdma.Listener, text string) error {
	c, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	region, err := c.Borrow(ctx)
	if err != nil {
		return err
	}
	local, err := c.Engine().Pool().Get(len(text))
	if err != nil {
		return err
	}
	defer local.Release()
	copy(local.Bytes(), text)
	if err := region.Write(ctx, local, 0); err != nil {
		return err
	}
	if err := region.Return(ctx); err != nil {
		return err
	}
	if _, err := c.Recv(ctx); err != io.EOF {
		return err
	}
	return nil
}

// Memory that the peer writes by itself, for a while.
func ExampleConn_Lend() {
	fmt.Println(lend(context.Background(), "10.8.0.1:7474", "from afar"))
}

// datagram sends one datagram and gets one back.
func datagram(ctx context.Context, addr, text string) (answer string, err error) {
	l, err := rdma.ListenPacket(ctx, addr, nil)
	if err != nil {
		return "", err
	}
	defer l.Close()
	go func() {
		p := make([]byte, l.MaxDatagram())
		for {
			n, from, err := l.ReadFrom(p)
			if err != nil {
				return
			}
			_, _ = l.WriteTo(p[:n], from)
		}
	}()
	c, err := rdma.DialPacket(ctx, l.LocalAddr().String(), nil)
	if err != nil {
		return "", err
	}
	defer c.Close()
	p := make([]byte, c.MaxDatagram())
	for { // datagrams may be lost
		if _, err := c.Write([]byte(text)); err != nil {
			return "", err
		}
		if err := c.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			return "", err
		}
		n, err := c.Read(p)
		if err == nil {
			return string(p[:n]), nil
		}
		if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() || ctx.Err() != nil {
			return "", err
		}
	}
}

// Datagrams, which may be lost.
func ExampleListenPacket() {
	fmt.Println(datagram(context.Background(), "10.8.0.1:7475", "short"))
}
