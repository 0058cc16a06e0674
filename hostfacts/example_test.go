package hostfacts_test

import (
	"fmt"
	"os"
	"time"

	"github.com/pureverbs/pureverbs/hostfacts"
)

// A device plugin lists the ports that can carry traffic, and the adapter that is nearest to each GPU.
func Example() {
	host := hostfacts.At("/host") // where the pod mounts the host's /sys and /proc
	facts, err := host.Read()
	if err != nil {
		fmt.Fprintln(os.Stderr, err) // of some devices; the others are there
	}
	for _, d := range facts.Devices {
		for i := range d.Ports {
			if t := d.Links[i].GIDs; d.Ports[i].Active() && t != nil && t.Best >= 0 {
				fmt.Println(d.Name, d.Model, d.Ports[i].Rate, t.Entries[t.Best].GID)
			}
		}
		for _, m := range d.Missing {
			fmt.Fprintln(os.Stderr, m.Reason)
		}
	}
	for _, g := range facts.GPUs {
		var near *hostfacts.DeviceFacts
		for i, d := range facts.Devices {
			if far, ok := d.GPUs[g.PCIAddress]; ok && (near == nil || far.Compare(near.GPUs[g.PCIAddress]) < 0) {
				near = &facts.Devices[i]
			}
		}
		if near != nil {
			fmt.Println(g.PCIAddress, near.Name, near.GPUs[g.PCIAddress])
		}
	}
}

// A health agent reports counters of faults that rise.
func ExampleCounters_Diff() {
	host := hostfacts.This()
	before, err := host.Counters("mlx5_0", 1)
	for err == nil {
		time.Sleep(time.Minute)
		var now *hostfacts.Counters
		if now, err = host.Counters("mlx5_0", 1); err != nil {
			break
		}
		for _, c := range now.Diff(before) {
			if t, ok := hostfacts.TroubleOf(c.Name); ok && t.Fault && c.Increase() > 0 {
				fmt.Printf("%s rose by %d: %s\n", c.Name, c.Increase(), t.Text)
			}
		}
		before = now
	}
	fmt.Fprintln(os.Stderr, err)
}

// Why a port's GIDs can or cannot be used.
func ExampleHost_GIDs() {
	table, err := hostfacts.This().GIDs("mlx5_0", 1)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	for i, e := range table.Entries {
		fmt.Println(e.Index, e.GID.Addr(), e.Type, e.Netdev, i == table.Best, table.Why[i])
	}
}
