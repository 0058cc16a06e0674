package hostfacts

import (
	"errors"
	"slices"
	"testing"
)

// TestDiff: rises, resets, counters that stop, and counters of one snapshot only.
func TestDiff(t *testing.T) {
	s, h := server(t)
	dir := "class/infiniband/mlx5_0/ports/1/"
	s.Write(dir+"counters/link_downed", "200")
	s.Write(dir+"counters/VL15_dropped", "65535")
	s.Write(dir+"hw_counters/np_cnp_sent", "9")
	before, err := h.Counters("mlx5_0", 1)
	if err != nil || before.Missing != nil || before.Hardware["lifespan"] != 0 {
		t.Fatalf("%+v, %v", before, err)
	}
	s.Write(dir+"counters/port_xmit_data", "18446744073709551615")
	s.Write(dir+"counters/link_downed", "255")
	s.Write(dir+"hw_counters/np_cnp_sent", "4")
	s.Write(dir+"hw_counters/rnr_nak_retry_err", "1")
	s.Write(dir+"counters/symbol_error", "N/A (no PMA)")
	s.Write(dir+"hw_counters/out_of_sequence", "many")
	after, err := h.Counters("mlx5_0", 1)
	var bad *ValueError
	if err != nil || len(after.Missing) != 1 || !errors.As(after.Missing[0].Err, &bad) || bad.Text != "many" {
		t.Fatalf("%+v, %v", after, err)
	}
	got := after.Diff(before)
	want := []Change{{"VL15_dropped", 65535, 65535, false, true}, {"link_downed", 200, 255, false, true},
		{"np_cnp_sent", 9, 4, true, false}, {"port_xmit_data", 1000, 1<<64 - 1, false, false}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for i, rise := range []uint64{0, 55, 4, 1<<64 - 1 - 1000} {
		if n := got[i].Increase(); n != rise {
			t.Errorf("%s rose by %d, want %d", got[i].Name, n, rise)
		}
	}
	if same := after.Diff(after); len(same) != 2 { // those that are full
		t.Errorf("%+v", same)
	}
}

// TestTroubles: a counter of load is no fault of the network, or an agent would take a healthy host out of service.
func TestTroubles(t *testing.T) {
	for name, fault := range map[string]bool{
		"symbol_error": true, "out_of_sequence": true, "local_ack_timeout_err": true, "out_of_buffer": false,
		"rnr_nak_retry_err": false, "np_cnp_sent": false, "port_xmit_wait": false,
	} {
		if got, ok := TroubleOf(name); !ok || got.Text == "" || got.Fault != fault {
			t.Errorf("%s: %+v, %v; want fault %v", name, got, ok, fault)
		}
	}
	if _, ok := TroubleOf("port_xmit_data"); ok {
		t.Error("traffic is trouble")
	}
	for name, most := range CounterLimits() {
		if CounterMax(name) != most || most == 0 {
			t.Errorf("%s: %d, %d", name, most, CounterMax(name))
		}
	}
}
