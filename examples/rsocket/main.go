// Rsocket is four programs on sockets of rdma_cm, each with itself or with the stock program of its
// name, as server or as client.
//
//	rsocket rstream -T verify                 # on one host: waits
//	rsocket rstream -T verify -s HOST         # on the other, or: rstream -T v -s HOST
//
// They share this file: flags, connecting, and three ways of waiting for a socket that is not ready.
package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/rdmacm/rsocket"
)

var programs = map[string]func(*program.Run){
	"rstream": rstream, "riostream": riostream, "rcopy": rcopy, "udpong": udpong,
}

const synopsis = `rsocket rstream [options]       a stream of bytes, back and forth
rsocket riostream [options]     writes into the memory of the peer, back and forth
rsocket rcopy [options]         copies a file
rsocket udpong [options]        datagrams, on InfiniBand only

With -h each of them lists its options.
`

func main() {
	command, name := "rsocket", ""
	if len(os.Args) > 1 && programs[os.Args[1]] != nil {
		name = os.Args[1]
		command += " " + name
	}
	program.Main(command, func(args []string) error { return parse(name, args) }, programs[name])
}

// flags are those of all four programs.
var flags struct {
	program.Ends
	test    map[string]bool // what -T says
	buffer  int             // bytes, each way; 0 is the library's own choice
	timeout program.Timeout

	iterations, count, size int
	directory, source, dest string // of rcopy
}

// parse reads the command line of a program.
func parse(name string, args []string) error {
	flags.test, flags.timeout.Lossy = map[string]bool{}, true
	if name == "" {
		_ = program.NewFlags(synopsis).Parse(args)
		return errors.New("want rstream, riostream, rcopy or udpong")
	}
	var f *program.Flags
	switch name {
	case "rcopy":
		f = program.NewFlags("rsocket rcopy -d DIRECTORY [options]\nrsocket rcopy FILE HOST[:NAME] [options]\n")
		f.MaxArgs = 2
		flags.LocalFlags(f, "7427")
		f.StringVarP(&flags.directory, "directory", "d", ".", "where a server writes")
	case "udpong":
		f = flags.NewFlags("rsocket udpong", "7174")
		f.Int(&flags.count, "count", "C", 1000, 1, math.MaxInt32, "`number` of datagrams of a client")
		f.Int(&flags.size, "size", "S", 1000, control, largest, "`bytes` in a datagram of a client")
		words(f, "async", "echo", "nonblocking")
	default:
		f = flags.NewFlags("rsocket "+name, "7471")
		f.Int(&flags.iterations, "iterations", "I", 1, 1, math.MaxInt32, "`number` of times, the same on both sides")
		f.Int(&flags.count, "count", "C", 1000, 1, math.MaxInt32,
			"`number` of transfers each time, the same on both sides")
		f.Int(&flags.size, "size", "S", 1000, 1, 1<<30, "`bytes` in a transfer, the same on both sides")
		words(f, "async", "blocking", "nonblocking", "verify")
	}
	f.Int(&flags.buffer, "buffer", "B", 512<<10, 0, 1<<30, "`bytes` of the buffers for sending and for receiving")
	f.Timeout(&flags.timeout, "longest `time` without a reply")
	if err := f.Parse(args); err != nil || f.NArg() == 0 {
		return err
	}
	return files(f.Args())
}

// words adds -T, which may be repeated: words, or their first letters.
func words(f *program.Flags, names ...string) {
	want := strings.Join(names, ", ")
	f.FuncP("test", "T", "`what` to do: "+want+"; may be repeated", func(s string) error {
		i := slices.IndexFunc(names, func(name string) bool { return s == name || s == name[:1] })
		if i < 0 {
			return errors.New("want one of " + want)
		}
		flags.test[names[i]] = true
		return nil
	})
}

// socket is an rsocket whose calls wait until they are possible: async, in a Poller; nonblocking, by trying again at
// once; blocking, in the call, which only the end of the connection interrupts. It is not safe for concurrent use.
type socket struct {
	*rsocket.Socket
	run    *program.Run
	poller *rsocket.Poller

	blocks, spins  bool     // once it is connected
	sent, received *counter // of -T verify
}

