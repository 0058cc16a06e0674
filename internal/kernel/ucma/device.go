package ucma

import (
	"slices"
	"sync"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
)

// device is an open device. IDs and lists share it.
type device struct {
	name      string
	guid      uint64
	index     int // -1: not known
	context   control.Handle
	transport int32
	ports     uint8
	most      limits
	refs      int  // IDs and lists; devices.mu guards it
	dead      bool // it was removed, and is closed after its last user; devices.mu guards it
}

// limits are the reads and atomics of a connection.
type limits struct{ responder, initiator uint8 }

// devices opens each device once, and keeps it open until it is removed, as librdmacm does.
type devices struct {
	v    control.Verbs
	mu   sync.Mutex
	open []*device
}

// some returns ENODEV, as librdmacm does, if there is no device.
func (d *devices) some() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.open) > 0 {
		return nil
	}
	return d.list(func(device, control.Handle) error { return nil })
}

// list calls f with each device of the host.
//
// Preconditions: d.mu is held.
func (d *devices) list(f func(found device, h control.Handle) error) error {
	list, handles, err := d.v.GetDeviceList()
	if err == syscall.ENOSYS { // the kernel has no uverbs
		err = syscall.ENODEV
	}
	if err != nil {
		return err
	}
	defer d.v.FreeDeviceList(list)
	if len(handles) == 0 {
		return syscall.ENODEV
	}
	for _, h := range handles {
		found := device{index: d.v.GetDeviceIndex(h), transport: d.v.Device(h).Transport}
		if found.name, err = d.v.GetDeviceName(h); err != nil {
			continue
		}
		if found.guid, err = d.v.GetDeviceGUID(h); err != nil {
			continue
		}
		if err := f(found, h); err != nil {
			return err
		}
	}
	return nil
}

// is reports whether a device has a GUID, an index if both sides know it, and a name if they do not and there is one.
func (d *device) is(guid uint64, index int, name string) bool {
	if d.guid != guid {
		return false
	}
	if d.index >= 0 && index >= 0 {
		return d.index == index
	}
	return name == "" || d.name == name
}

// get returns the device with a GUID and an index, which may be unknown, with a user more.
func (d *devices) get(guid uint64, index uint32) (*device, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o := d.alive(guid, int(int32(index)), ""); o != nil {
		o.refs++
		return o, nil
	}
	var got *device
	err := d.list(func(found device, h control.Handle) (err error) {
		if got == nil && found.is(guid, int(int32(index)), "") {
			got, err = d.start(found, h)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case got == nil:
		return nil, syscall.ENODEV
	}
	got.refs++
	return got, nil
}

// alive returns an open device. One that nobody has used for a while may have been removed without an event, and one
// with its GUID be there again.
//
// Preconditions: d.mu is held.
func (d *devices) alive(guid uint64, index int, name string) *device {
	for _, o := range d.open {
		if o.dead || !o.is(guid, index, name) {
			continue
		}
		if o.refs > 0 || o.index >= 0 && index >= 0 || !d.v.Removed(o.context) {
			return o
		}
		d.bury(o)
		return nil
	}
	return nil
}

// start opens a device.
//
// Preconditions: d.mu is held.
func (d *devices) start(found device, h control.Handle) (*device, error) {
	var err error
	if found.context, err = d.v.OpenDevice(h); err != nil {
		return nil, err
	}
	var attr abi.DeviceAttr
	if err := d.v.QueryDevice(found.context, &attr); err != nil {
		_ = d.v.CloseDevice(found.context)
		return nil, err
	}
	found.ports = attr.PhysPortCnt
	found.most = limits{initiator: upTo255(attr.MaxQPInitRdAtom), responder: upTo255(attr.MaxQPRdAtom)}
	d.open = append(d.open, &found)
	return &found, nil
}

func upTo255(n int32) uint8 { return uint8(max(0, min(n, 255))) }

// put ends the use of a device, which may be nil.
func (d *devices) put(o *device) {
	if o == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	o.refs--
	if o.dead {
		d.bury(o)
	}
}

// bury closes a device that was removed, if nobody uses it.
//
// Preconditions: d.mu is held.
func (d *devices) bury(o *device) {
	o.dead = true
	if o.refs > 0 {
		return
	}
	if n := slices.Index(d.open, o); n >= 0 {
		d.open = append(d.open[:n:n], d.open[n+1:]...)
		_ = d.v.CloseDevice(o.context)
	}
}

// removed notes that a device is gone.
func (d *devices) removed(o *device) {
	if o != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.bury(o)
	}
}

// all opens all devices, and returns those that could be opened, each with a user more.
func (d *devices) all() (all []*device, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	here := map[*device]bool{}
	err = d.list(func(found device, h control.Handle) error {
		o := d.alive(found.guid, found.index, found.name)
		if o == nil {
			var err error
			if o, err = d.start(found, h); err != nil {
				return nil // a device that cannot be opened is left out, as librdmacm does
			}
		}
		here[o] = true
		all = append(all, o)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, o := range append([]*device(nil), d.open...) {
		if !here[o] {
			d.bury(o)
		}
	}
	for _, o := range all {
		o.refs++
	}
	return all, nil
}
