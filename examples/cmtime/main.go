// Cmtime measures how long the steps of connecting take, for many connections at a
// time, with itself or with the stock cmtime, as server or as client.
//
//	cmtime                    # on one host: waits, until interrupted
//	cmtime -s HOST -c 1000    # on the other
//
// The client calls package rdmacm's steps one by one; the server uses Listen and Accept.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

func main() { program.Main("cmtime", os.Args[1:], parse, run) }

type options struct {
	program.Ends
	connections, retries int
	timeout              time.Duration
}

func parse(args []string) (*options, error) {
	o := &options{}
	var ms int
	f := program.NewFlags("cmtime [options]\ncmtime -s HOST [options]\n")
	o.Ends.Flags(f, "7471")
	f.Int(&o.connections, "connections", "c", 100, 1, 1<<20, "`number` of connections of a client")
	f.Int(&o.retries, "retries", "r", 2, 0, 100, "`times` to resolve again what could not be resolved")
	f.Int(&ms, "timeout", "t", 2000, 1, 1<<30, "longest time to resolve an address or a route, in `ms`")
	err := f.Parse(args, 0)
	o.timeout = time.Duration(ms) * time.Millisecond
	return o, err
}

func run(ctx context.Context, o *options, out io.Writer) error {
	if o.Server != "" {
		return client(ctx, o, out)
	}
	return server(ctx, o, out)
}

// server accepts all connections, and closes each when its client has.
func server(ctx context.Context, o *options, out io.Writer) (err error) {
	defer program.Catch(&err)
	opt := &rdmacm.Options{QP: ibv.QPOptions{MaxSendWR: 1, MaxRecvWR: 1}}
	l := program.Must(rdmacm.Listen(ctx, net.JoinHostPort(o.Bind, o.Port), opt))
	defer program.Close(l, &err)
	fmt.Fprintf(out, "listening on %v\n", l.Addr())
	var (
		clients   sync.WaitGroup
		all, open atomic.Int64
	)
	defer clients.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		c, err := l.Accept(ctx)
		if ctx.Err() != nil { // interrupted, as intended
			return nil
		}
		program.Check(err)
		all.Add(1)
		open.Add(1)
		clients.Go(func() {
			select {
			case <-c.Done():
			case <-ctx.Done():
			}
			if err := c.Close(); err != nil {
				fmt.Fprintf(out, "%v: %v\n", c.RemoteAddr(), err)
			}
			if open.Add(-1) == 0 {
				fmt.Fprintf(out, "%d connections\n", all.Load())
			}
		})
	}
}

// bench takes all connections of the client through each step together.
type bench struct {
	o     *options
	open  program.Closers
	ch    *rdmacm.EventChannel
	nodes []*node
	pd    *ibv.PD // of all connections
	cq    *ibv.CQ
}

// node is a connection.
type node struct {
	id      *rdmacm.ID
	qp      *ibv.QP
	began   time.Time // the step
	took    time.Duration
	retries int
}

// step is a step that all connections take together.
type step struct {
	name  string
	begin func(*node) error
	end   rdmacm.EventType // that ends it, or never
}

const never = ^rdmacm.EventType(0) // a step that is done when it returns

