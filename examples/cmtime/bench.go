package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// bench takes all connections of the client through each step together.
type bench struct {
	o      *options
	ch     *rdmacm.EventChannel
	nodes  []*node
	pd     *ibv.PD // of all connections
	cq     *ibv.CQ
	shared program.Closers // these two
}

// node is a connection.
type node struct {
	id      *rdmacm.ID
	qp      *ibv.QP
	began   time.Time // the step
	took    time.Duration
	retries int
}

// step is what all connections do together.
type step struct {
	name  string
	begin func(*node) error
	end   rdmacm.EventType // that ends it, or never
}

const never = ^rdmacm.EventType(0) // a step that is done when it returns

// client prints the table of the stock cmtime.
func client(ctx context.Context, o *options, out io.Writer) (err error) {
	src, dst, err := o.Resolve(ctx)
	if err != nil {
		return err
	}
	b := &bench{o: o, nodes: make([]*node, o.connections)}
	for i := range b.nodes {
		b.nodes[i] = &node{}
	}
	if b.ch, err = rdmacm.NewEventChannel(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	steps := []step{
		{"create id", b.createID, never},
		{"bind addr", func(n *node) error { return n.id.Bind(src) }, never},
		{"resolve addr", func(n *node) error { return n.id.ResolveAddr(src, dst, o.timeout) }, rdmacm.EventAddrResolved},
		{"resolve route", func(n *node) error { return n.id.ResolveRoute(o.timeout) }, rdmacm.EventRouteResolved},
		{"create qp", b.createQP, never},
		{"connect", func(n *node) error {
			return n.id.Connect(&rdmacm.ConnParam{QPN: n.qp.Num()})
		}, rdmacm.EventConnectResponse},
		{"disconnect", func(n *node) error {
			return errors.Join(n.id.Disconnect(), n.qp.Close())
		}, rdmacm.EventDisconnected},
		{"destroy", func(n *node) error { return errors.Join(b.shared.Close(), n.id.Close()) }, never},
	}
	table := "step              total ms     max ms     min us  us / conn\n"
	for _, s := range steps {
		if s.name == "bind addr" && !src.IsValid() {
			continue
		}
		start := time.Now()
		if s.end == never {
			err = b.each(s)
		} else {
			err = b.together(ctx, s)
		}
		if err != nil {
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

// each takes one connection after the other through a step.
func (b *bench) each(s step) error {
	for _, n := range b.nodes {
		n.began = time.Now()
		if err := s.begin(n); err != nil {
			return err
		}
		n.took = time.Since(n.began)
	}
	return nil
}

// together begins a step for all connections, while it reads the events that end
// it for each.
func (b *bench) together(ctx context.Context, s step) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var beginner sync.WaitGroup
	defer beginner.Wait()
	beginner.Go(func() {
		for _, n := range b.nodes {
			n.began, n.retries = time.Now(), b.o.retries
			if err := s.begin(n); err != nil {
				cancel(err)
				return
			}
		}
	})
	for left := len(b.nodes); left > 0; {
		ev, err := b.ch.Event(ctx)
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx) // of the beginner, or an interrupt
			}
			return err
		}
		n := ev.ID.Value().(*node)
		switch {
		case ev.Type == s.end:
			if s.end == rdmacm.EventConnectResponse { // the server has replied
				if err := n.id.BringUp(n.qp, nil); err != nil {
					return err
				}
				if err := n.id.Establish(); err != nil {
					return err
				}
			}
			n.took = time.Since(n.began)
			left--
		case (ev.Type == rdmacm.EventAddrError || ev.Type == rdmacm.EventRouteError) && n.retries > 0:
			n.retries--
			if err := s.begin(n); err != nil {
				return err
			}
		case ev.Type == rdmacm.EventTimewaitExit || ev.Type == rdmacm.EventAddrChange:
		case ev.Err() != nil:
			return ev.Err()
		default:
			return fmt.Errorf("event %v, want %v", ev, s.end)
		}
	}
	return nil
}

func (b *bench) createID(n *node) (err error) {
	if n.id, err = b.ch.CreateID(rdmacm.PortSpaceTCP); err == nil {
		n.id.SetValue(n)
	}
	return err
}

// createQP makes a queue pair for a connection. The first one's device, which is
// known by now, is that of all: they go to one address.
func (b *bench) createQP(n *node) (err error) {
	if b.pd == nil {
		dev, err := n.id.Verbs()
		if err != nil {
			return err
		}
		if b.pd, err = dev.AllocPD(); err != nil {
			return err
		}
		b.shared.Add(b.pd)
		if b.cq, err = dev.CreateCQ(2, nil); err != nil { // nothing is posted
			return err
		}
		b.shared.Add(b.cq)
	}
	n.qp, err = b.pd.CreateQP(b.cq, b.cq, &ibv.QPOptions{MaxSendWR: 1, MaxRecvWR: 1})
	return err
}

// close closes what is still open after a failure, children before parents. Closing an object twice
// is harmless.
func (b *bench) close() (err error) {
	for _, n := range b.nodes {
		if n.qp != nil {
			err = errors.Join(err, n.qp.Close())
		}
	}
	err = errors.Join(err, b.shared.Close())
	for _, n := range b.nodes {
		if n.id != nil {
			err = errors.Join(err, n.id.Close())
		}
	}
	return errors.Join(err, b.ch.Close())
}
