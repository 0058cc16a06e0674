package wire

import (
	"fmt"
	"strings"
)

// Transport is the type of the queue pairs, numbered as perftest numbers its connection types.
type Transport uint8

// The transports.
const (
	RC Transport = 0
	UC Transport = 1
)

// notHere says why perftest's other transports are refused.
var notHere = map[string]string{
	"UD":  "not there yet",
	"XRC": "not there yet",
	"DC":  "not there yet",
	"SRD": "not there yet",
}

// ParseTransport reads the name of a transport, in any case.
func ParseTransport(name string) (Transport, error) {
	for _, t := range []Transport{RC, UC} {
		if strings.EqualFold(name, t.String()) {
			return t, nil
		}
	}
	if why, ok := notHere[strings.ToUpper(name)]; ok {
		return 0, fmt.Errorf("connection type (-c) %s: %s, allowed are RC and UC", strings.ToUpper(name), why)
	}
	return 0, fmt.Errorf("connection type (-c) %q, allowed are RC and UC", name)
}

// String returns the name as the command line has it.
func (t Transport) String() string {
	switch t {
	case RC:
		return "RC"
	case UC:
		return "UC"
	}
	return fmt.Sprintf("Transport(%d)", uint8(t))
}
