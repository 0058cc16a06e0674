// Rping lets a server read a client's memory and write it back, again and again,
// with itself or with the stock rping, as server or as client.
//
//	rping -s -v                     # on one host: waits
//	rping -c -a HOST -v -V -C 10    # on the other
//
// On the wire, after the connection by librdmacm:
//
//	client                               server
//	where its ping is, 16 bytes    ──►
//	                                     reads it
//	                               ◄──   go ahead, 16 bytes
//	where the pong goes, 16 bytes  ──►
//	                                     writes it
//	                               ◄──   go ahead, 16 bytes
//	the next, or disconnects
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

func main() { program.Main("rping", parse, run) }

type options struct {
	server, client  bool
	at              program.Ends // Bind is the server's address, on either side
	source          netip.AddrPort
	count, size     int
	persistent      bool
	verbose, verify bool
	timeout         program.Timeout
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := program.NewFlags("rping -s [options]\nrping -c -a HOST [options]\n")
	f.BoolVarP(&o.server, "server", "s", false, "wait for a client")
	f.BoolVarP(&o.client, "client", "c", false, "connect to a server")
	f.StringVarP(&o.at.Bind, "address", "a", "", "`address` of the server, or to listen on (default all)")
	f.Addr(&o.source, "source", "I", "`address` that the client comes from")
	f.StringVarP(&o.at.Port, "port", "p", "7174", "`port` of the server")
	f.Int(&o.count, "count", "C", 0, 0, math.MaxInt32, "`number` of pings of a client (default for ever)")
	f.Int(&o.size, "size", "S", 64, minSize, maxSize, "`bytes` in a ping of a client; a server takes any")
	f.BoolVarP(&o.persistent, "persistent", "P", false, "serve any number of clients until interrupted")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "show the pings")
	f.BoolVarP(&o.verify, "verify", "V", false, "check every byte: a client what comes back, a server what it reads")
	f.Timeout(&o.timeout, "longest `time` without a reply")
	err := f.Parse(args, 0)
	return o, errors.Join(err, program.Want(o.server != o.client, "want either -s or -c"),
		program.Want(!o.client || o.at.Bind != "", "-c: want -a with the address of the server"),
		program.Want(!o.client || !o.persistent, "-P is for -s"))
}

func run(r *program.Run, o *options) {
	if o.client {
		client(r, o)
		return
	}
	l := o.at.Listen(r)
	serve := func(r *program.Run, request *rdmacm.Request) {
		s := &session{Run: r, o: o}
		program.Keep(r, program.Must(request.Accept(r, s.options())))
		s.play(s.reply)
	}
	if o.persistent {
		program.Serve(r, l, serve)
	} else {
		serve(r, program.Must(l.Next(r)))
	}
}

func client(r *program.Run, o *options) {
	s := &session{Run: r, o: o}
	opt := s.options()
	opt.LocalAddr = o.source
	c := program.Keep(r, program.Must(rdmacm.Dial(r, net.JoinHostPort(o.at.Bind, o.at.Port), opt)))
	s.play(s.ping)
	ctx, cancel := o.timeout.Context(context.WithoutCancel(r))
	defer cancel()
	program.Check(c.Shutdown(ctx))
}

// session is one connection, on either side. It is not safe for concurrent use.
type session struct {
	*program.Run
	o    *options
	c    *rdmacm.Conn
	life context.Context // of the connection
	note *ibv.MR         // two messages: one to send, one received
	data *ibv.MR         // a ping, and behind it a client's place for the pong
}

// region is memory of the sender of a message, and the message, big-endian.
type region struct {
	Addr       uint64
	RKey, Size uint32
}

const noteSize = 16

func (s *session) options() *rdmacm.Options {
	return &rdmacm.Options{QP: ibv.QPOptions{MaxSendWR: 16, MaxRecvWR: 1}, Prepare: s.prepare}
}

// prepare runs before the peer can send.
func (s *session) prepare(c *rdmacm.Conn) (err error) {
	defer program.Catch(&err)
	s.c = c
	life, end := context.WithCancelCause(s)
	s.life = life
	c.OnDone(end)
	s.note = program.Keep(c, program.Must(c.PD().AllocMR(2*noteSize, ibv.LocalWrite, nil)))
	size, access := maxSize, ibv.LocalWrite
	if s.o.client {
		size, access = 2*s.o.size, ibv.LocalWrite|ibv.RemoteRead|ibv.RemoteWrite
	}
	s.data = program.Keep(c, program.Must(c.PD().AllocMR(size, access, nil)))
	s.expect()
	return nil
}

// play plays rounds until a client has all that it wants, or one reports that there are no more.
func (s *session) play(round func(n int) bool) {
	n := 0
	for (s.o.server || s.o.count == 0 || n < s.o.count) && round(n) {
		n++
	}
	fmt.Fprintf(s, "%d pings%s\n", n, program.Checked(s.o.verify))
}

