package compare

import "testing"

func TestFromTable(t *testing.T) {
	const table = " #bytes     #iterations    BW peak[MB/sec]\n 65536      300              62.01              57.37 " +
		" \t\t   0.000918\n"
	if v, err := FromTable([]byte(table), 65536, 3); err != nil || v != 57.37 {
		t.Errorf("have %v, %v, want 57.37", v, err)
	}
	if _, err := FromTable([]byte(table), 8, 3); err == nil {
		t.Error("found a row that is not there")
	}
}

func TestFromJSON(t *testing.T) {
	if v, err := FromJSON([]byte(`{"results":[{"size_bytes":8,"latency_p50_ns":1500.5}]}`),
		"latency_p50_ns"); err != nil || v != 1500.5 {
		t.Errorf("have %v, %v, want 1500.5", v, err)
	}
	for _, bad := range []string{``, `{}`, `{"results":[{}]}`, `{"results":[{"latency_p50_ns":"x"}]}`} {
		if v, err := FromJSON([]byte(bad), "latency_p50_ns"); err == nil {
			t.Errorf("%q gave %v", bad, v)
		}
	}
}

func TestMedian(t *testing.T) {
	if m := Median([]float64{3, 1, 2}); m != 2 {
		t.Errorf("have %v, want 2", m)
	}
	if m := Median([]float64{4, 1, 2, 3}); m != 2.5 {
		t.Errorf("have %v, want 2.5", m)
	}
}
