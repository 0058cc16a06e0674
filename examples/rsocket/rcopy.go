package main

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/rdmacm/rsocket"
)

// rcopy copies a file to another host over an rsocket. A server writes files in its directory and below it, nowhere
// else, for any client: use it on a network that you trust.
func rcopy(r *program.Run) {
	if flags.Server != "" {
		sendFile(r)
		return
	}
	root := program.Keep(r, program.Must(os.OpenRoot(flags.directory)))
	l := open(r, rsocket.Stream)
	r.Serves = true
	for {
		c := l.accept()
		peer, _ := c.RemoteAddr()
		err := program.Do(r, r, func(r *program.Run) {
			for s := wrap(r, c).connected(); ; {
				receive(s, root, r)
			}
		})
		if !errors.Is(err, io.EOF) { // the client has not ended the connection between two commands
			fmt.Fprintf(r, "%v: %v\n", peer.Addr(), err)
		}
	}
}

// files reads the arguments of a client of rcopy: FILE and HOST[:NAME].
func files(args []string) error {
	if len(args) == 1 {
		return errors.New("1 argument: want FILE and HOST:NAME, or none")
	}
	to := destination.FindStringSubmatch(args[1])
	flags.source, flags.Server, flags.dest = args[0], to[1]+to[2], cmp.Or(to[3], filepath.Base(args[0]))
	n := len(flags.dest)
	return errors.Join(program.Want(flags.Server != "", "%q has no host", args[1]),
		program.Want(n <= longestName, "a name of %d bytes: want at most %d", n, longestName))
}

// destination is HOST:NAME. An IPv6 address is in brackets.
var destination = regexp.MustCompile(`(?s)^(?:\[(.*?)\]|([^:]*)):?(.*)$`)

// sendFile is the whole of a client.
func sendFile(r *program.Run) {
	f := program.Keep(r, program.Must(os.Open(flags.source)))
	info := program.Must(f.Stat())
	program.Ensure(info.Mode().IsRegular(), "%s is not a regular file", flags.source)
	s := dial(r)
	defer program.Doing("%s", flags.dest)
	name := append([]byte(flags.dest), make([]byte, 8-len(flags.dest)%8)...) // a multiple of eight bytes
	command{Kind: openFile, Data: uint32(info.Mode().Perm())}.send(s, name)
	result(s, openFile)
	start := time.Now()
	command{Kind: writeFile}.send(s, binary.NativeEndian.AppendUint64(nil, uint64(info.Size())))
	n, err := io.CopyN(s, f, info.Size())
	program.Ensure(err != io.EOF, "the file became shorter")
	program.Check(err)
	result(s, writeFile) // all is there
	took := max(time.Since(start).Seconds(), 1e-9)
	command{Kind: closeFile}.send(s, nil)
	result(s, closeFile)
	fmt.Fprintf(r, "%d bytes in %.3f s: %.2f Gb/s\n", n, took, float64(n)*8/took/1e9)
}

// receive does what a client asks for a file: open, write and close it.
func receive(s io.ReadWriter, root *os.Root, out io.Writer) {
	c, path := next(s, openFile)
	f, failed := root.OpenFile(program.Text(path), os.O_RDWR|os.O_CREATE|os.O_TRUNC, fs.FileMode(c.Data).Perm())
	c.reply(s, failed)
	defer f.Close() // after a failure
	c, b := next(s, writeFile)
	var size int64
	if _, err := binary.Decode(b, binary.NativeEndian, &size); err != nil || len(b) != 8 || size < 0 {
		c.reply(s, errOrder)
	}
	n, failed := store(f, s, size)
	fmt.Fprintf(out, "%q: %d bytes of %d\n", f.Name(), n, size)
	c.reply(s, failed)
	c, _ = next(s, closeFile)
	c.reply(s, f.Close())
}

// store writes a file of that size. It reads all of it in any case, because the client reads no reply before it has
// sent all.
func store(f io.Writer, s io.Reader, size int64) (int64, error) {
	all := &io.LimitedReader{R: s, N: size}
	n, err := io.Copy(f, all)
	_, _ = io.Copy(io.Discard, all)
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Kinds of commands. Each is answered.
const (
	openFile  = 1 // data is the file's mode, and its name follows, with one to eight zero bytes
	closeFile = 2
	writeFile = 3    // the file's size follows, and the file
	answered  = 0x80 // added to the kind of a reply, whose data is an errno

	headerSize  = 16
	longestName = 4096
)

// command is the header of a command or a reply, in the byte order of the hosts.
type command struct {
	Version byte // 0
	Kind    byte
	Length  uint16 // of the header and what follows
	Data    uint32
	ID      uint64 // which the reply brings back
}

var errOrder = errors.New("a command that is unknown, or out of order")

// read reads a command or a reply, and what follows it.
func read(r io.Reader) (c command, rest []byte) {
	const most = headerSize + longestName + 8
	program.Check(binary.Read(r, binary.NativeEndian, &c))
	program.Ensure(c.Version == 0 && c.Length >= headerSize && c.Length <= most,
		"a command of version %d with %d bytes, want version 0 and %d to %d bytes: the peer is no rcopy",
		c.Version, c.Length, headerSize, most)
	rest = make([]byte, c.Length-headerSize)
	program.Must(io.ReadFull(r, rest))
	return c, rest
}

// send sends a command or a reply, and what follows it.
func (c command) send(w io.Writer, rest []byte) {
	c.Length = uint16(headerSize + len(rest))
	b := program.Must(binary.Append(nil, binary.NativeEndian, c))
	program.Must(w.Write(append(b, rest...)))
}

// result waits for the reply to a command.
func result(r io.Reader, kind byte) {
	c, _ := read(r)
	program.Ensure(c.Kind == kind|answered, "a reply to command %#x, want one to %#x", c.Kind&^answered, kind)
	program.Ensure(c.Data == 0, "the server says: %w", syscall.Errno(c.Data))
}

// next reads a command, which must be of this kind.
func next(s io.ReadWriter, kind byte) (command, []byte) {
	c, rest := read(s)
	if c.Kind != kind {
		c.reply(s, errOrder)
	}
	return c, rest
}

// reply replies to a command: with the errno of what failed, or that of an invalid argument. It ends if something has.
func (c command) reply(w io.Writer, failed error) {
	var errno syscall.Errno
	if failed != nil && !errors.As(failed, &errno) {
		errno = syscall.EINVAL
	}
	command{Kind: c.Kind | answered, Data: uint32(errno), ID: c.ID}.send(w, nil)
	if e := (*fs.PathError)(nil); errors.As(failed, &e) {
		failed = fmt.Errorf("%s %q: %w", e.Op, e.Path, e.Err) // a terminal might obey a name
	}
	program.Check(failed)
}
