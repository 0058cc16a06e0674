// Package counter has the meaning of the ports' counters that show a problem.
package counter

import "fmt"

// Trouble is the meaning of a counter that rose.
type Trouble struct {
	Text  string
	Fault bool // of the link or the network, and not of load: it shows on an idle port also
}

// Note returns a line about a counter that rose by n.
func (t Trouble) Note(name string, n uint64) string {
	return fmt.Sprintf("%s rose by %d: %s", name, n, t.Text)
}

// Troubles are the counters that show a problem, by the names of mlx5, bnxt, irdma and rxe. All others count traffic,
// or are not known here.
var Troubles = map[string]Trouble{
	"out_of_buffer": {"messages arrived without a posted receive: -r too small, or this end too " +
		"slow", false},
	"out_of_sequence":     {"packets arrived out of order or were lost", true},
	"packet_seq_err":      {"the peer requested packets again", true},
	"duplicate_request":   {"the peer repeated requests: acknowledgements were lost or late", false},
	"implied_nak_seq_err": {"responses of the peer were lost", false},
	"local_ack_timeout_err": {"packets or their acknowledgements were lost: the ACK timeout (-u) " +
		"expired", true},
	"rnr_nak_retry_err":               {"the peer had no receive posted", false},
	"rnr_retry":                       {"the peer had no receive posted", false},
	"rnr_nak_retries":                 {"the peer had no receive posted", false},
	"roce_adp_retrans":                {"packets were sent again", false},
	"roce_adp_retrans_to":             {"packets were sent again, after a timeout", false},
	"retry_exceeded_err":              {"the peer could not be reached", false},
	"completer_retry_err":             {"packets were sent again", false},
	"np_cnp_sent":                     {"congestion: this end told the peer to slow down", false},
	"rp_cnp_handled":                  {"congestion: this end was told to slow down", false},
	"rp_cnp_ignored":                  {"congestion: this end was told to slow down, and did not", false},
	"np_ecn_marked_roce_packets":      {"congestion: switches marked packets for this end", false},
	"cnpSent":                         {"congestion: this end told the peer to slow down", false},
	"cnpHandled":                      {"congestion: this end was told to slow down", false},
	"RxECNMrkd":                       {"congestion: switches marked packets for this end", false},
	"rx_icrc_encapsulated":            {"damaged packets arrived", false},
	"port_xmit_discards":              {"the port dropped packets instead of sending them", false},
	"port_xmit_wait":                  {"the port waited before sending: its link is full, or paused", false},
	"port_rcv_errors":                 {"damaged packets arrived", true},
	"symbol_error":                    {"the link has errors: check cable and transceiver", true},
	"link_downed":                     {"the link went down", true},
	"link_error_recovery":             {"the link had to recover: check cable and transceiver", true},
	"excessive_buffer_overrun_errors": {"the port's buffers ran over: check flow control (PFC)", true},
	"VL15_dropped":                    {"the port dropped management packets", true},
	"local_link_integrity_errors":     {"the link had bursts of errors: check cable and transceiver", true},
	"port_rcv_remote_physical_errors": {"a switch marked packets as bad: check the links behind it", true},
}

// Full has the values at which the port's counters of errors stop, from their widths in InfiniBand's PortCounters.
// The kernel reads these few bits even if the adapter counts with 64.
var Full = map[string]uint64{
	"symbol_error": 1<<16 - 1, "link_error_recovery": 1<<8 - 1, "link_downed": 1<<8 - 1, "port_rcv_errors": 1<<16 - 1,
	"port_rcv_remote_physical_errors": 1<<16 - 1, "port_rcv_switch_relay_errors": 1<<16 - 1,
	"port_xmit_discards": 1<<16 - 1, "port_xmit_constraint_errors": 1<<8 - 1, "port_rcv_constraint_errors": 1<<8 - 1,
	"local_link_integrity_errors": 1<<4 - 1, "excessive_buffer_overrun_errors": 1<<4 - 1, "VL15_dropped": 1<<16 - 1,
}
