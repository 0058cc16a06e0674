// Ucmatose opens many connections, sends messages both ways over each of them, and closes them, with itself or
// with the stock ucmatose, as server or as client.
//
//	ucmatose -c 10              # on one host: waits for ten connections
//	ucmatose -c 10 -s HOST      # on the other
//
// One goroutine takes all connections through their steps, by the events of one channel, on either side.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/ibv"
)

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "ucmatose: %v\nucmatose -h lists the options\n", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ucmatose:", err)
		os.Exit(1)
	}
}

type options struct {
	server, bind, port       string
	connections, count, size int
	tos, ackTimeout          int
	migrate, verify          bool
	timeout                  time.Duration
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := pflag.NewFlagSet("ucmatose", pflag.ExitOnError)
	f.SortFlags = false
	f.StringVarP(&o.server, "server", "s", "", "`address` of the server (default: be the server)")
	f.StringVarP(&o.bind, "bind", "b", "", "`address` to come from, or to listen on (default all)")
	f.StringVarP(&o.port, "port", "p", "7471", "`port` of the server")
	f.IntVarP(&o.connections, "connections", "c", 1, "`number` of connections, the same on both sides")
	f.IntVarP(&o.count, "count", "C", 10, "`number` of messages each way, the same on both sides")
	f.IntVarP(&o.size, "size", "S", 100, "`bytes` in a message, the same on both sides")
	f.IntVarP(&o.tos, "tos", "t", -1, "type of service of a client's packets, a `byte` (default the system's)")
	f.IntVarP(&o.ackTimeout, "ack-timeout", "a", -1,
		"4.096 µs times two to the power of `n` is the time to wait for an acknowledgement (default the path's)")
	f.BoolVarP(&o.migrate, "migrate", "m", false, "move the connections to a second event channel")
	f.BoolVarP(&o.verify, "verify", "V", false, "check every byte; the peer has to be one of these examples")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "longest `time` without a message")
	f.Usage = func() { fmt.Fprint(f.Output(), "ucmatose [options]\nucmatose -s HOST [options]\n\n", f.FlagUsages()) }
	_ = f.Parse(args) // it exits when it fails
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q: no arguments expected", f.Arg(0))
	}
	return o, errors.Join(
		within("-c", o.connections, 1, 1<<16),
		within("-C", o.count, 0, 1<<14),
		within("-S", o.size, 1, 1<<20),
		within("-C times -S", o.count*o.size, 0, 1<<30),
		within("-t", o.tos, -1, math.MaxUint8),
		within("-a", o.ackTimeout, -1, 31))
}

func within(flag string, n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("%s %d: want %d to %d", flag, n, least, most)
	}
	return nil
}

func run(ctx context.Context, o *options, out io.Writer) (err error) {
	m := &matose{o: o}
	defer func() { err = errors.Join(err, m.close()) }()
	if o.server != "" {
		err = m.client(ctx)
	} else {
		err = m.server(ctx, out)
	}
	if err != nil {
		return err
	}
	checked := ""
	if o.verify {
		checked = ", every byte as it should be"
	}
	fmt.Fprintf(out, "%d messages sent and as many received%s\n", o.connections*o.count, checked)
	return nil
}

// conn is a connection.
type conn struct {
	o              *options
	cq             *ibv.CQ
	qp             *ibv.QP
	mr             *ibv.MR // a place for each message that comes, and behind them one for each that goes
	sent, received int
	opened         []io.Closer // by this side, in order
}

// prepare makes what a connection needs on its device, and posts a receive for every message before the peer can
// send.
func (c *conn) prepare(dev *ibv.Device) error {
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	c.opened = append(c.opened, pd)
	if c.cq, err = dev.CreateCQ(max(1, 2*c.o.count), nil); err != nil {
		return err
	}
	c.opened = append(c.opened, c.cq)
	if c.mr, err = pd.AllocMR(max(1, 2*c.o.count*c.o.size), ibv.LocalWrite, nil); err != nil {
		return err
	}
	c.opened = append(c.opened, c.mr)
	c.qp, err = pd.CreateQP(c.cq, c.cq, &ibv.QPOptions{MaxSendWR: max(1, c.o.count), MaxRecvWR: max(1, c.o.count)})
	if err != nil {
		return err
	}
	c.opened = append(c.opened, c.qp)
	return nil
}

func (c *conn) expect() error {
	for n := range c.o.count {
		if _, err := c.qp.PostRecv([]ibv.RecvWR{{SGEs: []ibv.SGE{c.mr.SGE(n*c.o.size, c.o.size)}}}); err != nil {
			return err
		}
	}
	return nil
}

// send posts all messages.
func (c *conn) send() error {
	for n := range c.o.count {
		at := (c.o.count + n) * c.o.size
		copy(c.mr.Bytes()[at:], pattern(c.o.size, n))
		if _, err := c.qp.PostSend([]ibv.SendWR{{Opcode: ibv.OpSend, Flags: ibv.Signaled,
			SGEs: []ibv.SGE{c.mr.SGE(at, c.o.size)}}}); err != nil {
			return err
		}
	}
	return nil
}

// complete waits until that many messages have been sent and received.
func (c *conn) complete(ctx context.Context, sent, received int) error {
	for c.sent < sent || c.received < received {
		wc, err := c.o.next(ctx, c.cq)
		if err != nil {
			return fmt.Errorf("%d messages received and %d sent of %d: %w", c.received, c.sent, c.o.count, err)
		}
		if wc.Opcode == ibv.WCSend {
			c.sent++
			continue
		}
		message := c.mr.Bytes()[c.received*c.o.size:][:wc.ByteLen]
		if len(message) != c.o.size {
			return fmt.Errorf("message %d has %d bytes, want %d: give both sides the same -S", c.received, len(message),
				c.o.size)
		}
		if c.o.verify {
			if err := verify(message, c.received); err != nil {
				return err
			}
		}
		c.received++
	}
	return nil
}

// close closes children before parents.
func (c *conn) close() (err error) {
	for i := len(c.opened) - 1; i >= 0; i-- {
		err = errors.Join(err, c.opened[i].Close())
	}
	return err
}

// next waits for the next completion, which must be a success, for as long as --timeout says.
func (o *options) next(ctx context.Context, cq *ibv.CQ) (ibv.WC, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("nothing for %v: the peer is gone or stuck ("+
		"--timeout waits longer)", o.timeout))
	defer cancel()
	var wc [1]ibv.WC
	if _, err := cq.Wait(ctx, wc[:]); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return wc[0], err
	}
	return wc[0], wc[0].Err()
}

// pattern returns the contents of message n: different from byte to byte and from message to message.
func pattern(size, n int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i)*7 + byte(i>>8)*13 + byte(n)*29 + byte(n>>8)*31 + 1
	}
	return b
}

func verify(b []byte, n int) error {
	for i, want := range pattern(len(b), n) {
		if b[i] != want {
			return fmt.Errorf("message %d: byte %d is %#02x, want %#02x (is the peer one of these examples?)", n, i,
				b[i], want)
		}
	}
	return nil
}
