// Package counter says what it means for a test of rdmaperf that a port's counter rose.
package counter

import (
	"fmt"

	"github.com/pureverbs/pureverbs/hostfacts"
)

// byOption has the texts of counters that an option of rdmaperf makes rise.
var byOption = map[string]string{
	"out_of_buffer": "messages arrived without a posted receive: -r too small, or this end too slow",
	"local_ack_timeout_err": "packets or their acknowledgements were lost: the ACK timeout (-u) " +
		"expired",
}

// Note returns a line about a counter that rose by n. ok is false if the counter shows no problem; fault is true if it
// is one of the link or the network, and not of load.
func Note(name string, n uint64) (text string, fault, ok bool) {
	t, ok := hostfacts.TroubleOf(name)
	if own := byOption[name]; own != "" {
		t.Text = own
	}
	return fmt.Sprintf("%s rose by %d: %s", name, n, t.Text), t.Fault, ok
}
