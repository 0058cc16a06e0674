// Web serves a page over RDMA and over TCP, and gets it over RDMA.
//
//	web serve ADDRESS
//	web get URL
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"

	"github.com/pureverbs/pureverbs/rdma"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: web serve ADDRESS, or web get URL")
	}
	run := map[string]func(string) error{"serve": serve, "get": get}[os.Args[1]]
	if run == nil {
		log.Fatalf("%s: want serve or get", os.Args[1])
	}
	if err := errors.Join(run(os.Args[2]), rdma.CloseIdle()); err != nil {
		log.Fatal(err)
	}
}

// doc: http-transport
type transportKey struct{}

// withTransport is the ConnContext of the http.Server.
func withTransport(ctx context.Context, c net.Conn) context.Context { // with TLS: c.(*tls.Conn).NetConn()
	return context.WithValue(ctx, transportKey{}, c.(*rdma.Stream).Transport())
}

func page(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "hello over %s, %s\n", r.Proto, r.Context().Value(transportKey{}))
}

// end

func serve(addr string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	// doc: http-listen
	l, err := rdma.ListenStream(ctx, addr, &rdma.Options{Fallback: true}) // was: net.Listen("tcp", addr)
	// end
	if err != nil {
		return err
	}
	fmt.Println("listening at", l.Addr())
	server := &http.Server{Handler: http.HandlerFunc(page), ConnContext: withTransport}
	stopped := make(chan error)
	go func() {
		<-ctx.Done()
		stopped <- server.Shutdown(context.Background())
	}()
	if err := server.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return <-stopped
}

func get(url string) error {
	// doc: http-client
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // HTTP_PROXY would be dialed over RDMA too
	transport.DialContext = func(ctx context.Context, _, addr string) (net.Conn, error) {
		return rdma.DialStream(ctx, addr, nil)
	}
	client := &http.Client{Transport: transport}
	// end
	defer client.CloseIdleConnections()
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(os.Stdout, resp.Body)
	return err
}
