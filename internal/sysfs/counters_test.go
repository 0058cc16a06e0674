package sysfs

import (
	"errors"
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
	want := map[string]uint64{"port_xmit_data": 1<<64 - 1}
	if got, unread := Root(root).CountersIn("mlx5_0", 2, PortCounters); !maps.Equal(got, want) || unread != nil {
		t.Errorf("Counters = %v, %v, want %v", got, unread, want)
	}
	want = map[string]uint64{"out_of_buffer": 7}
	got, unread := Root(root).CountersIn("mlx5_0", 2, HardwareCounters)
	var bad *ValueError
	if !maps.Equal(got, want) || len(unread) != 1 || !errors.As(unread[0], &bad) || bad.Text != "-1" {
		t.Errorf("Counters = %v, %v, want %v", got, unread, want)
	}
	want["port_xmit_data"] = 1<<64 - 1
	if got := Root(root).Counters("mlx5_0", 2); !maps.Equal(got, want) {
		t.Errorf("Counters = %v, want %v", got, want)
	}
	for dev, wrong := range map[string]int{"mlx5_1": 0, "../mlx5_0": 1, "": 1} {
		if got, unread := Root(root).CountersIn(dev, 2, PortCounters); len(got) != 0 || len(unread) != wrong {
			t.Errorf("Counters(%q) = %v, %v, want none", dev, got, unread)
		}
	}
}
