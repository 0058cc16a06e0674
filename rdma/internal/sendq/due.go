package sendq

import "github.com/pureverbs/pureverbs/rdma/internal/wire"

// What is the purpose of a work request. The constants are in the order in which Pick returns them. But data frames and
// operations take turns while both may be sent, so an operation waits for at most one data frame.
type What uint8

const (
	Reset   What = iota // the connection is broken, so nothing else matters
	Lower               // a lower limit: a crowded engine waits for the reply
	Answer              // that reply
	Window              // a bind, before the frame that informs the peer of it, or an invalidation
	Data                // the first staged data frame
	Control             // the first frame about leases; needs no credit of data
	Limit               // a limit that no other frame has carried
	FIN                 // after all data
	Ping                // after everything that its completion is to confirm
	Probe               // a read, after what it confirms: see Options.Probe
	Op                  // the next work request of the first operation
	None                // nothing that may be sent is due

	kinds = int(None)
)

func (w What) bit() Set { return 1 << w }

// Set is a set of Whats.
type Set uint16

// Has reports whether w is in the set.
func (s Set) Has(w What) bool { return s&w.bit() != 0 }

// plain are the frames without content.
var plain = [kinds]struct {
	kind   wire.Kind
	flags  uint8
	signal bool // somebody waits for its completion
}{
	Reset:  {wire.Reset, 0, true},
	Lower:  {wire.Limit, wire.FlagLower, false},
	Answer: {wire.Limit, wire.FlagLowered, false},
	Limit:  {wire.Limit, 0, false},
	FIN:    {wire.FIN, 0, true},
	Ping:   {wire.Ping, wire.FlagIgnore, true},
}
