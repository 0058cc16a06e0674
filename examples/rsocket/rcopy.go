package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/pureverbs/pureverbs/rdmacm/rsocket"
)

// rcopy copies a file to another host over an rsocket, with itself or with the stock rcopy, as server or as client.
//
//	rsocket rcopy -d DIRECTORY               # on one host: waits, until interrupted
//	rsocket rcopy FILE HOST:NAME             # on the other
//
// A server writes files in its directory and below it, nowhere else, for any client: use it on a network that you
// trust.
func rcopy(ctx context.Context, o *options, out io.Writer) error {
	if o.Server != "" {
		return sendFile(ctx, o, out)
	}
	return serveFiles(ctx, o, out)
}

// sendFile is the whole of a client.
func sendFile(ctx context.Context, o *options, out io.Writer) (err error) {
	f, err := os.Open(o.source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", o.source)
	}
	s, err := dial(ctx, o, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := request(s, openFile, uint32(info.Mode().Perm()), name(o.dest)); err != nil {
		return fmt.Errorf("%s: %w", o.dest, err)
	}
	start := time.Now()
	if err := tell(s, writeFile, 0, size(info.Size())); err != nil {
		return err
	}
	n, err := io.CopyN(s, f, info.Size())
	if err == io.EOF {
		err = errors.New("the file became shorter")
	}
	if err != nil {
		return err
	}
	if err := result(s, writeFile); err != nil { // all is there
		return err
	}
	took := max(time.Since(start).Seconds(), 1e-9)
	if err := request(s, closeFile, 0, nil); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d bytes in %.3f s: %.2f Gb/s\n", n, took, float64(n)*8/took/1e9)
	return nil
}

// serveFiles serves one client after the other until interrupted.
func serveFiles(ctx context.Context, o *options, out io.Writer) (err error) {
	root, err := os.OpenRoot(o.directory)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	l, err := open(ctx, o, rsocket.Stream, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for {
		s, err := l.Accept()
		if ctx.Err() != nil {
			return nil // interrupted, as intended
		}
		if err != nil {
			return err
		}
		peer, _ := s.RemoteAddr()
		if err := errors.Join(receive(s, root, out), s.Close()); err != nil {
			fmt.Fprintf(out, "%v: %v\n", peer.Addr(), err)
		}
	}
}

// receive does what a client asks for until it ends the connection.
func receive(s io.ReadWriter, root *os.Root, out io.Writer) (err error) {
	var f *os.File
	defer func() {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	for {
		c, err := read(s)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var failed error // which the client is told
		switch {
		case c.Kind == openFile && f == nil:
			f, failed = root.OpenFile(c.text(), os.O_RDWR|os.O_CREATE|os.O_TRUNC, fs.FileMode(c.Data).Perm())
		case c.Kind == writeFile && f != nil && len(c.rest) == 8 && c.number() >= 0:
			var n int64
			n, failed = store(f, s, c.number())
			fmt.Fprintf(out, "%q: %d bytes of %d\n", f.Name(), n, c.number())
		case c.Kind == closeFile && f != nil:
			failed = f.Close()
			f = nil
		default:
			failed = errOrder
		}
		if err := reply(s, c, failed); err != nil {
			return err
		}
		if e := (*fs.PathError)(nil); errors.As(failed, &e) {
			return fmt.Errorf("%s %q: %w", e.Op, e.Path, e.Err) // a terminal might obey a name
		}
		if failed != nil {
			return failed
		}
	}
}

// store writes a file of that size. If it cannot be written the rest is dropped, because the client reads no reply
// before it has sent all.
func store(f io.Writer, s io.Reader, size int64) (int64, error) {
	all := &io.LimitedReader{R: s, N: size}
	n, err := io.Copy(f, all)
	switch {
	case errors.As(err, new(*fs.PathError)):
		_, _ = io.Copy(io.Discard, all)
	case err == nil && n < size:
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
