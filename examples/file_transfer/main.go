// File_transfer sends files over RDMA with package rdma:
//
//	file_transfer 10.8.0.1:7471 > copy     waits for a peer and writes what it sends
//	file_transfer 10.8.0.1:7471 FILE       sends FILE to it
package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/pureverbs/pureverbs/rdma"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var (
		n   int64
		sum = sha256.New()
		err error
	)
	switch len(os.Args) {
	case 2:
		n, err = receive(ctx, os.Args[1], io.MultiWriter(os.Stdout, sum))
	case 3:
		n, err = send(ctx, os.Args[1], os.Args[2], sum)
	default:
		fmt.Fprintln(os.Stderr, "usage: file_transfer HOST:PORT [FILE]")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "file_transfer: after %d bytes: %v\n", n, err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stderr, "%d bytes, SHA-256 %x\n", n, sum.Sum(nil))
}

// receive writes to w what the first peer sends.
func receive(ctx context.Context, addr string, w io.Writer) (int64, error) {
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
	return io.Copy(w, s) // from the blocks in which it came
}

// send sends a file and waits until the peer has closed, which it does after the last byte.
func send(ctx context.Context, addr, name string, sum io.Writer) (int64, error) {
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
	_, err = s.Read(make([]byte, 1))
	if err == io.EOF {
		err = nil
	}
	return n, err
}
