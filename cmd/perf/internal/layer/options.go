package layer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// Carrier is the means of transport of a run's bytes.
type Carrier string

// The carriers. Stream and Message can be requested; the others are for comparison.
const (
	Stream  Carrier = "stream"
	Message Carrier = "message"
	Buffer  Carrier = "buffer" // messages that are not copied
	Raw     Carrier = "send"   // rdmaperf send: raw verbs
	RawWait Carrier = "send-e" // rdmaperf send -e, which sleeps for completions
	TCP     Carrier = "tcp"
	Copy    Carrier = "copy" // a stream whose copying is timed
)

// raw reports whether c is raw verbs.
func (c Carrier) raw() bool { return c == Raw || c == RawWait }

// Options is one test as one end asks for it. A server uses what is about itself; the rest is the client's.
type Options struct {
	Carrier Carrier // Stream or Message
	Metric  wire.Metric

	Host    string // of the server; empty: be the server
	Bind    string // address of a server's TCP listener; empty: all
	Address string // of a server's device; empty: the one that the client has reached by TCP
	Port    int    // TCP; raw verbs use the next one
	Device  string // of this end; empty: the one that the address leads to

	Size     int
	All      bool // powers of two from 2 to Size
	Messages int  // on all connections, for each size; 0: enough for a short run
	Conns    int
	Rounds   int
	Compare  []Carrier // that take turns with it

	Block    int           // bytes; 0: the package's default
	Spin     time.Duration // of the pollers; 0: the package's default
	Timeout  time.Duration // give up when nothing moves for that long
	Patience time.Duration // how long a client tries to reach a server
}

// Bounds of what a peer may ask for.
const (
	maxSize     = 1 << 24 // a message's default limit
	maxConns    = 1 << 14
	maxMessages = 1 << 40
)

const (
	bandwidthSize    = 64 << 10
	latencySize      = 8
	latencyMessages  = 5000
	bandwidthBytes   = 128 << 20 // of a run, up to the next two
	fewestMessages   = 1000
	mostMessages     = 500_000
	comparisonRounds = 5
	largestPort      = 1<<16 - 1
	mostRounds       = 1000
)

// New checks what was asked for and completes it. Its error joins all that is wrong.
func New(o Options) (Options, error) {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if o.Carrier != Stream && o.Carrier != Message {
		bad("carrier %q; allowed: stream and message", string(o.Carrier))
	}
	if o.Size == 0 {
		o.Size = bandwidthSize
		if o.Metric == wire.Latency {
			o.Size = latencySize
		}
		if o.All {
			o.Size = maxSize / 2
		}
	}
	if o.Size < 1 || o.Size > maxSize {
		bad("size (-s) of %d bytes; allowed: 1 to %d", o.Size, maxSize)
	}
	o.Conns = cmp.Or(o.Conns, 1)
	if o.Conns < 1 || o.Conns > maxConns {
		bad("%d connections (-q); allowed: 1 to %d", o.Conns, maxConns)
	}
	for i, c := range o.Compare {
		switch {
		case c != Stream && c != Message && c != Buffer && !c.raw() && c != TCP && c != Copy:
			bad("--compare %s; allowed: stream, message, buffer, send, send-e, tcp and copy", string(c))
		case c == o.Carrier || slices.Contains(o.Compare[:i], c):
			bad("--compare %s: runs already", string(c))
		case c == Copy && o.Metric == wire.Latency:
			bad("--compare copy: only for bw")
		}
	}
	if o.Conns > 1 && (o.Metric == wire.Latency || len(o.Compare) > 0) {
		bad("%d connections (-q): only for bw, and not with --compare", o.Conns)
	}
	if o.Messages != 0 && o.Messages < max(o.Conns, 5) || o.Messages > maxMessages {
		bad("%d messages (-n); allowed: %d to %d", o.Messages, max(o.Conns, 5), maxMessages)
	}
	if o.Rounds == 0 {
		o.Rounds = 1
		if len(o.Compare) > 0 {
			o.Rounds = comparisonRounds
		}
	}
	if o.Rounds < 1 || o.Rounds > mostRounds {
		bad("%d rounds; allowed: 1 to %d", o.Rounds, mostRounds)
	}
	if o.Port < 1 || o.Port >= largestPort {
		bad("tcp port (-p) %d; allowed: 1 to %d: raw verbs use the next port", o.Port, largestPort-1)
	}
	if o.Timeout <= 0 {
		bad("timeout of %v is not positive", o.Timeout)
	}
	if o.Host != "" && (o.Bind != "" || o.Address != "") {
		bad("--bind and --address are for a server")
	}
	return o, errors.Join(errs...)
}

// Client reports whether this end connects.
func (o *Options) Client() bool { return o.Host != "" }

// sizes lists the sizes of the test, in order.
func (o *Options) sizes() []int {
	if !o.All {
		return []int{o.Size}
	}
	var list []int
	for n := 2; n <= o.Size; n *= 2 {
		list = append(list, n)
	}
	return list
}

// messages returns how many messages of a size a connection carries.
func (o *Options) messages(size int) int {
	switch {
	case o.Messages > 0:
		return o.Messages / o.Conns
	case o.Metric == wire.Latency:
		return latencyMessages
	}
	return max(min(max(bandwidthBytes/size, fewestMessages), mostMessages)/o.Conns, 1)
}

// order returns the run of a carrier and a size.
func (o *Options) order(c Carrier, size int) order {
	n := o.messages(size)
	return order{Version: protocolVersion, Carrier: c, Latency: o.Metric == wire.Latency, Size: size, Conns: o.Conns,
		Messages: n, Warm: n/10 + 1}
}
