package ibv

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pureverbs/pureverbs/internal/printable"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// Open opens the device, as the function Open does by name.
func (d DeviceInfo) Open() (*Device, error) {
	return open(d.Name, "no device is named "+printable.Name(d.Name), func(o DeviceInfo, _ int) bool {
		return o.Name == d.Name
	})
}

// Devices lists the RDMA devices of this host in the library's order. On a host without any, or
// without RDMA support in the kernel, the list is empty. On a host without libibverbs the error
// is a *loader.LibraryError. The library leaves out devices for which it has no driver:
// Unlisted reports them. If it leaves out all, the error is an *UnlistedError.
//
// C: ibv_get_device_list(3).
func Devices() ([]DeviceInfo, error) {
	var devices []DeviceInfo
	err := eachDevice(func(_ *verbs, d DeviceInfo, _ uintptr) (bool, error) {
		devices = append(devices, d)
		return true, nil
	})
	if err == nil && len(devices) == 0 {
		err = unlisted(nil)
	}
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

// OpenIndex opens device number i of the list that Devices returns, from 0.
func OpenIndex(i int) (*Device, error) {
	return open("", fmt.Sprintf("there is no device number %d", i), func(_ DeviceInfo, n int) bool { return n == i })
}

// OpenGUID opens the device with the given node GUID.
func OpenGUID(guid GUID) (*Device, error) {
	return open("", "no device has the GUID "+guid.String(), func(d DeviceInfo, _ int) bool { return d.GUID == guid })
}

// open opens the device that matches. name is the requested name, "" if the device was not
// requested by name; missing is the message for no match.
func open(name, missing string, match func(DeviceInfo, int) bool) (*Device, error) {
	var (
		dev   *Device
		names []string
	)
	err := eachDevice(func(v *verbs, d DeviceInfo, handle uintptr) (bool, error) {
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
		return nil, noDevice("open device", name, missing, names)
	}
	return dev, nil
}

// openActive opens the first device with an active port. A device that cannot be opened is
// skipped; the error names it if no other device qualifies.
func openActive() (*Device, error) {
	var (
		found *Device
		names []string
		tried []string
		errs  []error
	)
	err := eachDevice(func(v *verbs, d DeviceInfo, handle uintptr) (bool, error) {
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
		return nil, noDevice("open device", "", "no device has an active port", nil)
	}
	detail := "no device has an active port; " + have(tried)
	if len(tried) == 0 {
		detail = "no device could be opened"
	}
	if err := unlisted(names); err != nil {
		errs = append(errs, err)
	}
	return nil, &OpError{Op: "open device", Err: errors.Join(append([]error{ErrNoDevice}, errs...)...), Detail: detail}
}

// have lists the devices of this host, for an error.
func have(names []string) string {
	if len(names) == 0 {
		return "this host has no RDMA device: " + sysfs.DefaultRoot().NoDevice()
	}
	return "there are " + strings.Join(names, ", ")
}
