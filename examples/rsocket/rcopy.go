package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/examples/program"
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

// files reads the arguments of a client of rcopy: FILE and HOST[:NAME].
func (o *options) files(args []string) error {
	if len(args) == 1 {
		return errors.New("1 argument: want FILE and HOST:NAME, or none")
	}
	o.source = args[0]
	o.Server, o.dest = split(args[1])
	switch {
	case o.Server == "":
		return fmt.Errorf("%q has no host", args[1])
	case o.dest == "":
		o.dest = filepath.Base(o.source)
	case len(o.dest) > longestName:
		return fmt.Errorf("a name of %d bytes: want at most %d", len(o.dest), longestName)
	}
	return nil
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

// sendFile is the whole of a client.
func sendFile(ctx context.Context, o *options, out io.Writer) (err error) {
	defer program.Catch(&err)
	f := program.Must(os.Open(o.source))
	defer program.Close(f, &err)
	info := program.Must(f.Stat())
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", o.source)
	}
	s := program.Must(dial(ctx, o, out))
	defer program.Close(s, &err)
	if err := request(s, openFile, uint32(info.Mode().Perm()), name(o.dest)); err != nil {
		return fmt.Errorf("%s: %w", o.dest, err)
	}
	start := time.Now()
	program.Check(tell(s, writeFile, 0, size(info.Size())))
	n, err := io.CopyN(s, f, info.Size())
	if err == io.EOF {
		err = errors.New("the file became shorter")
	}
	program.Check(err)
	program.Check(result(s, writeFile)) // all is there
	took := max(time.Since(start).Seconds(), 1e-9)
	program.Check(request(s, closeFile, 0, nil))
	fmt.Fprintf(out, "%d bytes in %.3f s: %.2f Gb/s\n", n, took, float64(n)*8/took/1e9)
	return nil
}

// serveFiles serves one client after the other until interrupted.
func serveFiles(ctx context.Context, o *options, out io.Writer) (err error) {
	defer program.Catch(&err)
	root := program.Must(os.OpenRoot(o.directory))
	defer program.Close(root, &err)
	l := program.Must(open(ctx, o, rsocket.Stream, out))
	defer program.Close(l, &err)
	for {
		s, err := l.Accept()
		if ctx.Err() != nil {
			return nil // interrupted, as intended
		}
		program.Check(err)
		peer, _ := s.RemoteAddr()
		if err := errors.Join(receive(s, root, out), s.Close()); err != nil {
			fmt.Fprintf(out, "%v: %v\n", peer.Addr(), err)
		}
	}
}

// receive does what a client asks for until it ends the connection.
func receive(s io.ReadWriter, root *os.Root, out io.Writer) (err error) {
	defer program.Catch(&err)
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
		program.Check(err)
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
		program.Check(reply(s, c, failed))
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

// Kinds of commands. Each is answered.
const (
	openFile  = 1 // data is the file's mode, and its name follows
	closeFile = 2
	writeFile = 3 // the file's size follows, and the file

	answered = 0x80 // added to the kind of a reply, whose data is an errno
)

const (
	headerSize  = 16
	longestName = 4096
)

// header begins a command or a reply, in the byte order of the hosts.
type header struct {
	Version byte // 0
	Kind    byte
	Length  uint16 // of the header and the rest
	Data    uint32
	ID      uint64 // which the reply brings back
}

// command is a command or a reply.
type command struct {
	header
	rest []byte
}

var errOrder = errors.New("a command that is unknown, or out of order")

// MessageError reports a header that is none.
type MessageError struct {
	Version byte
	Length  uint16
}

func (e *MessageError) Error() string {
	return fmt.Sprintf("a command of version %d with %d bytes, want version 0 and %d to %d bytes: the peer is no rcopy",
		e.Version, e.Length, headerSize, headerSize+longestName+8)
}

// read reads a command, or a reply.
func read(r io.Reader) (*command, error) {
	c := &command{}
	if err := binary.Read(r, binary.NativeEndian, &c.header); err != nil {
		return nil, err
	}
	if c.Version != 0 || c.Length < headerSize || c.Length > headerSize+longestName+8 {
		return nil, &MessageError{c.Version, c.Length}
	}
	c.rest = make([]byte, c.Length-headerSize)
	_, err := io.ReadFull(r, c.rest)
	return c, err
}

func (c *command) write(w io.Writer) error {
	c.Length = uint16(headerSize + len(c.rest))
	b, err := binary.Append(nil, binary.NativeEndian, c.header)
	if err == nil {
		_, err = w.Write(append(b, c.rest...))
	}
	return err
}

// text is the rest as a name, which a zero byte ends.
func (c *command) text() string {
	s, _, _ := strings.Cut(string(c.rest), "\x00")
	return s
}

// number is the rest as a size.
func (c *command) number() int64 { return int64(binary.NativeEndian.Uint64(c.rest)) }

// name makes the rest of openFile: a multiple of eight bytes, at least one of them zero.
func name(s string) []byte { return append([]byte(s), make([]byte, 8-len(s)%8)...) }

// size makes the rest of writeFile.
func size(n int64) []byte { return binary.NativeEndian.AppendUint64(nil, uint64(n)) }

// tell sends a command.
func tell(w io.Writer, kind byte, data uint32, rest []byte) error {
	return (&command{header{Kind: kind, Data: data}, rest}).write(w)
}

// result waits for the reply to a command.
func result(r io.Reader, kind byte) error {
	c, err := read(r)
	switch {
	case err != nil:
		return err
	case c.Kind != kind|answered:
		return fmt.Errorf("a reply to command %#x, want one to %#x", c.Kind&^answered, kind)
	case c.Data != 0:
		return fmt.Errorf("the server says: %w", syscall.Errno(c.Data))
	}
	return nil
}

// request sends a command and waits for the reply.
func request(rw io.ReadWriter, kind byte, data uint32, rest []byte) error {
	if err := tell(rw, kind, data, rest); err != nil {
		return err
	}
	return result(rw, kind)
}

// reply replies to a command: with the errno of what failed, or that of an invalid argument.
func reply(w io.Writer, c *command, failed error) error {
	errno := syscall.EINVAL
	if failed == nil {
		errno = 0
	}
	_ = errors.As(failed, &errno)
	return (&command{header{Kind: c.Kind | answered, Data: uint32(errno), ID: c.ID}, nil}).write(w)
}
