package ibv

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/bind/libibverbs"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// Device is an RDMA device that libibverbs found. It is a plain value; nothing
// is open.
type DeviceInfo struct {
	Name      string
	GUID      GUID // node GUID
	NodeType  NodeType
	Transport TransportType
	Index     int // kernel's device index, -1 where the library cannot tell (before v30)
}

// Open opens the device. See Open.
func (d DeviceInfo) Open() (*Device, error) {
	return open(d.Name, "no device is named "+printable.Name(d.Name), func(o DeviceInfo, _ int) bool {
		return o.Name == d.Name
	})
}

// Devices lists the RDMA devices of this host in the library's order. A host
// without any, or without the kernel's RDMA support, gives an empty list; a host
// without libibverbs gives a *loader.LibraryError. The library leaves out devices
// for which it has no driver: Unlisted tells of them.
//
// C: ibv_get_device_list(3).
func Devices() ([]DeviceInfo, error) {
	v, err := library()
	if err != nil {
		return nil, err
	}
	var devices []DeviceInfo
	err = v.eachDevice(func(d DeviceInfo, _ uintptr) (bool, error) {
		devices = append(devices, d)
		return true, nil
	})
	return devices, err
}

// Open opens a device by name; "" opens the first that has an active port.
//
// C: ibv_open_device(3).
func Open(name string) (*Device, error) {
	if name == "" {
		return openActive()
	}
	return DeviceInfo{Name: name}.Open()
}

// OpenIndex opens the i-th device of Devices.
func OpenIndex(i int) (*Device, error) {
	return open("", fmt.Sprintf("there is no device number %d", i), func(_ DeviceInfo, n int) bool { return n == i })
}

// OpenGUID opens the device with the given node GUID.
func OpenGUID(guid GUID) (*Device, error) {
	return open("", "no device has the GUID "+guid.String(), func(d DeviceInfo, _ int) bool { return d.GUID == guid })
}

// open opens the device that matches. name is what it is asked for by, "" if it is
// not by name, and missing says that there is none.
func open(name, missing string, match func(DeviceInfo, int) bool) (*Device, error) {
	v, err := library()
	if err != nil {
		return nil, err
	}
	var (
		dev   *Device
		names []string
	)
	err = v.eachDevice(func(d DeviceInfo, handle uintptr) (bool, error) {
		i := len(names)
		names = append(names, d.Name)
		if !match(d, i) {
			return true, nil
		}
		var err error
		dev, err = v.openContext(d, handle)
		return false, err
	})
	if err != nil {
		return nil, err
	}
	if dev == nil {
		return nil, v.noDevice("open device", name, missing, names)
	}
	return dev, nil
}

// openActive opens the first device with an active port. A device that cannot
// be opened is passed over, and named if none is left.
func openActive() (*Device, error) {
	v, err := library()
	if err != nil {
		return nil, err
	}
	var (
		found *Device
		names []string
		tried []string
		errs  []error
	)
	err = v.eachDevice(func(d DeviceInfo, handle uintptr) (bool, error) {
		names = append(names, d.Name)
		c, err := v.openContext(d, handle)
		if err != nil {
			errs = append(errs, err)
			return true, nil
		}
		port, state := c.activePort()
		if port != 0 {
			found = c
			return false, nil
		}
		tried = append(tried, d.Name+" ("+state+")")
		return true, c.Close()
	})
	if err != nil || found != nil {
		return found, err
	}
	if len(names) == 0 {
		return nil, v.noDevice("open device", "", "no device has an active port", nil)
	}
	detail := "no device has an active port; " + have(tried)
	if len(tried) == 0 {
		detail = "no device could be opened"
	}
	if err := v.unlisted(names); err != nil {
		errs = append(errs, err)
	}
	return nil, &OpError{Op: "open device", Err: errors.Join(append([]error{ErrNoDevice}, errs...)...), Detail: detail}
}

// have says which devices there are, for an error.
func have(names []string) string {
	if len(names) == 0 {
		return "this host has no RDMA device (is the driver loaded? see /sys/class/infiniband)"
	}
	return "there are " + strings.Join(names, ", ")
}

// eachDevice calls f for each device until it returns false. Handles are valid
// within f only.
func (v *verbs) eachDevice(f func(d DeviceInfo, handle uintptr) (bool, error)) error {
	if err := v.checkProviders(); err != nil {
		return &OpError{Op: "list devices", Err: err}
	}
	list, handles, err := v.GetDeviceList()
	if err != nil || len(handles) == 0 {
		// libibverbs says so too when it has no descriptors, of which it needs some.
		if spare := spareDescriptors(8); spare != nil {
			if err == nil {
				v.FreeDeviceList(list)
			}
			return &OpError{Op: "list devices", Err: spare}
		}
	}
	if err != nil {
		// A kernel without uverbs answers ENOSYS, an old library ENOENT.
		if errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENODEV) {
			return nil
		}
		return &OpError{Op: "list devices", Err: err}
	}
	defer v.FreeDeviceList(list)
	for _, h := range handles {
		d, err := v.describe(h)
		if err != nil {
			return err
		}
		if more, err := f(d, h); err != nil || !more {
			return err
		}
	}
	return nil
}

// describe reads a struct ibv_device.
func (v *verbs) describe(h uintptr) (DeviceInfo, error) {
	name, err := v.GetDeviceName(h)
	if err != nil {
		return DeviceInfo{}, err
	}
	guid, err := v.GetDeviceGUID(h)
	if err != nil {
		return DeviceInfo{}, err
	}
	node, transport := libibverbs.DeviceTypes(h)
	return DeviceInfo{
		Name: name, GUID: GUID(guid), NodeType: NodeType(node), Transport: TransportType(transport),
		Index: v.GetDeviceIndex(h),
	}, nil
}
