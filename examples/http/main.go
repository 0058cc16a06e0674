// Http serves a folder over RDMA, and gets files of one: net/http on streams of package rdma.
//
//	http -d FOLDER             serves any number of clients
//	http -s HOST -g NAME       prints a file
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/pureverbs/pureverbs/examples/internal/cm"
	"github.com/pureverbs/pureverbs/rdma"
)

func main() { cm.Main("http", run) }

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	f := cm.Flags("http")
	host := f.StringP("server", "s", "", "`address` of the server; without it, be one")
	bind := f.StringP("bind", "b", "", "`address` to serve at; without it, all")
	port := f.StringP("port", "p", "7475", "`port` of the server")
	folder := f.StringP("dir", "d", ".", "`folder` to serve")
	name := f.StringP("get", "g", "", "`name` of the file to get")
	if err := cm.Parse(f, args, "http -d FOLDER\nhttp -s HOST -g NAME\n", func() error { return nil }); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rdma.CloseIdle()) }()
	if *host == "" {
		return serve(ctx, net.JoinHostPort(*bind, *port), http.FileServer(http.Dir(*folder)), out)
	}
	return get(ctx, url.URL{Scheme: "http", Host: net.JoinHostPort(*host, *port), Path: *name}, out)
}

func serve(ctx context.Context, addr string, h http.Handler, out io.Writer) error {
	l, err := rdma.ListenStream(ctx, addr, nil)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	fmt.Fprintf(out, "serving at %v\n", l.Addr())
	return http.Serve(l, h)
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
