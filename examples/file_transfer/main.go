// File_transfer sends a file over RDMA with package rdma:
//
//	file_transfer -o COPY              waits for a peer and writes what it sends
//	file_transfer -s HOST -f FILE      sends FILE to it
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"os"

	"github.com/pureverbs/pureverbs/examples/internal/cm"
	"github.com/pureverbs/pureverbs/rdma"
)

func main() { cm.Main("file_transfer", run) }

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	f := cm.Flags("file_transfer")
	host := f.StringP("server", "s", "", "`address` of the peer; without it, wait for one")
	bind := f.StringP("bind", "b", "", "`address` to wait at; without it, all")
	port := f.StringP("port", "p", "7471", "`port` of who waits")
	file := f.StringP("file", "f", "", "`file` to send")
	name := f.StringP("output", "o", "", "`file` to write")
	err = cm.Parse(f, args, "file_transfer -o COPY\nfile_transfer -s HOST -f FILE\n", func() error {
		if (*file == "") == (*name == "") || (*host == "") != (*file == "") {
			return errors.New("want -o, or -s and -f")
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rdma.CloseIdle()) }() // waits until Close has told the peer
	sum := sha256.New()
	var n int64
	if *host == "" {
		n, err = receive(ctx, net.JoinHostPort(*bind, *port), *name, sum)
	} else {
		n, err = send(ctx, net.JoinHostPort(*host, *port), *file, sum)
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
	return io.Copy(io.MultiWriter(f, sum), s) // from the blocks in which it came
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
	n, err := io.Copy(s, io.TeeReader(f, sum)) // into the blocks in which it leaves
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
