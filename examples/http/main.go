// Http serves a folder over RDMA, and gets files of one: net/http on streams of package rdma.
//
//	http -d FOLDER          serves any number of clients
//	http -s HOST -g NAME    prints a file
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/pureverbs/pureverbs/examples/frame"
	"github.com/pureverbs/pureverbs/rdma"
)

const synopsis = `http -d FOLDER          serves any number of clients
http -s HOST -g NAME    prints a file
`

var (
	server = flag.String("s", "", "`address` of the server; without it, be one")
	bind   = flag.String("b", "", "`address` to serve at; without it, all")
	port   = flag.String("p", "7475", "`port` of the server")
	folder = flag.String("d", ".", "`folder` to serve")
	name   = flag.String("g", "", "`name` of the file to get")
)

func main() { frame.Main(synopsis, run) }

func run(ctx context.Context, out io.Writer) error {
	if *server == "" {
		return serve(ctx, net.JoinHostPort(*bind, *port), http.FileServer(http.Dir(*folder)), out)
	}
	return get(ctx, url.URL{Scheme: "http", Host: net.JoinHostPort(*server, *port), Path: *name}, out)
}

// serve serves clients until ctx ends.
func serve(ctx context.Context, addr string, h http.Handler, out io.Writer) error {
	l, err := rdma.ListenStream(ctx, addr, nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "serving at %v\n", l.Addr())
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done(): // interrupted, as intended: replies that have begun are sent
		return srv.Shutdown(context.WithoutCancel(ctx))
	}
}

func get(ctx context.Context, from url.URL, out io.Writer) error {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
		return rdma.DialStream(ctx, addr, nil)
	}}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%v: %s", &from, resp.Status)
	}
	_, err = io.Copy(out, resp.Body)
	return err
}
