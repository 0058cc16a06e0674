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

// GetDeviceList lists the mlx5 devices that have a device file, in numeric order. A device keeps its handle.
func (v *Verbs) GetDeviceList() (list handle, devices []handle, err error) {
	l, err := v.list()
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil, syscall.ENOSYS
	}
	if err != nil {
		return 0, nil, errnoOf(err)
	}
	for _, f := range l.devices {
		h := v.handleOf(f)
		if d, err := get[device](v, h); err == nil && d.exists() {
			devices = append(devices, h)
		}
	}
	return 1, devices, nil
}

// exists reports whether the device has a file. One that was there is not looked for again before it fails to open: it
// goes with the device, whose entries in sysfs are read each time.
func (d *device) exists() bool {
	if d.found.Load() {
		return true
	}
	is := uverbs.Exists(d.node.Name)
	d.found.Store(is)
	return is
}

// list returns the last listing if sysfs has the same entries still, else a new one.
func (v *Verbs) list() (l listing, err error) {
	if l.files, err = v.root.Entries("class", "infiniband_verbs"); err != nil {
		return l, err
	}
	if l.names, err = v.root.Entries("class", "infiniband"); err != nil {
		return l, err
	}
	v.mu.Lock()
	last := v.last
	v.mu.Unlock()
	if slices.Equal(l.files, last.files) && slices.Equal(l.names, last.names) {
		return last, nil
	}
	known, err := v.netlink() // an old kernel does not answer
	if sysfs.Exhausted(err) {
		return l, err
	}
	whole := v.live && err == nil
	if err = l.read(&reader{v.root, known}, &whole); err == nil && whole {
		v.mu.Lock()
		v.last = l
		v.mu.Unlock()
	}
	return l, err
}

// read reads what the kernel has of the devices. whole becomes false if something was missing.
func (l *listing) read(r *reader, whole *bool) error {
	for _, file := range l.files {
		if n, ok := strings.CutPrefix(file.Name, "uverbs"); !ok || !isNumber(n) {
			continue
		}
		d, ok, err := r.device(file)
		i := slices.IndexFunc(l.names, func(e sysfs.Entry) bool { return e.Name == d.name })
		switch {
		case sysfs.Exhausted(err):
			return err
		case err != nil || i < 0:
			*whole = false
		case ok:
			d.inodes[1] = l.names[i].Inode
			l.devices = append(l.devices, d)
		}
	}
	slices.SortFunc(l.devices, func(a, b facts) int { return sysfs.NaturalCompare(a.name, b.name) })
	return nil
}

// reader reads devices from netlink's answer, and what that lacks from sysfs.
type reader struct {
	root  sysfs.Root
	known map[string]nldev.Device
}

// device returns the device of a file. ok is false if it is not one of mlx5.
func (r *reader) device(file sysfs.Entry) (d facts, ok bool, err error) {
	d = facts{index: -1, node: uverbs.Node{Name: file.Name}, inodes: [2]uint64{file.Inode}}
	var n nldev.Device
	for name, k := range r.known {
		if k.File.Name == file.Name {
			d.name, n = name, k
			d.node.Number, d.node.ABI = k.File.Number, int64(k.File.ABI)
		}
	}
	if d.name == "" {
		name, err := r.root.Attr("class", "infiniband_verbs", file.Name, "ibdev")
		if err != nil {
			return d, false, err
		}
		d.name = strings.TrimSpace(name)
		n, d.node = r.known[d.name], uverbs.ReadNode(r.root, file.Name)
	}
	if _, is := r.known[d.name]; is {
		d.index = int(n.Index)
	}
	if is, err := r.drives(d.name, n.Driver); !is || err != nil {
		return d, false, err
	}
	if n.Type != 0 {
		d.guid, d.typ = n.GUID, int32(n.Type)
		return d, true, nil
	}
	err = r.identify(&d)
	return d, err == nil, err
}

// drives reports whether a device is one of mlx5: by the driver that netlink names, else by the vendor on PCI, which a
// subfunction lacks.
func (r *reader) drives(name string, driver uint32) (bool, error) {
	const unknown, mellanox = 0, "0x15b3" // C: RDMA_DRIVER_UNKNOWN
	if driver != unknown {
		return driver == driverID, nil
	}
	vendor, err := r.root.Attr("class", "infiniband", name, "device", "vendor")
	if !sysfs.Exhausted(err) { // a device that is not on PCI has none
		err = nil
	}
	return strings.TrimSpace(vendor) == mellanox, err
}

// identify reads GUID and type of the node from sysfs.
func (r *reader) identify(d *facts) error {
	guid, err := r.root.Attr("class", "infiniband", d.name, "node_guid")
	if err != nil {
		return err
	}
	if b, e := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(guid), ":", "")); e == nil && len(b) == 8 {
		d.guid = binary.BigEndian.Uint64(b)
	}
	typ, err := r.root.Attr("class", "infiniband", d.name, "node_type")
	typ, _, _ = strings.Cut(typ, ":")
	d.typ = -1
	if n, e := strconv.ParseInt(typ, 10, 32); e == nil {
		d.typ = int32(n)
	}
	return err
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
func (d *device) GetDeviceName() (string, error) { return d.name, nil }

// GetDeviceGUID returns the GUID of the node.
func (d *device) GetDeviceGUID() (uint64, error) { return d.guid, nil }

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
	return control.Device{NodeType: d.typ, Transport: transportIB}
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
