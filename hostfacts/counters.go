package hostfacts

import (
	"maps"
	"slices"

	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// Counters are the counters of a port at one moment, by the kernel's names.
type Counters struct {
	Device   string            `json:"device"`
	Port     int               `json:"port"`
	Counters map[string]uint64 `json:"counters"`    // of InfiniBand: port_xmit_data in units of 4 bytes, symbol_error
	Hardware map[string]uint64 `json:"hw_counters"` // of the driver: out_of_sequence, np_cnp_sent

	Missing []Missing `json:"missing,omitempty"` // those that could not be read
}

// Counters reads the counters of a port. Those that the driver or the port does not have are left out. In a container
// often none can be seen. The error is a [*NotFoundError] if there is no such device or port.
func (h Host) Counters(device string, port int) (*Counters, error) {
	if port < 1 || port > 255 {
		return nil, &NotFoundError{Device: device, Port: port}
	}
	c := &Counters{Device: device, Port: port}
	for sub, to := range map[string]*map[string]uint64{sysfs.PortCounters: &c.Counters,
		sysfs.HardwareCounters: &c.Hardware} {
		values, unread := h.sys().CountersIn(device, uint8(port), sub)
		*to = values
		c.Missing = append(c.Missing, missing(unread)...)
	}
	slices.SortFunc(c.Missing, func(a, b Missing) int { return CompareNames(a.Path, b.Path) })
	if len(c.Counters)+len(c.Hardware) > 0 {
		return c, nil
	}
	d, err := h.Device(device)
	if err == nil && d.Port(port) == nil {
		err = d.noPort(port)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// All returns both kinds of counters together, by name.
func (c *Counters) All() map[string]uint64 {
	all := maps.Clone(c.Counters)
	maps.Copy(all, c.Hardware)
	return all
}

// Change is how a counter changed between two moments.
type Change struct {
	Name   string `json:"name"`
	Before uint64 `json:"before"`
	After  uint64 `json:"after"`
	Reset  bool   `json:"reset"` // it was set to zero meanwhile, or wrapped
	Full   bool   `json:"full"`  // it stopped at its highest value: there may be more
}

// Increase returns by how much the counter rose, or at least that.
func (c Change) Increase() uint64 {
	if c.Reset {
		return c.After
	}
	return c.After - c.Before
}

// Diff returns what changed since another snapshot of the same port, in the order of the names. Counters that are in
// one snapshot only are left out, because their change is not known.
func (c *Counters) Diff(before *Counters) []Change {
	old, now := before.All(), c.All()
	var out []Change
	for _, name := range slices.Sorted(maps.Keys(now)) {
		b, ok := old[name]
		a := now[name]
		if most := CounterMax(name); ok && (a != b || most != 0 && a == most) {
			out = append(out, Change{Name: name, Before: b, After: a, Reset: a < b, Full: a == most && most != 0})
		}
	}
	return out
}

// Trouble is what a counter that rises shows.
type Trouble struct {
	Text  string `json:"text"`
	Fault bool   `json:"fault"` // of the link or the network, and not of load: it shows on an idle port also
}

// troubles are by the names of mlx5, bnxt, irdma and rxe.
var troubles = map[string]Trouble{
	"out_of_buffer":                   {"messages arrived without a posted receive", false},
	"out_of_sequence":                 {"packets arrived out of order or were lost", true},
	"packet_seq_err":                  {"the peer requested packets again", true},
	"duplicate_request":               {"the peer repeated requests: acknowledgements were lost or late", false},
	"implied_nak_seq_err":             {"responses of the peer were lost", false},
	"local_ack_timeout_err":           {"packets or their acknowledgements were lost: the ACK timeout expired", true},
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

// TroubleOf returns what a counter that rises shows. ok is false for counters of traffic, and for those that this
// package does not know.
func TroubleOf(counter string) (t Trouble, ok bool) {
	t, ok = troubles[counter]
	return t, ok
}

// full has the values at which the port's counters of errors stop, from their widths in InfiniBand's PortCounters. The
// kernel reads these few bits even if the adapter counts with 64.
var full = map[string]uint64{
	"symbol_error": 1<<16 - 1, "link_error_recovery": 1<<8 - 1, "link_downed": 1<<8 - 1, "port_rcv_errors": 1<<16 - 1,
	"port_rcv_remote_physical_errors": 1<<16 - 1, "port_rcv_switch_relay_errors": 1<<16 - 1,
	"port_xmit_discards": 1<<16 - 1, "port_xmit_constraint_errors": 1<<8 - 1, "port_rcv_constraint_errors": 1<<8 - 1,
	"local_link_integrity_errors": 1<<4 - 1, "excessive_buffer_overrun_errors": 1<<4 - 1, "VL15_dropped": 1<<16 - 1,
}

// CounterLimits returns the value at which each counter stops that does not wrap, by name.
func CounterLimits() map[string]uint64 { return maps.Clone(full) }

// CounterMax returns the value at which a counter stops, and 0 for those that wrap or are not known.
func CounterMax(counter string) uint64 { return full[counter] }
