package mlx5

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/kernel/nldev"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// drives reports whether a device is one of mlx5: by the driver that netlink names, else by the vendor on PCI, which a
// subfunction lacks.
func drives(driver uint32, pci string) bool {
	const unknown, vendor = 0, "15b3:" // C: RDMA_DRIVER_UNKNOWN
	return driver == driverID || driver == unknown && strings.HasPrefix(pci, vendor)
}

// GetDeviceList lists the mlx5 devices that have a device file, in numeric order. A device keeps its handle.
func (v *Verbs) GetDeviceList() (list handle, devices []handle, err error) {
	names, err := v.root.Names("class", "infiniband_verbs")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil, syscall.ENOSYS
	}
	if err != nil {
		return 0, nil, errnoOf(err)
	}
	known, _ := nldev.Devices() // an old kernel does not answer
	var found []facts
	for _, name := range names {
		d, err := v.read(name, known)
		switch {
		case err == nil && d.name != "":
			found = append(found, d)
		case exhausted(err):
			return 0, nil, errnoOf(err)
		}
	}
	slices.SortFunc(found, func(a, b facts) int { return sysfs.NaturalCompare(a.name, b.name) })
	for i := range found {
		devices = append(devices, v.handleOf(found[i]))
	}
	return 1, devices, nil
}

// exhausted reports whether err is a lack of descriptors or memory, which hides no device.
func exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// read returns the device of a file, and none if it is not one of mlx5.
func (v *Verbs) read(file string, known map[string]nldev.Device) (facts, error) {
	if n, ok := strings.CutPrefix(file, "uverbs"); !ok || !isNumber(n) || !uverbs.Exists(file) {
		return facts{}, nil
	}
	name, err := v.root.Attr("class", "infiniband_verbs", file, "ibdev")
	if err != nil {
		return facts{}, err
	}
	d := facts{name: strings.TrimSpace(name), uverbs: file, index: -1, node: -1}
	n, ok := known[d.name]
	if ok {
		d.index = int(n.Index)
	}
	if !drives(n.Driver, v.root.PCIID(d.name)) {
		return facts{}, nil
	}
	guid, err := v.root.Attr("class", "infiniband", d.name, "node_guid")
	if b, e := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(guid), ":", "")); e == nil && len(b) == 8 {
		d.guid = binary.BigEndian.Uint64(b)
	}
	if err != nil {
		return facts{}, err
	}
	node, err := v.root.Attr("class", "infiniband", d.name, "node_type")
	node, _, _ = strings.Cut(node, ":")
	if n, e := strconv.ParseInt(node, 10, 32); e == nil {
		d.node = int32(n)
	}
	return d, err
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 31)
	return err == nil
}

// handleOf returns the handle of a device.
func (v *Verbs) handleOf(f facts) handle {
	v.mu.Lock()
	defer v.mu.Unlock()
	h, ok := v.devices[f]
	if !ok {
		h = v.table.add(&device{facts: f})
		v.devices[f] = h
	}
	return h
}

// FreeDeviceList does nothing.
func (v *Verbs) FreeDeviceList(handle) {}

// GetDeviceName returns the name, as in "mlx5_0".
func (v *Verbs) GetDeviceName(dev handle) (string, error) {
	d, err := get[device](v, dev)
	if err != nil {
		return "", err
	}
	return d.name, nil
}

// GetDeviceGUID returns the GUID of the node.
func (v *Verbs) GetDeviceGUID(dev handle) (uint64, error) {
	d, err := get[device](v, dev)
	if err != nil {
		return 0, err
	}
	return d.guid, nil
}

// GetDeviceIndex returns the kernel's number of the device, -1 if it is not known.
func (v *Verbs) GetDeviceIndex(dev handle) int {
	if d, err := get[device](v, dev); err == nil {
		return d.index
	}
	return -1
}

// HasDeviceIndex returns true.
func (v *Verbs) HasDeviceIndex() bool { return true }

// IsForkInitialized reports whether the kernel copies what a device accesses when the process forks. Rings are not
// inherited anyway.
func (v *Verbs) IsForkInitialized() (uint32, error) {
	const disabled, unneeded = 0, 2 // C: enum ibv_fork_status
	if nldev.CopyOnFork() {
		return unneeded, nil
	}
	return disabled, nil
}

// Device returns what a device is.
func (v *Verbs) Device(dev handle) control.Device {
	const transportIB, unknown = 0, -1
	d, err := get[device](v, dev)
	if err != nil {
		return control.Device{NodeType: unknown, Transport: unknown}
	}
	return control.Device{NodeType: d.node, Transport: transportIB}
}

// IsSupported reports whether the context is of this package, which drives mlx5 devices only.
func (r *Rings) IsSupported(ctx handle) (bool, error) {
	_, err := get[context](r.v, ctx)
	return err == nil, err
}

// Drives is IsSupported for a device.
func (r *Rings) Drives(dev handle) (bool, error) {
	_, err := get[device](r.v, dev)
	return err == nil, err
}
