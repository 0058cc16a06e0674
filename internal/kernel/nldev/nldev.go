// Package nldev asks the kernel by netlink what RDMA devices there are. Kernels before 4.14 do not answer, and those
// before 5.3 do not say what drives a device.
package nldev

import (
	"bytes"
	"encoding/binary"

	"github.com/pureverbs/pureverbs/internal/netlink"
)

// Device has netlink's facts of a device.
type Device struct {
	Index  uint32
	Driver uint32 // C: enum rdma_driver_id; 0 (RDMA_DRIVER_UNKNOWN) if the kernel does not say
	GUID   uint64 // of the node
	Type   uint8  // C: enum rdma_node_type; 0 if the kernel does not say
	File   File
}

// File is a device file of verbs. All is zero before Linux 5.1, which does not say.
type File struct {
	Name   string // as in "uverbs0"
	Number uint64 // C: dev_t
	ABI    uint64 // of the driver
}

const (
	family = 20      // C: NETLINK_RDMA
	client = 5 << 10 // RDMA_NL_NLDEV, which leads a message's type
)

// Commands. C: enum rdma_nldev_command.
const (
	cmdGet        = client | 1
	cmdSysGet     = client | 6
	cmdGetChardev = client | 15
)

// Attributes. C: enum rdma_nldev_attr.
const (
	attrIndex       = 1
	attrName        = 2
	attrNodeGUID    = 6
	attrNodeType    = 14
	attrChardevType = 69
	attrChardevName = 70
	attrChardevABI  = 71
	attrChardev     = 72
	attrDriver      = 73
	attrCopyOnFork  = 93
)

// Devices returns the devices of this network namespace by name.
func Devices() (map[string]Device, error) { return netlink.With(family, devices) }

// CopyOnFork reports whether the kernel copies memory that a device accesses when the process forks.
func CopyOnFork() bool {
	is, _ := netlink.With(family, func(ask netlink.Ask) (is bool, err error) {
		err = ask(cmdSysGet, 0, nil, each(func(a map[uint16][]byte) {
			n, _ := number(a[attrCopyOnFork])
			is = n != 0
		}))
		return is, err
	})
	return is
}

func devices(ask netlink.Ask) (map[string]Device, error) {
	list := make(map[string]Device)
	err := ask(cmdGet, netlink.FlagDump, nil, each(func(a map[uint16][]byte) {
		if n, ok := number(a[attrIndex]); ok && a[attrName] != nil {
			guid, _ := number(a[attrNodeGUID])
			typ, _ := number(a[attrNodeType])
			list[text(a[attrName])] = Device{Index: uint32(n), GUID: guid, Type: uint8(typ)}
		}
	}))
	if err != nil {
		return nil, err
	}
	for name, d := range list {
		index := binary.NativeEndian.AppendUint32(nil, d.Index)
		q := append(netlink.Attr(attrIndex, index), netlink.Attr(attrChardevType, []byte("uverbs\x00"))...)
		_ = ask(cmdGetChardev, 0, q, each(func(a map[uint16][]byte) { // an older kernel does not answer
			n, _ := number(a[attrDriver])
			d.Driver = uint32(n)
			d.File.Name = text(a[attrChardevName])
			d.File.Number, _ = number(a[attrChardev])
			d.File.ABI, _ = number(a[attrChardevABI])
		}))
		list[name] = d
	}
	return list, nil
}

// each calls do with the attributes of an answer.
func each(do func(map[uint16][]byte)) func(uint16, []byte) error {
	return func(_ uint16, body []byte) error {
		a, err := netlink.Attrs(body)
		if err == nil {
			do(a)
		}
		return err
	}
}

// number returns an attribute of 1, 4 or 8 bytes. ok is false if there is none.
func number(b []byte) (n uint64, ok bool) {
	switch len(b) {
	case 1:
		return uint64(b[0]), true
	case 4:
		return uint64(binary.NativeEndian.Uint32(b)), true
	case 8:
		return binary.NativeEndian.Uint64(b), true
	}
	return 0, false
}

// text returns an attribute that is a string.
func text(b []byte) string {
	s, _, _ := bytes.Cut(b, []byte{0})
	return string(s)
}
