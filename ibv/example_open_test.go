package ibv_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/pureverbs/pureverbs/ibv"
)

// The device of an address, and the port and index that Endpoint takes.
func ExampleOpenAddr() {
	dev, gid, err := ibv.OpenAddr(netip.MustParseAddr("10.8.0.1"))
	if err != nil {
		fmt.Println(err) // says which devices there are
		return
	}
	defer dev.Close()
	fmt.Println(dev.Name(), gid.Port, gid.Index, gid.Type, gid.Netdev)
}

// The devices near NUMA node 1.
func ExampleDeviceInfo_Location() {
	devices, err := ibv.Devices()
	if err != nil {
		fmt.Println(err) // says what to install
		return
	}
	for _, d := range devices {
		if at, err := d.Location(); err == nil && at.NUMANode == 1 {
			fmt.Println(d.Name, at.PCI, at.CPUs)
		}
	}
}

// Links that go down, and everything else that is no completion.
func ExampleDevice_AsyncEvent() {
	dev, err := ibv.Open("")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()
	for {
		ev, err := dev.AsyncEvent(context.Background())
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(ev)
	}
}
