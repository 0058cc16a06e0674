package nics

import (
	"errors"

	"github.com/pureverbs/pureverbs/hostfacts"
)

// nearest returns the NICs that are nearest to a GPU. Of several that are as near, the one that the fewest GPUs before
// it have got.
func nearest(host hostfacts.Host, devices []hostfacts.Device, list []NIC) ([]NIC, error) {
	gpus, missing := host.GPUs()
	if len(gpus) == 0 && len(missing) > 0 {
		return nil, missing[0].Err
	}
	if len(gpus) == 0 {
		return nil, errNoGPU
	}
	at := map[string]string{}
	for i := range devices {
		at[devices[i].Name] = devices[i].PCIAddress
	}
	got := make([]int, len(list))
	for _, gpu := range gpus {
		best, least := -1, hostfacts.Distance{}
		for i, n := range list {
			if at[n.Device] == "" || n.Down != "" && best >= 0 && list[best].Down == "" {
				continue
			}
			distance := host.Distance(gpu.PCIAddress, at[n.Device])
			far := distance.Compare(least)
			works := best >= 0 && list[best].Down != "" && n.Down == ""
			if best < 0 || works || far < 0 || far == 0 && got[i] < got[best] {
				best, least = i, distance
			}
		}
		if best >= 0 {
			got[best]++
		}
	}
	var near []NIC
	for i, n := range list {
		if got[i] > 0 {
			near = append(near, n)
		}
	}
	if near == nil {
		return nil, errors.New("-d gpu: no RDMA device is on the PCI bus of this host")
	}
	return near, nil
}
