package counter

import "testing"

// TestNote: a counter of load is no fault of the network, because rdmaperf doctor would warn of it on a healthy host.
// The texts name rdmaperf's options.
func TestNote(t *testing.T) {
	for name, fault := range map[string]bool{
		"symbol_error": true, "out_of_sequence": true, "local_ack_timeout_err": true,
		"out_of_buffer": false, "rnr_nak_retry_err": false, "np_cnp_sent": false, "port_xmit_wait": false,
	} {
		if text, got, known := Note(name, 1); !known || text == "" || got != fault {
			t.Errorf("%s: %s, %v, %v; want fault %v", name, text, got, known, fault)
		}
	}
	for name, want := range map[string]string{"link_downed": "link_downed rose by 3: the link went down",
		"local_ack_timeout_err": "local_ack_timeout_err rose by 3: packets or their acknowledgements were lost: " +
			"the ACK timeout (-u) expired"} {
		if got, _, _ := Note(name, 3); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if _, _, known := Note("port_xmit_data", 3); known {
		t.Error("traffic is trouble")
	}
	for name := range byOption {
		if _, _, known := Note(name, 1); !known {
			t.Errorf("%s has a text, and is no trouble", name)
		}
	}
}
