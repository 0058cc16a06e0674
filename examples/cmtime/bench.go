package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// bench takes all connections of the client through each step together.
type bench struct {
	o        *options
	src, dst netip.AddrPort
	ch       *rdmacm.EventChannel
	nodes    []*node
	pd       *ibv.PD // of all connections
	cq       *ibv.CQ
	steps    []timing
}

// node is a connection.
type node struct {
	id      *rdmacm.ID
	qp      *ibv.QP
	began   time.Time // the step
	took    time.Duration
	retries int
}

// timing is a step in figures.
type timing struct {
	name             string
	total, most, min time.Duration
}

func (b *bench) run(ctx context.Context) error {
	for range b.o.connections {
		b.nodes = append(b.nodes, &node{})
	}
	const never = ^rdmacm.EventType(0) // a step that is done when it returns
	for _, s := range []struct {
		name  string
		end   rdmacm.EventType
		begin func(*node) error
	}{
		{"create id", never, b.createID},
		{"bind addr", never, b.bind},
		{"resolve addr", rdmacm.EventAddrResolved, func(n *node) error {
			return n.id.ResolveAddr(b.src, b.dst, b.o.timeout)
		}},
		{"resolve route", rdmacm.EventRouteResolved, func(n *node) error { return n.id.ResolveRoute(b.o.timeout) }},
		{"create qp", never, b.createQP},
		{"connect", rdmacm.EventConnectResponse, func(n *node) error {
			return n.id.Connect(&rdmacm.ConnParam{QPN: n.qp.Num()})
		}},
		{"disconnect", rdmacm.EventDisconnected, func(n *node) error {
			return errors.Join(n.id.Disconnect(), n.qp.Close())
		}},
		{"destroy", never, b.destroy},
	} {
		if s.name == "bind addr" && !b.src.IsValid() {
			continue
		}
		start := time.Now()
		var err error
		if s.end == never {
			err = b.each(s.begin)
		} else {
			err = b.together(ctx, s.begin, s.end)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		t := timing{name: s.name, total: time.Since(start), min: b.nodes[0].took}
		for _, n := range b.nodes {
			t.most, t.min = max(t.most, n.took), min(t.min, n.took)
		}
		b.steps = append(b.steps, t)
	}
	return nil
}

// each takes one connection after the other through a step.
func (b *bench) each(begin func(*node) error) error {
	for _, n := range b.nodes {
		n.began = time.Now()
		if err := begin(n); err != nil {
			return err
		}
		n.took = time.Since(n.began)
	}
	return nil
}

// together begins a step for all connections, while it reads the events that end
// it for each.
func (b *bench) together(ctx context.Context, begin func(*node) error, end rdmacm.EventType) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var beginner sync.WaitGroup
	defer beginner.Wait()
	beginner.Go(func() {
		for _, n := range b.nodes {
			n.began, n.retries = time.Now(), b.o.retries
			if err := begin(n); err != nil {
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
		case ev.Type == end:
			if end == rdmacm.EventConnectResponse {
				if err := establish(n); err != nil {
					return err
				}
			}
			n.took = time.Since(n.began)
			left--
		case (ev.Type == rdmacm.EventAddrError || ev.Type == rdmacm.EventRouteError) && n.retries > 0:
			n.retries--
			if err := begin(n); err != nil {
				return err
			}
		case ev.Type == rdmacm.EventTimewaitExit || ev.Type == rdmacm.EventAddrChange:
		case ev.Err() != nil:
			return ev.Err()
		default:
			return fmt.Errorf("event %v, want %v", ev, end)
		}
	}
	return nil
}

func (b *bench) createID(n *node) (err error) {
	if n.id, err = b.ch.CreateID(rdmacm.PortSpaceTCP); err != nil {
		return err
	}
	n.id.SetValue(n)
	return nil
}

func (b *bench) bind(n *node) error { return n.id.Bind(b.src) }

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
		if b.cq, err = dev.CreateCQ(2, nil); err != nil { // nothing is posted
			return err
		}
	}
	n.qp, err = b.pd.CreateQP(b.cq, b.cq, &ibv.QPOptions{MaxSendWR: 1, MaxRecvWR: 1})
	return err
}

// establish ends the handshake: the server has replied.
func establish(n *node) error {
	if err := n.id.BringUp(n.qp, nil); err != nil {
		return err
	}
	return n.id.Establish()
}

// destroy closes a connection, and before the first one the objects that all share.
func (b *bench) destroy(n *node) error { return errors.Join(b.closeShared(), n.id.Close()) }

func (b *bench) closeShared() error {
	var errs []error
	if b.cq != nil {
		errs = append(errs, b.cq.Close())
	}
	if b.pd != nil {
		errs = append(errs, b.pd.Close())
	}
	return errors.Join(errs...)
}

// close closes what is still open after a failure, children before parents. Closing an object twice
// is harmless.
func (b *bench) close() error {
	var errs []error
	for _, n := range b.nodes {
		if n.qp != nil {
			errs = append(errs, n.qp.Close())
		}
	}
	errs = append(errs, b.closeShared())
	for _, n := range b.nodes {
		if n.id != nil {
			errs = append(errs, n.id.Close())
		}
	}
	return errors.Join(errs...)
}

// report prints the table of the stock cmtime.
func (b *bench) report(out io.Writer) {
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	us := func(d time.Duration) float64 { return d.Seconds() * 1e6 }
	fmt.Fprintln(out, "step              total ms     max ms     min us  us / conn")
	for _, t := range b.steps {
		fmt.Fprintf(out, "%-13s: %11.2f%11.2f%11.2f%11.2f\n", t.name, ms(t.total), ms(t.most), us(t.min),
			us(t.total)/float64(len(b.nodes)))
	}
}
