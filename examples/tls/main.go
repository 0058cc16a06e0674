// Tls speaks TLS over a stream of package rdma. RDMA itself encrypts nothing and does not know who the peer
// is. The price is that the processor encrypts and copies every byte.
//
//	tls -c FILE                    writes its certificate to FILE, and sends back what clients say
//	tls -s HOST -c FILE -m TEXT    sends TEXT, and prints the reply
package main

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"time"

	"github.com/pureverbs/pureverbs/examples/frame"
	"github.com/pureverbs/pureverbs/rdma"
)

const synopsis = `tls -c FILE                    writes its certificate to FILE, and sends back what clients say
tls -s HOST -c FILE -m TEXT    sends TEXT, and prints the reply
`

var (
	server  = flag.String("s", "", "`address` of the server; without it, be one")
	bind    = flag.String("b", "", "`address` to serve at; without it, all")
	port    = flag.String("p", "7476", "`port` of the server")
	file    = flag.String("c", "cert.pem", "`file` of the server's certificate, which clients trust")
	message = flag.String("m", "hello", "`text` to send")
)

func main() { frame.Main(synopsis, run) }

func run(ctx context.Context, out io.Writer) error {
	if *server == "" {
		return serve(ctx, net.JoinHostPort(*bind, *port), out)
	}
	return call(ctx, *server, *port, out)
}

// serve serves clients until ctx ends.
func serve(ctx context.Context, addr string, out io.Writer) error {
	cert, err := certificate(*file)
	if err != nil {
		return err
	}
	l, err := rdma.ListenStream(ctx, addr, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintf(out, "serving at %v\n", l.Addr())
	conf := &tls.Config{Certificates: []tls.Certificate{cert}}
	return frame.Serve(ctx, l.AcceptStream, func(ctx context.Context, s *rdma.Stream) error {
		c := tls.Server(s, conf)
		defer c.Close()
		defer context.AfterFunc(ctx, func() { _ = s.Close() })()
		_, err := io.Copy(c, c) // the handshake too
		return err
	})
}

func call(ctx context.Context, host, port string, out io.Writer) error {
	text, err := os.ReadFile(*file)
	if err != nil {
		return err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(text)
	s, err := rdma.DialStream(ctx, net.JoinHostPort(host, port), nil)
	if err != nil {
		return err
	}
	c := tls.Client(s, &tls.Config{RootCAs: trusted, ServerName: host})
	defer c.Close()
	if err := c.HandshakeContext(ctx); err != nil {
		return err
	}
	if _, err := io.WriteString(c, *message); err != nil {
		return err
	}
	if err := c.CloseWrite(); err != nil {
		return err
	}
	reply, err := io.ReadAll(c)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\n%s over %s\n", reply, tls.VersionName(c.ConnectionState().Version), s.Transport())
	return nil
}

// certificate makes a key, and a certificate for the addresses of this host that it writes to a file.
func certificate(file string) (cert tls.Certificate, err error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return cert, err
	}
	now := time.Now()
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now, NotAfter: now.AddDate(1, 0, 0)}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return cert, err
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			c.IPAddresses = append(c.IPAddresses, n.IP)
		}
	}
	der, err := x509.CreateCertificate(nil, c, c, public, private)
	if err != nil {
		return cert, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, os.WriteFile(file, text, 0o644)
}
