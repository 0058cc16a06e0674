package mlx5

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// device is a device of the list.
type device struct {
	name, uverbs string
	guid         uint64
	node         int32
	index        int // the kernel's, -1 if it is not known
	forms        uverbs.Forms
}

const vendorMellanox = "15b3:"

// GetDeviceList lists the mlx5 devices that have a device file, in numeric order. A device keeps its handle.
func (v *Verbs) GetDeviceList() (list control.Handle, devices []control.Handle, err error) {
	all, err := v.root.Devices()
	if err != nil && len(all) == 0 {
		return 0, nil, errnoOf(err)
	}
	numbers := deviceNumbers()
	for i := range all {
		d := &all[i]
		n, known := numbers[d.Name]
		if d.Uverbs == "" || known && n.driver != driverID ||
			!known && !strings.HasPrefix(v.root.PCIID(d.Name), vendorMellanox) {
			continue
		}
		index := -1
		if known {
			index = n.index
		}
		devices = append(devices, v.device(d, index))
	}
	return 1, devices, nil
}

// device returns the handle of a device.
func (v *Verbs) device(d *sysfs.Device, index int) control.Handle {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := fmt.Sprint(d.Name, d.Uverbs, d.NodeGUID, d.NodeType, index)
	h, ok := v.devices[key]
	if !ok {
		b, _ := hex.DecodeString(strings.ReplaceAll(d.NodeGUID, ":", ""))
		n := &device{name: d.Name, uverbs: d.Uverbs, node: int32(d.NodeType), index: index}
		if len(b) == 8 {
			n.guid = binary.BigEndian.Uint64(b)
		}
		h = v.table.add(n)
		v.devices[key] = h
	}
	return h
}

// FreeDeviceList does nothing.
func (v *Verbs) FreeDeviceList(control.Handle) {}

// GetDeviceName returns the name, as in "mlx5_0".
func (v *Verbs) GetDeviceName(dev control.Handle) (string, error) {
	d, err := get[device](v, dev)
	if err != nil {
		return "", err
	}
	return d.name, nil
}

// GetDeviceGUID returns the GUID of the node.
func (v *Verbs) GetDeviceGUID(dev control.Handle) (uint64, error) {
	d, err := get[device](v, dev)
	if err != nil {
		return 0, err
	}
	return d.guid, nil
}

// GetDeviceIndex returns the kernel's number of the device, -1 if it is not known.
func (v *Verbs) GetDeviceIndex(dev control.Handle) int {
	if d, err := get[device](v, dev); err == nil {
		return d.index
	}
	return -1
}

// HasDeviceIndex returns true.
func (v *Verbs) HasDeviceIndex() bool { return true }

// IsForkInitialized returns that fork needs no preparation: what a device accesses is not inherited.
func (v *Verbs) IsForkInitialized() (uint32, error) {
	const unneeded = 2 // C: IBV_FORK_UNNEEDED
	return unneeded, nil
}

// Device returns what a device is.
func (v *Verbs) Device(dev control.Handle) control.Device {
	const transportIB, unknown = 0, -1
	d, err := get[device](v, dev)
	if err != nil {
		return control.Device{NodeType: unknown, Transport: unknown}
	}
	return control.Device{NodeType: d.node, Transport: transportIB}
}

// IsSupported reports whether the context is of this package, which drives mlx5 devices only.
func (r *Rings) IsSupported(ctx control.Handle) (bool, error) {
	_, err := get[context](r.v, ctx)
	return err == nil, err
}

// Drives is IsSupported for a device.
func (r *Rings) Drives(dev control.Handle) (bool, error) {
	_, err := get[device](r.v, dev)
	return err == nil, err
}

// errnoOf returns the errno in err, and err if there is none.
func errnoOf(err error) error {
	if e, ok := asErrno(err); ok {
		return e
	}
	return err
}

func asErrno(err error) (syscall.Errno, bool) {
	for err != nil {
		if e, ok := err.(syscall.Errno); ok {
			return e, true
		}
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			break
		}
		err = u.Unwrap()
	}
	return 0, false
}

// deviceNumber is what netlink says of a device.
type deviceNumber struct {
	index  int
	driver uint32
}

func deviceNumbers() map[string]deviceNumber { return nil }
