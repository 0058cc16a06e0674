package ibv

import (
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// Location is where a device is in this host.
type Location struct {
	PCI      string // address, "0000:3b:00.0"; empty for software devices
	PCIID    string // vendor and device, "15b3:1021"; empty for software devices
	Driver   string // of the kernel, "mlx5_core"; empty if it is not known
	NUMANode int    // -1 if it is not known
	CPUs     string // of that node, as "0-15,32-47"; empty if they are not known
}

// Location reads from sysfs where the device is. A program opens the device of a PCI address, or one near a NUMA
// node, by looking through Devices.
func (d DeviceInfo) Location() (Location, error) {
	const op = "locate device"
	if _, err := firstPath(); err != nil {
		return Location{}, err
	}
	root := sysfs.DefaultRoot()
	dev, err := root.Device(d.Name)
	if err != nil {
		return Location{}, &OpError{Op: op, Object: d.Name, Err: explainDescriptors(err)}
	}
	cpus, _ := root.Attr("class", "infiniband", d.Name, "device", "local_cpulist") // software has none
	return Location{PCI: dev.PCIAddress, PCIID: root.PCIID(d.Name), Driver: dev.Driver, NUMANode: dev.NUMANode,
		CPUs: cpus}, nil
}

// Counters reads the counters of a port, those that all drivers have and the driver's own, by their names in sysfs:
// "port_xmit_data", "out_of_sequence", "symbol_error". They count from the driver's start, not from that of the
// program; port_xmit_data and port_rcv_data count 4 bytes each. A device without any has an empty map.
func (d *Device) Counters(port uint8) (map[string]uint64, error) {
	const op = "read counters"
	if err := d.enter(op); err != nil {
		return nil, err
	}
	defer d.leave()
	if err := d.checkPort(op, port); err != nil {
		return nil, err
	}
	return sysfs.DefaultRoot().Counters(d.Name(), port), nil
}
