// Proxy is a reverse proxy: it takes HTTP over TCP, and forwards it over RDMA to a server such as example
// http. Clients need no change, and many of them share few RDMA connections.
//
//	proxy -l :8080 -s HOST:7475    forwards until interrupted
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/pureverbs/pureverbs/examples/frame"
	"github.com/pureverbs/pureverbs/rdma"
)

const synopsis = `proxy -l :8080 -s HOST:7475    forwards until interrupted
`

var (
	listen  = flag.String("l", ":8080", "TCP `address` to serve at")
	backend = flag.String("s", "", "`address` of the server, with its port")
)

func main() { frame.Main(synopsis, run) }

func run(ctx context.Context, out io.Writer) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "serving at %v\n", l.Addr())
	tr := &http.Transport{
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return rdma.DialStream(ctx, addr, nil)
		},
		MaxIdleConnsPerHost: 16, // a connection is worth keeping
	}
	defer tr.CloseIdleConnections()
	proxy := &httputil.ReverseProxy{
		Transport: tr,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: *backend})
			r.SetXForwarded()
		},
	}
	srv := &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done(): // interrupted, as intended: replies that have begun are sent
		return srv.Shutdown(context.WithoutCancel(ctx))
	}
}
