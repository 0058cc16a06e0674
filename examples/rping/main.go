// Rping lets a server read a client's memory and write it back, again and again, with itself or with the stock rping,
// as server or as client. On the wire, after the connection by librdmacm:
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

var (
	flags   = program.NewFlags("rping -s [options]\nrping -c -a HOST [options]\n")
	server  = flags.BoolP("server", "s", false, "wait for a client")
	client  = flags.BoolP("client", "c", false, "connect to a server")
	address = flags.StringP("address", "a", "", "`address` of the server, or to listen on (default all)")
	source  = flags.Addr("source", "I", "`address` that the client comes from")
	port    = flags.StringP("port", "p", "7174", "`port` of the server")
	count   = flags.Int(new(int), "count", "C", 0, 0, math.MaxInt32, "`number` of pings of a client (default for ever)")
	size    = flags.Int(new(int), "size", "S", 64, least, most, "`bytes` in a ping of a client; a server takes any")
	persist = flags.BoolP("persistent", "P", false, "serve any number of clients until interrupted")
	verbose = flags.BoolP("verbose", "v", false, "show the pings")
	verify  = flags.BoolP("verify", "V", false, "check every byte: a client what comes back, a server what it reads")
	timeout = flags.Timeout(new(program.Timeout), "longest `time` without a reply")
)

func main() { program.Main("rping", parse, run) }

func parse(args []string) error {
	err := flags.Parse(args)
	return errors.Join(err, program.Want(*server != *client, "want either -s or -c"),
		program.Want(!*client || *address != "", "-c: want -a with the address of the server"),
		program.Want(!*client || !*persist, "-P is for -s"))
}

func run(r *program.Run) {
	switch {
	case *client:
		call(r)
	case *persist:
		program.Serve(r, program.Listen(r, *address, *port), serve)
	default:
		serve(r, program.Must(program.Listen(r, *address, *port).Next(r)))
	}
}

func serve(r *program.Run, request *rdmacm.Request) {
	s := &session{Run: r}
	program.Keep(r, program.Must(request.Accept(r, s.options())))
	s.play(s.reply)
}

func call(r *program.Run) {
	s := &session{Run: r}
	opt := s.options()
	opt.LocalAddr = netip.AddrPortFrom(*source, 0)
	c := program.Keep(r, program.Must(rdmacm.Dial(r, net.JoinHostPort(*address, *port), opt)))
	s.play(s.ping)
	ctx, cancel := timeout.Context(context.WithoutCancel(r))
	defer cancel()
	program.Check(c.Shutdown(ctx))
}

// session is one connection, on either side. It is not safe for concurrent use.
type session struct {
	*program.Run
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

func (s *session) options() *rdmacm.Options {
	return &rdmacm.Options{QP: ibv.QPOptions{MaxSendWR: 16, MaxRecvWR: 1}, Prepare: s.prepare}
}

// prepare runs before the peer can send.
func (s *session) prepare(c *rdmacm.Conn) (err error) {
	defer program.Catch(&err)
	life, end := context.WithCancelCause(s)
	c.OnDone(end)
	s.c, s.life = c, life
	s.note = program.Keep(c, program.Must(c.PD().AllocMR(2*noteSize, ibv.LocalWrite, nil)))
	n, access := most, ibv.LocalWrite
	if *client {
		n, access = *size*2, ibv.LocalWrite|ibv.RemoteRead|ibv.RemoteWrite
	}
	s.data = program.Keep(c, program.Must(c.PD().AllocMR(n, access, nil)))
	_, err = c.QP().PostRecv([]ibv.RecvWR{{SGEs: []ibv.SGE{s.note.SGE(noteSize, noteSize)}}})
	return err
}

// play plays rounds until a client has all that it wants, or one reports that there are no more.
func (s *session) play(round func(n int) bool) {
	n := 0
	for (*server || *count == 0 || n < *count) && round(n) {
		n++
	}
	fmt.Fprintf(s, "%d pings%s\n", n, program.Checked(*verify))
}

// ping is one round of the client. Without -C it is interrupted in the end.
func (s *session) ping(n int) bool {
	defer program.Doing("ping %d", n)
	source, sink := s.data.Bytes()[:*size], s.data.Bytes()[*size:]
	fill(source, n)
	clear(sink)
	for _, at := range []int{0, *size} { // it reads from the first and writes to the second
		s.tell(region{s.data.Addr() + uint64(at), s.data.RKey(), uint32(*size)})
		_, err := s.message()
		if *count == 0 && s.Err() != nil {
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
	if *verify {
		program.Check(program.Compare(b, func(want []byte) { fill(want, n) }))
	}
	if *verbose {
		fmt.Fprintf(s, "%sping data: %s\n", whose, program.Text(b))
	}
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
	program.Must(s.c.QP().PostRecv([]ibv.RecvWR{{SGEs: []ibv.SGE{s.note.SGE(noteSize, noteSize)}}}))
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
		wc, err := timeout.Next(s.life, s.c.CQ())
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

const (
	noteSize = 16
	least    = 23 // bytes in a ping that the stock rping accepts
	most     = 64<<10 - 1
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
