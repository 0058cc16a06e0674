// Cmtime measures how long the steps of connecting take, for many connections at a
// time, with itself or with the stock cmtime, as server or as client.
//
//	cmtime                    # on one host: waits, until interrupted
//	cmtime -s HOST -c 1000    # on the other
//
// The client calls package rdmacm's steps one by one; the server uses Listen and Accept.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
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
	l := program.Must(o.Listen(ctx, nil, out))
	defer program.Close(l, &err)
	var all, open atomic.Int64
	return program.Serve(ctx, l, out, func(ctx context.Context, request *rdmacm.Request) error {
		all.Add(1)
		open.Add(1)
		c, err := request.Accept(ctx, &rdmacm.Options{QP: ibv.QPOptions{MaxSendWR: 1, MaxRecvWR: 1}})
		if err == nil {
			select {
			case <-c.Done():
			case <-ctx.Done():
			}
			err = c.Close()
		}
		if open.Add(-1) == 0 {
			fmt.Fprintf(out, "%d connections\n", all.Load())
		}
		return err
	})
}

// bench takes all connections of the client through each step together.
type bench struct {
	o      *options
	open   program.Closers
	events *program.Events
	nodes  []*node
	step   step
	pd     *ibv.PD // of all connections
	cq     *ibv.CQ
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
	b.events = program.Keep(&b.open, program.Must(program.NewEvents(b.handle)))
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
	for _, b.step = range steps {
		if b.step.name == "bind addr" && !src.IsValid() {
			continue
		}
		start := time.Now()
		if err := b.take(ctx); err != nil {
			return fmt.Errorf("%s: %w", b.step.name, err)
		}
		table += b.line(time.Since(start))
	}
	_, err = io.WriteString(out, table)
	return err
}

// line is the line of a step in the table.
func (b *bench) line(total time.Duration) string {
	byTime := func(a, b *node) int { return cmp.Compare(a.took, b.took) }
	most, least := slices.MaxFunc(b.nodes, byTime).took, slices.MinFunc(b.nodes, byTime).took
	us := func(d time.Duration) float64 { return d.Seconds() * 1e6 }
	return fmt.Sprintf("%-13s: %11.2f%11.2f%11.2f%11.2f\n", b.step.name, us(total)/1e3, us(most)/1e3, us(least),
		us(total)/float64(len(b.nodes)))
}

// take takes all connections through a step: one after the other, or those that an event ends together. Then it reads
// the events while it still begins.
func (b *bench) take(ctx context.Context) error {
	if b.step.end == never {
		return b.begin()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var beginner sync.WaitGroup
	defer beginner.Wait()
	beginner.Go(func() {
		if err := b.begin(); err != nil {
			cancel(err)
		}
	})
	_, err := b.events.Until(ctx, len(b.nodes), b.step.end)
	if ctx.Err() != nil {
		err = context.Cause(ctx) // of the beginner, or an interrupt
	}
	cancel(nil)
	return err
}

// begin begins the step with all connections.
func (b *bench) begin() error {
	for _, n := range b.nodes {
		n.began, n.retries = time.Now(), b.o.retries
		if err := b.step.begin(n); err != nil {
			return err
		}
		if b.step.end == never {
			n.took = time.Since(n.began)
		}
	}
	return nil
}

// handle ends the step of a connection, or begins it again.
func (b *bench) handle(ev *rdmacm.Event) (err error) {
	n := ev.ID.Value().(*node)
	switch {
	case ev.Type == b.step.end:
		if ev.Type == rdmacm.EventConnectResponse {
			err = n.establish()
		}
		n.took = time.Since(n.began)
		return err
	case (ev.Type == rdmacm.EventAddrError || ev.Type == rdmacm.EventRouteError) && n.retries > 0:
		n.retries--
		return b.step.begin(n)
	case ev.Err() != nil:
		return ev.Err()
	}
	return fmt.Errorf("want %v", b.step.end)
}

func (b *bench) createID(n *node) (err error) {
	defer program.Catch(&err)
	n.id = program.Keep(&b.open, program.Must(b.events.CreateID(rdmacm.PortSpaceTCP)))
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