// wrap makes a socket of an rsocket.
func wrap(r *program.Run, s *rsocket.Socket) *socket {
	p := program.Keep(r, program.Must(rsocket.NewPoller()))
	return &socket{Socket: program.Keep(r, s), run: r, poller: p}
}

// open returns the socket of a client, which is connected, or of a server, which clients can reach. Options are set
// first, because connecting makes what they are about.
func open(r *program.Run, t rsocket.Type) *socket {
	from, to := flags.Resolve()
	domain := rsocket.DomainINET
	if from.Addr().Is6() || to.Addr().Is6() {
		domain = rsocket.DomainINET6
	}
	s := wrap(r, program.Must(rsocket.New(domain, t)))
	if flags.buffer > 0 {
		program.Check(s.SetIntOption(rsocket.LevelSocket, rsocket.OptSendBuf, flags.buffer))
		program.Check(s.SetIntOption(rsocket.LevelSocket, rsocket.OptRecvBuf, flags.buffer))
	}
	if t == rsocket.Stream {
		program.Check(s.SetReuseAddr())
		program.Check(s.SetIntOption(rsocket.LevelTCP, rsocket.OptNoDelay, 1))
		program.Check(s.SetIntOption(rsocket.LevelRDMA, rsocket.OptIOMaps, 1)) // of riostream
	}
	if from.IsValid() {
		program.Check(s.Bind(from))
	}
	if to.IsValid() {
		err := s.Connect(to)
		if again(err) {
			err = s.until(rsocket.PollOut, s.ConnectError)
		}
		program.Check(err)
		return s.connected()
	}
	if t == rsocket.Stream {
		program.Check(s.Listen(8))
	}
	fmt.Fprintf(r, "listening on %v\n", program.Must(s.LocalAddr()))
	return s
}

// connected makes calls wait as -T says.
func (s *socket) connected() *socket {
	s.blocks, s.spins = flags.test["blocking"], flags.test["nonblocking"]
	program.Check(s.SetNonblock(!s.blocks))
	return s
}

// dial returns the connection of either side: to the server, or of the first client.
func dial(r *program.Run) *socket {
	s := open(r, rsocket.Stream)
	if flags.Server != "" {
		return s
	}
	c := wrap(r, s.accept())
	program.Check(s.Close())
	return c.connected()
}

// accept waits for a client, however long it takes.
func (s *socket) accept() (c *rsocket.Socket) {
	program.Check(s.try(s.run, rsocket.PollIn, func() (err error) {
		c, _, err = s.Accept()
		return err
	}))
	return c
}

// until is try for as long as --timeout says.
func (s *socket) until(ev rsocket.Events, call func() error) error {
	if !s.blocks && s.run.Err() == nil { // most calls need not wait
		if err := call(); !again(err) {
			return err
		}
	}
	ctx, cancel := flags.timeout.Context(s.run)
	defer cancel()
	return s.try(ctx, ev, call)
}

// try tries a call until it need not wait, for as long as ctx says. The cause of ctx is the error after that.
func (s *socket) try(ctx context.Context, ev rsocket.Events, call func() error) error {
	if s.blocks { // a call that blocks in C ends with the connection
		defer context.AfterFunc(ctx, func() { _ = s.Shutdown(rsocket.ShutBoth) })()
	}
	for ctx.Err() == nil {
		err := call()
		if !again(err) && (err == nil || ctx.Err() == nil) {
			return err
		}
		if again(err) && !s.spins {
			program.Check(s.poller.Add(s.Socket, ev))
			if _, err := s.poller.Wait(ctx); ctx.Err() == nil {
				program.Check(err)
			}
		}
	}
	return context.Cause(ctx)
}

func again(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINPROGRESS)
}

// Read fills b, or receives what there is before the end.
func (s *socket) Read(b []byte) (int, error) { return s.all(b, rsocket.PollIn, s.Recv) }

// Write sends all of b.
func (s *socket) Write(b []byte) (int, error) { return s.all(b, rsocket.PollOut, s.Send) }

// all repeats a call with the rest of b until it has done all.
func (s *socket) all(b []byte, ev rsocket.Events, call func(rest []byte) (int, error)) (done int, err error) {
	for done < len(b) && err == nil {
		err = s.until(ev, func() error {
			n, err := call(b[done:])
			done += n
			return err
		})
	}
	return done, err
}
