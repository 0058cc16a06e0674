package libibverbs

import (
	"encoding/binary"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
)

// struct ibv_device **ibv_get_device_list(int *num_devices);
func (l Lib) GetDeviceList() (list uintptr, devices []uintptr, err error) {
	n := new(int32)
	list, err = l.lib.Ptr("ibv_get_device_list", uintptr(unsafe.Pointer(n)))
	if err != nil {
		return 0, nil, err
	}
	return list, cmem.Slice[uintptr](list, int(*n)), nil
}

// __be64 ibv_get_device_guid(struct ibv_device *device);
func (l Lib) GetDeviceGUID(dev uintptr) (uint64, error) {
	v, err := l.lib.Uint64("ibv_get_device_guid", dev)
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], v)
	return binary.BigEndian.Uint64(b[:]), err
}

// int ibv_get_device_index(struct ibv_device *device); absent before v30.
func (l Lib) GetDeviceIndex(dev uintptr) int {
	n, err := l.lib.Int("ibv_get_device_index", dev)
	if err != nil {
		return -1
	}
	return int(n)
}

// HasDeviceIndex reports whether the library has GetDeviceIndex.
func (l Lib) HasDeviceIndex() bool { return l.lib.Has("ibv_get_device_index") }

// Device reads a struct ibv_device.
func (l Lib) Device(dev uintptr) control.Device {
	d := cmem.At[abi.Device](dev)
	return control.Device{NodeType: int32(d.NodeType), Transport: int32(d.TransportType)}
}
