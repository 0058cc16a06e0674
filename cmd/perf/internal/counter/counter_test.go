package counter

import "testing"

// A counter of load is no fault of the network: perf doctor would warn of it on a healthy host.
func TestTroubles(t *testing.T) {
	for name, fault := range map[string]bool{
		"symbol_error": true, "out_of_sequence": true, "local_ack_timeout_err": true,
		"out_of_buffer": false, "rnr_nak_retry_err": false, "np_cnp_sent": false, "port_xmit_wait": false,
	} {
		trouble, known := Troubles[name]
		if !known || trouble.Text == "" || trouble.Fault != fault {
			t.Errorf("%s: %+v, %v; want fault %v", name, trouble, known, fault)
		}
	}
	if got := Troubles["link_downed"].Note("link_downed", 3); got != "link_downed rose by 3: the link went down" {
		t.Errorf("%q", got)
	}
}
