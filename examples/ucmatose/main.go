// Ucmatose opens many connections, sends messages both ways over each of them, and closes them, with itself or
// with the stock ucmatose, as server or as client.
//
//	ucmatose -c 10              # on one host: waits for ten connections
//	ucmatose -c 10 -s HOST      # on the other
//
// One goroutine takes all connections through their steps, by the events of one channel, on either side.
package main

import (
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

func main() { program.Main("ucmatose", os.Args[1:], parse, run) }

type options struct {
	program.Ends
	program.Messages
	connections     int
	tos, ackTimeout int
	migrate         bool
}

func parse(args []string) (*options, error) {
	o := &options{Messages: program.Messages{Kind: "message"}}
	f := program.NewFlags("ucmatose [options]\nucmatose -s HOST [options]\n")
	o.Ends.Flags(f, "7471")
	f.Int(&o.connections, "connections", "c", 1, 1, 1<<16, "`number` of connections, the same on both sides")
	o.Messages.Flags(f, 0, 1<<20)
	f.Int(&o.tos, "tos", "t", -1, -1, math.MaxUint8, "`type` of service of a client's packets (default the system's)")
	f.Int(&o.ackTimeout, "ack-timeout", "a", -1, -1, 31,
		"4.096 µs times two to the power of `n` is the time to wait for an acknowledgement (default the path's)")
	f.BoolVarP(&o.migrate, "migrate", "m", false, "move the connections to a second event channel")
	err := f.Parse(args, 0)
	return o, errors.Join(err, program.Within("-C times -S", o.Count*o.Size, 0, 1<<30))
}

func run(r *program.Run, o *options) {
	m := &matose{Run: r, o: o, server: o.Server == ""}
	m.events = program.NewEvents(r, m.handle)
	from, to := o.Resolve()
	if m.server {
		l := m.add(program.Must(m.events.CreateID(rdmacm.PortSpaceTCP)))
		program.Check(l.Bind(from))
		program.Check(l.Listen(0))
		fmt.Fprintf(r, "listening on %v\n", l.LocalAddr())
	} else {
		for range o.connections {
			id := m.add(program.Must(m.events.CreateID(rdmacm.PortSpaceTCP)))
			if o.tos >= 0 {
				program.Check(id.SetTOS(uint8(o.tos)))
			}
			program.Check(id.ResolveAddr(from, to, program.Resolving))
		}
	}
	m.events.Until(r, o.connections, rdmacm.EventEstablished)
	o.Both(r, m.exchanges, m.server)
	if o.migrate {
		m.migrate()
	}
	if m.server {
		for _, id := range m.ids[1:] {
			program.Check(id.Disconnect())
		}
	}
	m.events.Until(r, o.connections, rdmacm.EventDisconnected)
}

// matose is one side: all its connections, and the channel of their events. It is not safe for concurrent use.
type matose struct {
	*program.Run
	o         *options
	server    bool
	events    *program.Events
	ids       []*rdmacm.ID // of the connections, behind the one that listens
	exchanges []*program.Exchange
}

func (m *matose) add(id *rdmacm.ID) *rdmacm.ID {
	m.ids = append(m.ids, program.Keep(m, id))
	return id
}

// handle takes a connection to its next step.
func (m *matose) handle(ev *rdmacm.Event) {
	id := ev.ID
	switch ev.Type {
	case rdmacm.EventAddrResolved:
		program.Check(id.ResolveRoute(program.Resolving))
	case rdmacm.EventRouteResolved:
		m.queuePair(id)
		program.Check(id.Connect(nil))
	case rdmacm.EventConnectRequest: // to the server
		if len(m.exchanges) == m.o.connections {
			program.Check(id.Close()) // which rejects it
			return
		}
		m.queuePair(m.add(id))
		program.Check(id.Accept(nil))
	case rdmacm.EventDisconnected:
		if !m.server {
			program.Check(id.Disconnect()) // the reply
		}
	default:
		program.Check(ev.Err())
	}
}

// queuePair makes the queue pair of a connection, whose device is known by now, and posts a receive for every message
// before the peer can send.
func (m *matose) queuePair(id *rdmacm.ID) {
	if m.o.ackTimeout >= 0 {
		program.Check(id.SetAckTimeout(ibv.TimeCode(m.o.ackTimeout)))
	}
	dev := program.Must(id.Verbs())
	qp := program.NewQP(m.Run, dev, id.CreateQP, ibv.RC, max(1, m.o.Count))
	m.exchanges = append(m.exchanges, m.o.Exchange(m, qp))
}

// migrate moves all IDs to a second channel. Their unread events go with them.
func (m *matose) migrate() {
	from := m.events.EventChannel
	m.events.EventChannel = program.Must(rdmacm.NewEventChannel())
	for _, id := range m.ids {
		program.Check(id.Migrate(m.events.EventChannel))
	}
	program.Check(from.Close())
}