// client prints the table of the stock cmtime.
func client(ctx context.Context, o *options, out io.Writer) (err error) {
	defer program.Catch(&err)
	src, dst, err := o.Resolve(ctx)
	program.Check(err)
	b := &bench{o: o, nodes: make([]*node, o.connections)}
	for i := range b.nodes {
		b.nodes[i] = &node{}
	}
	defer program.Close(&b.open, &err) // closing an object twice is harmless
	b.ch = program.Keep(&b.open, program.Must(rdmacm.NewEventChannel()))
	steps := []step{
		{"create id", b.createID, never},
		{"bind addr", func(n *node) error { return n.id.Bind(src) }, never},
		{"resolve addr", func(n *node) error {
			return n.id.ResolveAddr(src, dst, o.timeout)
		}, rdmacm.EventAddrResolved},
		{"resolve route", func(n *node) error { return n.id.ResolveRoute(o.timeout) }, rdmacm.EventRouteResolved},
		{"create qp", b.createQP, never},
		{"connect", connect, rdmacm.EventConnectResponse},
		{"disconnect", disconnect, rdmacm.EventDisconnected},
		{"destroy", func(n *node) error { return errors.Join(b.cq.Close(), b.pd.Close(), n.id.Close()) }, never},
	}
	table := "step              total ms     max ms     min us  us / conn\n"
	for _, s := range steps {
		if s.name == "bind addr" && !src.IsValid() {
			continue
		}
		start := time.Now()
		if err := b.take(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		table += b.line(s.name, time.Since(start))
	}
	_, err = io.WriteString(out, table)
	return err
}

// line is the line of a step in the table.
func (b *bench) line(name string, total time.Duration) string {
	most, least := b.nodes[0].took, b.nodes[0].took
	for _, n := range b.nodes {
		most, least = max(most, n.took), min(least, n.took)
	}
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	us := func(d time.Duration) float64 { return d.Seconds() * 1e6 }
	return fmt.Sprintf("%-13s: %11.2f%11.2f%11.2f%11.2f\n", name, ms(total), ms(most), us(least),
		us(total)/float64(len(b.nodes)))
}

// take takes all connections through a step: one after the other, or those that an event ends together. Then it reads
// the events while it still begins.
func (b *bench) take(ctx context.Context, s step) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begin := func() error {
		for _, n := range b.nodes {
			n.began, n.retries = time.Now(), b.o.retries
			if err := s.begin(n); err != nil {
				return err
			}
			if s.end == never {
				n.took = time.Since(n.began)
			}
		}
		return nil
	}
	if s.end == never {
		return begin()
	}
	var beginner sync.WaitGroup
	defer beginner.Wait()
	beginner.Go(func() {
		if err := begin(); err != nil {
			cancel(err)
		}
	})
	for left := len(b.nodes); left > 0; {
		ev, err := b.ch.Event(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx) // of the beginner, or an interrupt
		}
		if err != nil {
			return err
		}
		n := ev.ID.Value().(*node)
		switch {
		case ev.Type == s.end:
			if s.end == rdmacm.EventConnectResponse {
				err = n.establish()
			}
			n.took = time.Since(n.began)
			left--
		case (ev.Type == rdmacm.EventAddrError || ev.Type == rdmacm.EventRouteError) && n.retries > 0:
			n.retries--
			err = s.begin(n)
		case ev.Type == rdmacm.EventTimewaitExit || ev.Type == rdmacm.EventAddrChange:
		case ev.Err() != nil:
			err = ev.Err()
		default:
			err = fmt.Errorf("event %v, want %v", ev, s.end)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) createID(n *node) (err error) {
	defer program.Catch(&err)
	n.id = program.Keep(&b.open, program.Must(b.ch.CreateID(rdmacm.PortSpaceTCP)))
	n.id.SetValue(n)
	return nil
}

// createQP makes a queue pair for a connection. The first one's device, which is known by now, is that of all: they go
// to one address.
func (b *bench) createQP(n *node) (err error) {
	defer program.Catch(&err)
	if b.pd == nil {
		dev := program.Must(n.id.Verbs())
		b.pd = program.Keep(&b.open, program.Must(dev.AllocPD()))
		b.cq = program.Keep(&b.open, program.Must(dev.CreateCQ(2, nil))) // nothing is posted
	}
	opt := &ibv.QPOptions{MaxSendWR: 1, MaxRecvWR: 1}
	n.qp = program.Keep(&b.open, program.Must(b.pd.CreateQP(b.cq, b.cq, opt)))
	return nil
}

func connect(n *node) error { return n.id.Connect(&rdmacm.ConnParam{QPN: n.qp.Num()}) }

// establish ends the handshake: the server has replied.
func (n *node) establish() error {
	if err := n.id.BringUp(n.qp, nil); err != nil {
		return err
	}
	return n.id.Establish()
}

func disconnect(n *node) error { return errors.Join(n.id.Disconnect(), n.qp.Close()) }
