package wire

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/internal/flags"
)

// Transport is the type of the queue pairs, numbered as perftest numbers its connection types.
type Transport uint8

// The transports.
const (
	RC     Transport = 0
	UC     Transport = 1
	UD     Transport = 2
	RawEth Transport = 3 // Ethernet frames, which have no exchange
	XRC    Transport = 4
	DC     Transport = 5
	SRD    Transport = 6 // EFA
)

// Reliable reports whether a message that completes has arrived.
func (t Transport) Reliable() bool { return t == RC || t == XRC || t == DC || t == SRD }

// OneWay reports whether a queue pair either sends or receives, and all that receive share one queue.
func (t Transport) OneWay() bool { return t == XRC || t == DC }

// ParseTransport reads the name of a transport, in any case.
func ParseTransport(name string) (Transport, error) {
	if i := slices.IndexFunc(transportNames, func(n string) bool { return strings.EqualFold(n, name) }); i >= 0 {
		return Transport(i), nil
	}
	return 0, fmt.Errorf("connection type (-c) %q; allowed: RC, UC, UD, XRC, DC, SRD and RawEth", name)
}

var transportNames = []string{RC: "RC", UC: "UC", UD: "UD", RawEth: "RawEth", XRC: "XRC", DC: "DC", SRD: "SRD"}

// String returns the name as the command line has it.
func (t Transport) String() string { return flags.Name("Transport", int64(t), transportNames) }