// ping is one round of the client. Without -C it is interrupted in the end.
func (s *session) ping(n int) bool {
	defer program.Doing("ping %d", n)
	size := s.o.size
	source, sink := s.data.Bytes()[:size], s.data.Bytes()[size:]
	fill(source, n)
	clear(sink)
	for _, at := range []uint64{0, uint64(size)} { // it reads from the first and writes to the second
		s.tell(region{s.data.Addr() + at, s.data.RKey(), uint32(size)})
		_, err := s.message()
		if s.o.count == 0 && s.Err() != nil {
			return false
		}
		program.Check(err)
	}
	s.check("", sink, n)
	return true
}

// reply is one round of the server. A client may disconnect instead.
func (s *session) reply(n int) bool {
	defer program.Doing("ping %d", n)
	source, err := s.message()
	if errors.Is(err, rdmacm.ErrDisconnected) {
		return false
	}
	program.Check(err)
	s.rdma(ibv.OpRead, ibv.WCRead, source)
	got := s.data.Bytes()[:source.Size]
	s.check("server ", got, n)
	s.tell(region{}) // go ahead; the content is ignored
	sink := program.Must(s.message())
	sink.Size = min(sink.Size, uint32(len(program.Text(got)))+1) // with its zero byte
	s.rdma(ibv.OpWrite, ibv.WCWrite, sink)
	s.tell(region{})
	return true
}

// check checks a ping with -V, and shows it with -v.
func (s *session) check(whose string, b []byte, n int) {
	if s.o.verify {
		program.Check(verify(b, n))
	}
	if s.o.verbose {
		fmt.Fprintf(s, "%sping data: %s\n", whose, program.Text(b))
	}
}

// expect posts the receive for the next message.
func (s *session) expect() {
	program.Must(s.c.QP().PostRecv([]ibv.RecvWR{{SGEs: []ibv.SGE{s.note.SGE(noteSize, noteSize)}}}))
}

// tell sends a message. It does not wait: the peer's next one can only come after this one has arrived.
func (s *session) tell(r region) {
	program.Must(binary.Encode(s.note.Bytes(), binary.BigEndian, r))
	program.Must(s.c.QP().PostSend([]ibv.SendWR{{Opcode: ibv.OpSend, Flags: ibv.Signaled,
		SGEs: []ibv.SGE{s.note.SGE(0, noteSize)}}}))
}

// message waits for the peer's next one.
func (s *session) message() (r region, err error) {
	defer program.Catch(&err)
	n := s.wait(ibv.WCRecv).ByteLen
	program.Ensure(n == noteSize, "a message of %d bytes, want %d", n, noteSize)
	program.Must(binary.Decode(s.note.Bytes()[noteSize:], binary.BigEndian, &r))
	s.expect()
	return r, nil
}

// rdma reads from the peer's memory, or writes to it, and waits until that is done.
func (s *session) rdma(op ibv.Opcode, done ibv.WCOpcode, r region) {
	size := int(r.Size)
	program.Ensure(size >= 1 && size <= s.data.Len(),
		"a message of a ping of %d bytes, want 1 to %d: make -S of the client smaller", size, s.data.Len())
	program.Must(s.c.QP().PostSend([]ibv.SendWR{{Opcode: op, Flags: ibv.Signaled,
		SGEs: []ibv.SGE{s.data.SGE(0, size)}, Remote: ibv.RemoteAddr{Addr: r.Addr, RKey: r.RKey}}}))
	s.wait(done)
}

// wait waits for a completion of this kind. Others can only be those of messages that were sent. After the end of the
// connection the error is why it has ended.
func (s *session) wait(kind ibv.WCOpcode) ibv.WC {
	for {
		wc, err := s.o.timeout.Next(s.life, s.c.CQ())
		// The connection has ended; on iWARP its event may come later. There a message that has arrived may fail at its
		// sender if the peer has ended the connection at once.
		acked := s.c.PD().Device().Info().Transport.SendsAcked()
		if wc.Status == ibv.WCWRFlushErr || wc.Status == ibv.WCLocQPOpErr && !acked {
			continue
		}
		program.Check(err)
		if wc.Opcode == kind {
			return wc
		}
	}
}

// Sizes of a ping that the stock rping accepts.
const (
	minSize = 23
	maxSize = 64<<10 - 1
)

// fill makes b ping n: its number, then the letters from 'A' to 'z' round and round, each ping one letter further on,
// and a zero byte.
func fill(b []byte, n int) {
	const first, letters = 'A', 'z' - 'A' + 1
	text := copy(b, fmt.Sprintf("rdma-ping-%d: ", n))
	for i := range b[text:] {
		b[text+i] = byte(first + (n+i)%letters)
	}
	b[len(b)-1] = 0
}

// verify checks every byte of ping n.
func verify(b []byte, n int) error { return program.Compare(b, func(want []byte) { fill(want, n) }) }
