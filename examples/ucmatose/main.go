// Ucmatose opens many connections, sends messages both ways over each of them, and closes them, with itself or
// with the stock ucmatose, as server or as client.
//
//	ucmatose -c 10              # on one host: waits for ten connections
//	ucmatose -c 10 -s HOST      # on the other
//
// One goroutine takes all connections through their steps, by the events of one channel, on either side: see
// program.Connections.
package main

import (
	"errors"
	"math"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

func main() { program.Main("ucmatose", parse, run) }

type options struct {
	program.Connections
	tos, ackTimeout int
	migrate         bool
}

func parse(args []string) (*options, error) {
	const most = 1 << 30 // bytes of all messages of a connection
	o := &options{}
	o.Kind, o.PortSpace = "message", rdmacm.PortSpaceTCP
	f := o.NewFlags("ucmatose", "7471", "connections", 0, 1<<20)
	f.Int(&o.tos, "tos", "t", -1, -1, math.MaxUint8, "`type` of service of a client's packets (default the system's)")
	f.Int(&o.ackTimeout, "ack-timeout", "a", -1, -1, 31,
		"4.096 µs times two to the power of `n` is the time to wait for an acknowledgement (default the path's)")
	f.BoolVarP(&o.migrate, "migrate", "m", false, "move the connections to a second event channel")
	err := f.Parse(args, 0)
	return o, errors.Join(err, program.Want(o.Count*o.Size <= most, "-C times -S %d: want 0 to %d", o.Count*o.Size, most))
}

func run(r *program.Run, o *options) {
	o.Prepare = o.prepare
	o.Connect(r)
	o.SendAndReceive(o.Server == "")
	if o.migrate {
		o.move()
	}
	if o.Server == "" {
		for _, id := range o.IDs[1:] { // the first one listens
			program.Check(id.Disconnect())
		}
	}
	o.Until(r, o.Number, rdmacm.EventDisconnected)
}

// prepare has a connection use what the flags say.
func (o *options) prepare(id *rdmacm.ID, _ *program.Exchange) {
	if o.tos >= 0 && o.Server != "" {
		program.Check(id.SetTOS(uint8(o.tos)))
	}
	if o.ackTimeout >= 0 {
		program.Check(id.SetAckTimeout(ibv.TimeCode(o.ackTimeout)))
	}
}

// move moves all IDs to a second channel. Their unread events go with them.
func (o *options) move() {
	from := o.EventChannel
	o.EventChannel = program.Must(rdmacm.NewEventChannel())
	for _, id := range o.IDs {
		program.Check(id.Migrate(o.EventChannel))
	}
	program.Check(from.Close())
}
