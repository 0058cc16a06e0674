package rdmacm

import (
	"slices"
	"sync"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/control"
)

// device is a device that librdmacm has opened. librdmacm opens each device once. It may close one
// that was unplugged when the last user, an ID in C or a list of rdma_get_devices, is gone.
type device struct {
	handle uintptr
	dev    *ibv.Device
	refs   int     // IDs and lists in Go that use it
	pin    uintptr // the C list that keeps the device open
}

// devices holds the devices that have refs or open objects.
var devices struct {
	sync.Mutex
	m map[uintptr]*device
}

// acquire adds a user of a device.
// Preconditions: C has a user of the device.
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

// release undoes acquire. keep reports that the caller must not free its user in C, since that
// keeps the device open. While objects are open on the device, a list keeps it open instead, but
// lists do not contain removed devices. The device is closed with the last of these objects.
func (d *device) release(lib control.CM) (keep bool) {
	if d == nil {
		return false
	}
	devices.Lock()
	defer devices.Unlock()
	if d.refs--; d.refs > 0 {
		return false
	}
	verbs.OnEmpty(d.dev, func() {
		devices.Lock()
		defer devices.Unlock()
		d.close(lib)
	})
	if d.close(lib) {
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

// close closes the device unless it is in use, and reports whether it is closed.
// Preconditions: devices is locked.
func (d *device) close(lib control.CM) bool {
	if d.refs > 0 || devices.m[d.handle] != d || verbs.CloseLent(d.dev) != nil {
		return false
	}
	delete(devices.m, d.handle)
	if d.pin != 0 {
		lib.FreeDevices(d.pin)
		d.pin = 0
	}
	return true
}

// Devices opens all RDMA devices through librdmacm; ID.Verbs returns one of these. A device stays
// open until release is called, no ID uses it and all objects created on it are closed.
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
		return nil, nil, &ibv.OpError{Op: "list cm devices", Err: verbs.ExplainCM(err)}
	}
	if len(handles) == 0 { // librdmacm leaves out devices that it cannot open
		if why := verbs.WhyNoDevice(); why != nil {
			lib.FreeDevices(c)
			return nil, nil, &ibv.OpError{Op: "list cm devices", Err: why}
		}
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
