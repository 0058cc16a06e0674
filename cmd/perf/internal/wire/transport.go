package wire

import (
	"fmt"
	"strings"
)

// Transport is the type of the queue pairs, numbered as perftest numbers its connection types.
type Transport uint8

// The transports.
const (
	RC     Transport = 0
	UC     Transport = 1
	UD     Transport = 2
	RawEth Transport = 3 // Ethernet frames, of which no exchange tells
	XRC    Transport = 4
	DC     Transport = 5
)

// Reliable reports whether a message that completes has arrived.
func (t Transport) Reliable() bool { return t == RC || t == XRC || t == DC }

// OneWay reports whether a queue pair either sends or receives, and all that receive share one queue.
func (t Transport) OneWay() bool { return t == XRC || t == DC }

// notHere says why perftest's other transports are refused.
var notHere = map[string]string{
	"SRD": "not there yet",
}

// ParseTransport reads the name of a transport, in any case.
func ParseTransport(name string) (Transport, error) {
	for _, t := range []Transport{RC, UC, UD, XRC, DC, RawEth} {
		if strings.EqualFold(name, t.String()) {
			return t, nil
		}
	}
	if why, ok := notHere[strings.ToUpper(name)]; ok {
		return 0, fmt.Errorf("connection type (-c) %s: %s, allowed are RC, UC, UD, XRC, DC and RawEth", strings.ToUpper(name), why)
	}
	return 0, fmt.Errorf("connection type (-c) %q, allowed are RC, UC, UD, XRC, DC and RawEth", name)
}

// String returns the name as the command line has it.
func (t Transport) String() string {
	switch t {
	case RC:
		return "RC"
	case UC:
		return "UC"
	case UD:
		return "UD"
	case XRC:
		return "XRC"
	case DC:
		return "DC"
	case RawEth:
		return "RawEth"
	}
	return fmt.Sprintf("Transport(%d)", uint8(t))
}
