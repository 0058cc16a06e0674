package sysfs

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

func TestCounters(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "class/infiniband/mlx5_0/ports/2")
	for name, text := range map[string]string{
		"counters/port_xmit_data":    "18446744073709551615\n",
		"counters/port_xmit_discard": "N/A (no PMA)\n",
		"hw_counters/out_of_buffer":  "7\n",
		"hw_counters/lifespan":       "10\n",
		"hw_counters/negative":       "-1\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]uint64{"port_xmit_data": 1<<64 - 1, "out_of_buffer": 7}
	if got := Root(root).Counters("mlx5_0", 2); !maps.Equal(got, want) {
		t.Errorf("Counters = %v, want %v", got, want)
	}
	for _, dev := range []string{"mlx5_1", "../mlx5_0", ""} {
		if got := Root(root).Counters(dev, 2); len(got) != 0 {
			t.Errorf("Counters(%q) = %v, want none", dev, got)
		}
	}
}
