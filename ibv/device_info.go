package ibv

import (
	"errors"
	"syscall"
)

// DeviceInfo describes an RDMA device that libibverbs found. It is a plain value;
// nothing is open.
type DeviceInfo struct {
	Name      string
	GUID      GUID // node GUID
	NodeType  NodeType
	Transport TransportType
	Index     int // the kernel's device index, -1 if the library does not report it (before v30)
}

// eachDevice calls f for each device until f returns false. Handles are valid only within f.
func (v *verbs) eachDevice(f func(d DeviceInfo, handle uintptr) (bool, error)) error {
	if err := v.checkProviders(); err != nil {
		return &OpError{Op: "list devices", Err: err}
	}
	list, handles, err := v.GetDeviceList()
	if err != nil || len(handles) == 0 {
		// libibverbs also returns this when it cannot open the descriptors it needs.
		if spare := spareDescriptors(8); spare != nil {
			if err == nil {
				v.FreeDeviceList(list)
			}
			return &OpError{Op: "list devices", Err: spare}
		}
	}
	if err != nil {
		// A kernel without uverbs returns ENOSYS, an old library ENOENT.
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

// describe returns what a device is.
func (v *verbs) describe(h uintptr) (DeviceInfo, error) {
	name, err := v.GetDeviceName(h)
	if err != nil {
		return DeviceInfo{}, err
	}
	guid, err := v.GetDeviceGUID(h)
	if err != nil {
		return DeviceInfo{}, err
	}
	is := v.Device(h)
	return DeviceInfo{
		Name: name, GUID: GUID(guid), NodeType: NodeType(is.NodeType), Transport: TransportType(is.Transport),
		Index: v.GetDeviceIndex(h),
	}, nil
}
