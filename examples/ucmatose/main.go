// Ucmatose opens many connections, sends messages both ways over each of them, and closes them, with itself or
// with the stock ucmatose, as server or as client. One goroutine takes all of them through their steps, by the events
// of one channel: see program.Connections.
package main

import (
	"errors"
	"math"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

var (
	all   = program.Connections{Messages: program.Messages{Kind: "message"}, PortSpace: rdmacm.PortSpaceTCP}
	flags = all.NewFlags("ucmatose", "7471", "connections", 0, 1<<20)
	tos   = flags.Int(new(int), "tos", "t", -1, -1, math.MaxUint8,
		"`type` of service of a client's packets (default the system's)")
	ackTimeout = flags.Int(new(int), "ack-timeout", "a", -1, -1, 31,
		"4.096 µs times two to the power of `n` is the time to wait for an acknowledgement (default the path's)")
	migrate = flags.BoolP("migrate", "m", false, "move the connections to a second event channel")
)

func main() { program.Main("ucmatose", parse, run) }

func parse(args []string) error {
	err := flags.Parse(args)
	n := all.Count * all.Size
	return errors.Join(err, program.Want(n <= 1<<30, "-C times -S %d: want 0 to %d", n, 1<<30))
}

func run(r *program.Run) {
	all.Prepare = prepare
	all.Connect(r)
	all.SendAndReceive(all.Server == "")
	if *migrate {
		move()
	}
	if all.Server == "" {
		for _, id := range all.IDs[1:] { // the first one listens
			program.Check(id.Disconnect())
		}
	}
	all.Until(r, all.Number, rdmacm.EventDisconnected)
}

// prepare has a connection use what the flags say.
func prepare(_ *program.Run, id *rdmacm.ID, _ *program.Exchange) {
	if *tos >= 0 && all.Server != "" {
		program.Check(id.SetTOS(uint8(*tos)))
	}
	if *ackTimeout >= 0 {
		program.Check(id.SetAckTimeout(ibv.TimeCode(*ackTimeout)))
	}
}

// move moves all IDs to a second channel. Their unread events go with them.
func move() {
	from := all.EventChannel
	all.EventChannel = program.Must(rdmacm.NewEventChannel())
	for _, id := range all.IDs {
		program.Check(id.Migrate(all.EventChannel))
	}
	program.Check(from.Close())
}
