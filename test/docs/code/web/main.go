// Web serves a page over RDMA and over TCP, and gets it.
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

func page(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "hello, %s, over %s\n", r.RemoteAddr, r.Proto)
}

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
	server := &http.Server{Handler: http.HandlerFunc(page), Protocols: protocols()}
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

// protocols allows HTTP/2 without TLS, next to HTTP/1.
func protocols() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return &p
}

func get(url string) error {
	// doc: http-client
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = func(ctx context.Context, _, addr string) (net.Conn, error) {
		return rdma.DialStream(ctx, addr, &rdma.Options{Fallback: true})
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
