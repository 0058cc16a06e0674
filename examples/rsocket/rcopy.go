package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

type copyOptions struct {
	options
	directory    string
	source, dest string // of a client
}

func parseCopy(args []string) (*copyOptions, error) {
	o := &copyOptions{}
	f := o.newFlags("rsocket rcopy -d DIRECTORY [options]\nrsocket rcopy FILE HOST[:NAME] [options]\n", "7427")
	f.StringVarP(&o.directory, "directory", "d", ".", "where a server writes")
	if err := o.parse(f, args, 2); err != nil || f.NArg() == 0 {
		return o, err
	}
	o.source = f.Arg(0)
	o.server, o.dest = split(f.Arg(1))
	switch {
	case f.NArg() == 1:
		return nil, errors.New("1 argument: want FILE and HOST:NAME, or none")
	case o.server == "":
		return nil, fmt.Errorf("%q has no host", f.Arg(1))
	case o.dest == "":
		o.dest = filepath.Base(o.source)
	case len(o.dest) > longestName:
		return nil, fmt.Errorf("a name of %d bytes: want at most %d", len(o.dest), longestName)
	}
	return o, nil
}

// split divides HOST:NAME. An IPv6 address is in brackets.
func split(s string) (host, name string) {
	if rest, ok := strings.CutPrefix(s, "["); ok {
		host, name, _ = strings.Cut(rest, "]")
		return host, strings.TrimPrefix(name, ":")
	}
	host, name, _ = strings.Cut(s, ":")
	return host, name
}

// rcopy copies a file to another host over an rsocket, with itself or with the stock rcopy, as server or as client.
//
//	rsocket rcopy -d DIRECTORY               # on one host: waits, until interrupted
//	rsocket rcopy FILE HOST:NAME             # on the other
//
// A server writes files in its directory and below it, nowhere else, for any client: use it on a network that you
// trust.
func rcopy(args []string) (task, error) {
	o, err := parseCopy(args)
	if err != nil {
		return nil, err
	}
	if o.server != "" {
		return func(ctx context.Context, out io.Writer) error { return sendFile(ctx, o, out) }, nil
	}
	return func(ctx context.Context, out io.Writer) error { return serveFiles(ctx, o, out) }, nil
}

// sendFile is the whole of a client.
func sendFile(ctx context.Context, o *copyOptions, out io.Writer) (err error) {
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
	s, err := dial(ctx, &o.options)
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
	n, err := io.Copy(s, io.LimitReader(f, info.Size()))
	if err == nil && n < info.Size() {
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
func serveFiles(ctx context.Context, o *copyOptions, out io.Writer) (err error) {
	root, err := os.OpenRoot(o.directory)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	l, err := listen(ctx, &o.options, out)
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
		case c.kind == openFile && f == nil:
			f, failed = root.OpenFile(c.text(), os.O_RDWR|os.O_CREATE|os.O_TRUNC, fs.FileMode(c.data).Perm())
		case c.kind == writeFile && f != nil && len(c.rest) == 8 && c.number() >= 0:
			var n int64
			n, failed = store(f, s, c.number())
			fmt.Fprintf(out, "%q: %d bytes of %d\n", f.Name(), n, c.number())
		case c.kind == closeFile && f != nil:
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
