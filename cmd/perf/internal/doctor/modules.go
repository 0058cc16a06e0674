package doctor

import (
	"path/filepath"
	"strings"
)

// mellanox is the PCI vendor of mlx5 devices.
const mellanox = "0x15b3"

func (x *examination) modules() {
	names, err := x.Sys.DeviceNames()
	if err != nil || len(names) == 0 {
		f := Finding{Severity: Error, Subject: "host", Check: "device", Text: "the kernel has no RDMA device",
			Evidence: x.Sys.ClassDir() + " is empty", Remedy: "modprobe mlx5_ib    # or the driver of your adapter"}
		if err != nil {
			f.Evidence = err.Error()
		}
		if pci := x.adapters(); len(pci) > 0 {
			f.Text = "the kernel has no RDMA device for the adapters on PCI"
			if _, err := x.Sys.Names("module", "mlx5_ib"); err == nil {
				f.Evidence += "; mlx5_ib is loaded"
				f.Remedy = "dmesg | grep mlx5    # why the driver refuses the adapter"
			}
			f.Evidence += "; " + strings.Join(pci, " ") + " of vendor " + mellanox + " in " + x.Sys.String() +
				"/bus/pci/devices"
		} else if x.Container != "" {
			f.Remedy = "give the container the devices: --device=/dev/infiniband, or the RDMA device plugin's resource"
		}
		if x.Sys.Exclusive() {
			f.Text = "no RDMA device is in this network namespace; the RDMA subsystem is in exclusive mode"
			f.Evidence = x.Sys.String() + "/module/ib_core/parameters/netns_mode: N"
			f.Remedy = "rdma dev set DEVICE netns PID    # where the device is; or: rdma system set netns shared"
		}
		x.add(f)
		return
	}
	if uverbs, err := x.Sys.Names("class", "infiniband_verbs"); err != nil || len(uverbs) == 0 {
		x.add(Finding{Severity: Error, Subject: "host", Check: "module", Text: "ib_uverbs is not loaded",
			Evidence: x.Sys.VerbsDir() + " is empty", Remedy: "modprobe ib_uverbs"})
	} else {
		x.add(Finding{Subject: "host", Check: "module", Text: "ib_uverbs is loaded", Evidence: x.Sys.VerbsDir()})
	}
	cm := filepath.Join(x.Dev, "infiniband", "rdma_cm")
	f := Finding{Subject: "host", Check: "module", Text: "rdma_ucm is loaded", Evidence: cm}
	if err := x.Access(cm); err != nil {
		f = x.unusable("host", "module", cm, "rdma_ucm", err)
		f.Severity, f.Text = Warning, "rdma_cm cannot be used, perf -R needs it: "+f.Text
	}
	x.add(f)
}

// adapters returns the addresses of mlx5 devices on PCI.
func (x *examination) adapters() (out []string) {
	names, _ := x.Sys.Names("bus", "pci", "devices")
	for _, n := range names {
		vendor, _ := x.Sys.Attr("bus", "pci", "devices", n, "vendor")
		class, _ := x.Sys.Attr("bus", "pci", "devices", n, "class")
		if vendor == mellanox && strings.HasPrefix(class, "0x02") { // network controllers
			out = append(out, n)
		}
	}
	return out
}
