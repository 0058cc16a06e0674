package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
)

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
