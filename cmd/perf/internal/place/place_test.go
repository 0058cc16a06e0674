package place

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/hostfacts"
	"github.com/pureverbs/pureverbs/internal/sysfs/sysfstest"
)

// twoNodes is a machine of eight CPUs, every second of which is at node 1, as the device is.
func twoNodes(t *testing.T, node string) hostfacts.Host {
	tr := sysfstest.New(t)
	tr.Device("mlx5_0", "pci0000:3a/0000:3b:00.0", "mlx5_core", "0c42:a103:0065:1a2e")
	tr.Write("class/infiniband/mlx5_0/device/numa_node", node)
	tr.Write("devices/system/node/node0/cpulist", "0,2,4,6")
	tr.Write("devices/system/node/node1/cpulist", "1,3,5,7")
	tr.Write("devices/system/node/online", "0-1")
	return hostfacts.Host{Sys: tr.Root}
}

func TestChoose(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5, 6, 7}
	for _, tt := range []struct {
		name           string
		node           string
		allowed, asked []int
		free           bool
		cpus           []int
		pinned         bool
		says           string // note, or the text
	}{
		{"near", "1", all, nil, false, []int{1, 3, 5, 7}, true,
			"near the device; the device is at numa node 1, there are 2"},
		{"near, in a cpuset", "1", []int{2, 3, 4, 5}, nil, false, []int{3, 5}, true, "cpus 3,5, near"},
		{"a cpuset elsewhere", "1", []int{0, 2}, nil, false, []int{0, 2}, false, "no CPU of NUMA node 1"},
		{"asked", "1", all, []int{0, 1}, false, []int{0, 1}, true, "cpus 0-1 as asked for"},
		{"free", "1", all, nil, true, all, false, "cpus 0-7, not pinned"},
		{"no node told", "-1", all, nil, false, all, false, "does not say which mlx5_0 is at"},
		{"a node that is not there", "2", all, nil, false, all, false, "CPUs of NUMA node 2 are not known"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Choose(twoNodes(t, tt.node), "mlx5_0", tt.allowed, tt.asked, tt.free)
			if err != nil || !slices.Equal(p.CPUs, tt.cpus) || p.Pinned != tt.pinned || p.Nodes != 2 ||
				!strings.Contains(p.String()+p.Note, tt.says) {
				t.Errorf("%+v, %v: %q, want cpus %v, pinned %v and %q", p, err, p.String()+p.Note, tt.cpus, tt.pinned,
					tt.says)
			}
		})
	}
	if list, err := CPUsOf(twoNodes(t, "1"), 0, []int{2, 3, 4}); err != nil || !slices.Equal(list, []int{2, 4}) {
		t.Errorf("CPUs of node 0: %v, %v", list, err)
	}
	for node, want := range map[int]string{1: "no CPU of NUMA node 1", 2: "CPUs of NUMA node 2 are not known"} {
		if _, err := CPUsOf(twoNodes(t, "1"), node, []int{2, 4}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("CPUs of node %d: %v, want %q", node, err, want)
		}
	}
	_, err := Choose(twoNodes(t, "1"), "mlx5_0", []int{0, 2}, []int{2, 3, 4}, false)
	var ce *CPUError
	if !errors.As(err, &ce) || !slices.Equal(ce.Asked, []int{3, 4}) || !strings.Contains(err.Error(), "but 0,2") {
		t.Errorf("CPUs that are not allowed: %v", err)
	}
}

func TestChoose_OneNode(t *testing.T) {
	tr := sysfstest.New(t)
	tr.Device("mlx5_0", "pci0000:3a/0000:3b:00.0", "mlx5_core", "0c42:a103:0065:1a2e")
	for _, node := range []string{"", "1"} {
		if node != "" {
			tr.Write("devices/system/node/node"+node+"/cpulist", "0-3")
		}
		p, err := Choose(hostfacts.Host{Sys: tr.Root}, "mlx5_0", []int{0, 1}, nil, false)
		if err != nil || p.Pinned || p.Note != "" || p.Nodes != 1 || p.Node != 1 || !slices.Equal(p.CPUs, []int{0, 1}) {
			t.Errorf("node %q: %+v, %v", node, p, err)
		}
	}
}

// TestPin: all threads move, and may go back.
func TestPin(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("Linux has the call")
	}
	before, err := Allowed()
	if err != nil || len(before) == 0 {
		t.Fatal(before, err)
	}
	last := before[len(before)-1:]
	p := Place{CPUs: last, Pinned: true}
	undo, err := p.Pin()
	if err != nil {
		t.Fatal(err)
	}
	check := func(want []int) {
		t.Helper()
		tasks, _ := filepath.Glob("/proc/self/task/*/status")
		for _, f := range tasks {
			b, _ := os.ReadFile(f)
			_, rest, _ := strings.Cut(string(b), "Cpus_allowed_list:")
			list, _, _ := strings.Cut(rest, "\n")
			if got := strings.TrimSpace(list); len(b) > 0 && got != hostfacts.FormatCPUs(want) {
				t.Errorf("%s: %s, want %s", f, got, hostfacts.FormatCPUs(want))
			}
		}
	}
	check(last)
	first := Place{CPUs: before[:1], Pinned: true}
	other, err := first.Pin()
	if err != nil {
		t.Fatal(err)
	}
	check(slices.Compact([]int{before[0], last[0]})) // both at once
	if got, err := Allowed(); err != nil || !slices.Equal(got, before) {
		t.Errorf("allowed are %v, %v, want %v", got, err, before)
	}
	other()
	check(last)
	undo()
	check(before)
	if undo, err = (&Place{CPUs: []int{1023}, Pinned: true}).Pin(); err == nil {
		undo()
		t.Error("a CPU that is not there is accepted")
	}
}
