package plan

import (
	"fmt"
	"strings"

	"github.com/pureverbs/pureverbs/ibv"
)

// Transport is the type of the queue pairs, numbered as perftest numbers its connection types.
type Transport uint8

// RC is the reliable connection.
const RC Transport = 0

// ParseTransport reads the name of a transport, in any case.
func ParseTransport(name string) (Transport, error) {
	if !strings.EqualFold(name, RC.String()) {
		return 0, fmt.Errorf("connection type (-c) %q: only RC is supported", name)
	}
	return RC, nil
}

// String returns the name as the command line has it.
func (t Transport) String() string {
	if t == RC {
		return "RC"
	}
	return fmt.Sprintf("Transport(%d)", uint8(t))
}

// QPType returns the type of the queue pairs.
func (t Transport) QPType() ibv.QPType { return ibv.RC }
