package rdmacm

import (
	"slices"
	"sync"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/bind/librdmacm"
)

// device is one that librdmacm has opened. It opens each once, and may close it
// when it was unplugged and its last user is gone: an ID in C, or a list of
// rdma_get_devices.
type device struct {
	handle uintptr
	dev    *ibv.Device
	refs   int     // IDs and lists, in Go
	pin    uintptr // a list that keeps the device open in C
}

// devices are those with refs, or with something open on them.
var devices struct {
	sync.Mutex
	m map[uintptr]*device
}

// acquire counts a user of a device.
// Preconditions: C has a user of it.
func acquire(h uintptr) (*device, error) {
	devices.Lock()
	defer devices.Unlock()
	return acquireLocked(h)
}

func acquireLocked(h uintptr) (*device, error) {
	d := devices.m[h]
	if d == nil {
		c, err := verbs.OpenLent(h)
		if err != nil {
			return nil, err
		}
		d = &device{handle: h, dev: c}
		if devices.m == nil {
			devices.m = make(map[uintptr]*device)
		}
		devices.m[h] = d
	}
	d.refs++
	return d, nil
}

// lent reports whether librdmacm has opened a Device.
func lent(dev *ibv.Device) bool {
	devices.Lock()
	defer devices.Unlock()
	for _, d := range devices.m {
		if d.dev == dev {
			return true
		}
	}
	return false
}

// release undoes acquire; the user in C goes after it, unless it has to keep the
// device open. While something is open on the device, a list does that; but a list
// has no device that was removed.
func (d *device) release(lib librdmacm.Lib) (keep bool) {
	if d == nil {
		return false
	}
	devices.Lock()
	defer devices.Unlock()
	if d.refs--; d.refs > 0 {
		return false
	}
	if verbs.CloseLent(d.dev) == nil {
		delete(devices.m, d.handle)
		if d.pin != 0 {
			lib.FreeDevices(d.pin)
		}
		return false
	}
	if d.pin == 0 {
		list, handles, err := lib.GetDevices()
		if err != nil {
			return true
		}
		if !slices.Contains(handles, d.handle) {
			lib.FreeDevices(list)
			return true
		}
		d.pin = list
	}
	return false
}

// Devices opens all RDMA devices, as librdmacm's: ID.Verbs returns one of these.
// They are open until release is called, and each as long as an ID of it, or
// something that was made of it.
//
// C: rdma_get_devices(3), rdma_free_devices(3).
func Devices() (list []*ibv.Device, release func(), err error) {
	lib, err := library()
	if err != nil {
		return nil, nil, err
	}
	devices.Lock()
	defer devices.Unlock()
	c, handles, err := lib.GetDevices()
	if err != nil {
		return nil, nil, &ibv.OpError{Op: "list cm devices", Err: explainInit(err)}
	}
	var (
		held []*device
		once sync.Once
	)
	release = func() {
		once.Do(func() {
			for _, d := range held {
				d.release(lib)
			}
			lib.FreeDevices(c)
		})
	}
	for _, h := range handles {
		d, e := acquireLocked(h)
		if e != nil {
			err = e
			break
		}
		held = append(held, d)
		list = append(list, d.dev)
	}
	if err != nil {
		devices.Unlock()
		release()
		devices.Lock()
		return nil, nil, err
	}
	return list, release, nil
}
