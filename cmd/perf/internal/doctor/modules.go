package doctor

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// adapters has the network functions of PCI that have RDMA, by vendor and the beginnings of device IDs, and the module
// that makes their RDMA device. The first row that fits counts. The IDs are those of rdma-core's providers, and for
// irdma, bnxt_re and ionic_rdma of the Ethernet drivers that they sit on.
var adapters = []struct{ vendor, ids, module string }{
	{"0x15b3", "0x100 0x1010", "mlx4_ib"},
	{"0x15b3", "0x", "mlx5_ib"},
	{"0x14e4", "0x1605 0x1606 0x1614 0x16c0 0x16c1 0x16ce 0x16cf 0x16d6 0x16d7 0x16d8 0x16d9 0x16df 0x16e 0x16f0 " +
		"0x16f1 0x175 0x176 0x180 0xd80", "bnxt_re"},
	{"0x8086", "0x124c 0x124d 0x124e 0x124f 0x151d 0x159 0x188a 0x188b 0x188c 0x188d 0x188e 0x189 0x374c 0x374d " +
		"0x37cd 0x37ce 0x37cf 0x37d", "irdma"},
	{"0x8086", "0x24f0 0x24f1", "hfi1"},
	{"0x1d0f", "0xefa", "efa"},
	{"0x19e5", "0xa22", "hns_roce_hw_v2"},
	{"0x1dd8", "0x100", "ionic_rdma"},
	{"0x1ded", "0x107f", "erdma"},
	{"0x1414", "0x00ba", "mana_ib"},
	{"0x1425", "0x", "iw_cxgb4"},
	{"0x1077", "0x1629 0x1634 0x1636 0x1644 0x1654 0x1656 0x1664 0x1666 0x807 0x809 0x817 0x819", "qedr"},
	{"0x15ad", "0x0820", "vmw_pvrdma"},
}

func (x *examination) modules() {
	names, err := x.sysfs().DeviceNames()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return // devices reports it
	}
	if len(names) == 0 {
		f := Finding{Severity: Error, Subject: "host", Check: "device", Text: "the kernel has no RDMA device",
			Evidence: x.sysfs().ClassDir() + " is empty", Remedy: "modprobe mlx5_ib    # or the driver of your adapter"}
		if err != nil {
			f.Evidence = err.Error()
		}
		if found := x.adapters(); len(found) > 0 {
			f.Text, f.Remedy = "the kernel has no RDMA device for the adapters on PCI", ""
			for i, a := range adapters {
				if found[i] == nil {
					continue
				}
				way := "modprobe " + a.module
				if _, err := x.sysfs().Names("module", a.module); err == nil {
					f.Evidence += "; " + a.module + " is loaded"
					prefix, _, _ := strings.Cut(a.module, "_")
					way = "dmesg | grep " + prefix + "    # why the driver refuses the adapter"
				}
				f.Evidence += "; " + strings.Join(found[i], " ") + " of vendor " + a.vendor + " in " +
					x.sysfs().String() + "/bus/pci/devices"
				f.Remedy = strings.TrimPrefix(f.Remedy+"; "+way, "; ")
			}
		} else if x.Container != "" {
			f.Remedy = "give the container the devices: --device=/dev/infiniband, or the RDMA device plugin's resource"
		}
		if x.Facts.Exclusive() {
			f.Text = "no RDMA device is in this network namespace; the RDMA subsystem is in exclusive mode"
			f.Evidence = x.sysfs().String() + "/module/ib_core/parameters/netns_mode: N"
			f.Remedy = "rdma dev set DEVICE netns PID    # where the device is; or: rdma system set netns shared"
		}
		x.add(f)
		return
	}
	if uverbs, err := x.sysfs().Names("class", "infiniband_verbs"); err != nil || len(uverbs) == 0 {
		x.add(Finding{Severity: Error, Subject: "host", Check: "module", Text: "ib_uverbs is not loaded",
			Evidence: x.sysfs().VerbsDir() + " is empty", Remedy: "modprobe ib_uverbs"})
	} else {
		x.add(Finding{Subject: "host", Check: "module", Text: "ib_uverbs is loaded", Evidence: x.sysfs().VerbsDir()})
	}
	cm := filepath.Join(x.Dev, "infiniband", "rdma_cm")
	f := Finding{Subject: "host", Check: "module", Text: "rdma_ucm is loaded", Evidence: cm}
	if err := x.Access(cm); err != nil {
		f = x.unusable("host", "module", cm, "rdma_ucm", err)
		f.Severity, f.Text = Warning, "rdma_cm cannot be used, rdmaperf -R needs it: "+f.Text
	}
	x.add(f)
}

// adapters returns the addresses of adapters on PCI, by their index in the list of them.
func (x *examination) adapters() map[int][]string {
	out := map[int][]string{}
	names, _ := x.sysfs().Names("bus", "pci", "devices")
	for _, n := range names {
		vendor, _ := x.sysfs().Attr("bus", "pci", "devices", n, "vendor")
		class, _ := x.sysfs().Attr("bus", "pci", "devices", n, "class")
		device, _ := x.sysfs().Attr("bus", "pci", "devices", n, "device")
		fits := func(id string) bool { return strings.HasPrefix(device, id) }
		for i, a := range adapters {
			if a.vendor == vendor && slices.ContainsFunc(strings.Fields(a.ids), fits) &&
				strings.HasPrefix(class, "0x02") { // network controllers
				out[i] = append(out[i], n)
				break
			}
		}
	}
	return out
}
