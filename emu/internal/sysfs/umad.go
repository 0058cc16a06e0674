//go:build linux

package sysfs

import "fmt"

// UmadMinor is that of umad0; the major is that of uverbs.
const UmadMinor = 0

// umads returns the number of the first umad of a device: each port has one, of Ethernet too.
func (t *Tree) umads(device int) (n int) {
	for i := range t.config.Devices[:device] {
		n += len(t.config.Devices[i].Ports)
	}
	return n
}

// umad makes the device file of a port's management datagrams; port counts from 0.
func (t *Tree) umad(device, port int) {
	n := t.umads(device) + port
	base, minor := t.devices[device], uint32(UmadMinor+n)
	dir := fmt.Sprintf("%s/infiniband_mad/umad%d", base, n)
	t.files(dir, "ibdev", t.config.Devices[device].Name, "port", fmt.Sprint(port+1))
	t.link(dir+"/device", base)
	t.node("infiniband_mad", UverbsMajor, minor, dir, "", Target{Kind: Umad, Device: device, Umad: n})
}

// removeUmads shows that a device's are gone.
func (t *Tree) removeUmads(device int) {
	for port := range t.config.Devices[device].Ports {
		n := t.umads(device) + port
		t.dropNode("infiniband_mad", fmt.Sprintf("umad%d", n), UmadMinor+n)
	}
	t.remove(t.devices[device] + "/infiniband_mad")
}
