// File_transfer sends a file over RDMA with package rdma.
//
//	file_transfer -o COPY            waits for a peer, and writes what it sends
//	file_transfer -s HOST -f FILE    sends FILE to it
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"hash"
	"io"
	"net"
	"os"

	"github.com/pureverbs/pureverbs/examples/frame"
	"github.com/pureverbs/pureverbs/rdma"
)

const synopsis = `file_transfer -o COPY            waits for a peer, and writes what it sends
file_transfer -s HOST -f FILE    sends FILE to it
`

var (
	server = flag.String("s", "", "`address` of the peer; without it, wait for one")
	bind   = flag.String("b", "", "`address` to wait at; without it, all")
	port   = flag.String("p", "7471", "`port` of the side that waits")
	file   = flag.String("f", "", "`file` to send")
	output = flag.String("o", "", "`file` to write")
)

func main() { frame.Main(synopsis, run) }

func run(ctx context.Context, out io.Writer) (err error) {
	sum := sha256.New()
	var n int64
	switch {
	case *server == "" && *output != "":
		n, err = receive(ctx, net.JoinHostPort(*bind, *port), *output, sum)
	case *server != "" && *file != "":
		n, err = send(ctx, net.JoinHostPort(*server, *port), *file, sum)
	default:
		return errors.New("want -o, or -s and -f")
	}
	if err != nil {
		return fmt.Errorf("after %d bytes: %w", n, err)
	}
	fmt.Fprintf(out, "%d bytes, SHA-256 %x\n", n, sum.Sum(nil))
	return nil
}

// receive writes what the first peer sends.
func receive(ctx context.Context, addr, name string, sum hash.Hash) (n int64, err error) {
	f, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	l, err := rdma.ListenStream(ctx, addr, nil)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	s, err := l.AcceptStream(ctx)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	return io.Copy(io.MultiWriter(f, sum), s) // from the blocks in which it arrived
}

// send sends a file and waits until the peer has closed, which it does after the last byte.
func send(ctx context.Context, addr, name string, sum hash.Hash) (int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	s, err := rdma.DialStream(ctx, addr, nil)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	n, err := io.Copy(s, io.TeeReader(f, sum))
	if err != nil {
		return n, err
	}
	if err := s.CloseWrite(); err != nil {
		return n, err
	}
	if _, err = s.Read(make([]byte, 1)); err == io.EOF {
		err = nil
	}
	return n, err
}
