// Cmtime measures how long the steps of connecting take, for many connections at a time, with itself or with the stock
// cmtime, as server or as client. The client takes single steps of package rdmacm, the server uses Listen and Accept.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

var (
	ends  program.Ends
	flags = ends.NewFlags("cmtime", "7471")
	count = flags.Int(new(int), "connections", "c", 100, 1, 1<<20, "`number` of connections of a client")
)

func main() { program.Main("cmtime", flags.Parse, run) }

func run(r *program.Run) {
	if ends.Server == "" {
		server(r)
	} else {
		client(r)
	}
}

// server accepts all connections, and closes each when its client has.
func server(r *program.Run) {
	var all, open atomic.Int64
	program.Serve(r, program.Listen(r, ends.Bind, ends.Port), func(r *program.Run, request *rdmacm.Request) {
		c := program.Must(request.Accept(r, &rdmacm.Options{QP: ibv.QPOptions{MaxSendWR: 1, MaxRecvWR: 1}}))
		all.Add(1)
		open.Add(1)
		select {
		case <-c.Done():
		case <-r.Done():
		}
		program.Check(c.Close())
		if open.Add(-1) == 0 {
			fmt.Fprintf(r, "%d connections\n", all.Load())
		}
	})
}

// bench takes all connections of a client through each step together.
type bench struct {
	nodes []node
	ended chan error // nil for each connection whose step an event has ended
	table string     // as the stock cmtime prints it
}

// node is a connection, and the step that it is taking.
type node struct {
	id    *rdmacm.ID
	qp    *ibv.QP
	end   rdmacm.EventType // that ends the step, or never
	began time.Time
	took  time.Duration
}

const never = ^rdmacm.EventType(0) // a step that is done when it returns

func client(r *program.Run) {
	b := &bench{nodes: make([]node, *count), ended: make(chan error, *count+1)}
	events := program.NewEvents(r, b.handle)
	go func() { // reads the events of a step while that still begins
		b.ended <- program.Do(r, r, func(*program.Run) { events.Until(r, *count, rdmacm.EventDisconnected) })
	}()
	from, to := ends.Resolve()
	b.take("create id", never, func(n *node) {
		n.id = program.Keep(r, program.Must(events.CreateID(rdmacm.PortSpaceTCP)))
		n.id.SetValue(n)
	})
	if from.IsValid() {
		b.take("bind addr", never, func(n *node) { program.Check(n.id.Bind(from)) })
	}
	b.take("resolve addr", rdmacm.EventAddrResolved, func(n *node) {
		program.Check(n.id.ResolveAddr(from, to, program.Resolving))
	})
	b.take("resolve route", rdmacm.EventRouteResolved, func(n *node) {
		program.Check(n.id.ResolveRoute(program.Resolving))
	})
	// The device is that of all: they go to one address. Nothing is posted.
	dev := program.Must(b.nodes[0].id.Verbs())
	pd := program.Keep(r, program.Must(dev.AllocPD()))
	cq := program.Keep(r, program.Must(dev.CreateCQ(2, nil)))
	b.take("create qp", never, func(n *node) {
		n.qp = program.Keep(r, program.Must(n.id.CreateQP(pd, cq, cq, &ibv.QPOptions{MaxSendWR: 1, MaxRecvWR: 1})))
	})
	b.take("connect", rdmacm.EventEstablished, func(n *node) { program.Check(n.id.Connect(nil)) })
	b.take("disconnect", rdmacm.EventDisconnected, func(n *node) {
		program.Check(errors.Join(n.id.Disconnect(), n.qp.Close()))
	})
	b.take("destroy", never, func(n *node) { // closing an object twice is harmless
		program.Check(errors.Join(cq.Close(), pd.Close(), n.id.Close()))
	})
	fmt.Fprint(r, "step              total ms     max ms     min us  us / conn\n", b.table)
}

// take takes all connections through a step: one after the other, or those that an event ends together.
func (b *bench) take(name string, end rdmacm.EventType, begin func(*node)) {
	defer program.Doing("%s", name)
	start := time.Now()
	for i := range b.nodes {
		n := &b.nodes[i]
		n.end, n.began = end, time.Now()
		begin(n)
		if end == never {
			n.took = time.Since(n.began)
			b.ended <- nil
		}
	}
	for range b.nodes {
		program.Check(<-b.ended)
	}
	us := func(d time.Duration) float64 { return d.Seconds() * 1e6 }
	byTime := func(a, b node) int { return cmp.Compare(a.took, b.took) }
	total, most, least := time.Since(start), slices.MaxFunc(b.nodes, byTime).took, slices.MinFunc(b.nodes, byTime).took
	b.table += fmt.Sprintf("%-13s: %11.2f%11.2f%11.2f%11.2f\n", name, us(total)/1e3, us(most)/1e3, us(least),
		us(total)/float64(len(b.nodes)))
}

// handle ends the step of a connection.
func (b *bench) handle(ev *rdmacm.Event) {
	n := ev.ID.Value().(*node)
	if ev.Type != n.end {
		program.Check(cmp.Or(ev.Err(), fmt.Errorf("want %v", n.end)))
	}
	n.took = time.Since(n.began)
	b.ended <- nil
}
