package nldev

import (
	"encoding/binary"
	"syscall"
)

// exchange sends a message and calls do with the attributes of each answer: one, or all with flagDump.
type exchange func(typ, flags uint16, attributes []byte, do func(map[uint16][]byte)) error

// Devices returns the devices of this network namespace by name.
func Devices() (map[string]Device, error) { return with(devices) }

// CopyOnFork reports whether the kernel copies memory that a device accesses when the process forks.
func CopyOnFork() bool {
	is, _ := with(func(ask exchange) (is bool, err error) {
		err = ask(cmdSysGet, 0, nil, func(a map[uint16][]byte) {
			n, _ := number(a[attrCopyOnFork])
			is = n != 0
		})
		return is, err
	})
	return is
}

func devices(ask exchange) (map[string]Device, error) {
	list := make(map[string]Device)
	err := ask(cmdGet, flagDump, nil, func(a map[uint16][]byte) {
		if n, ok := number(a[attrIndex]); ok && a[attrName] != nil {
			guid, _ := number(a[attrNodeGUID])
			typ, _ := number(a[attrNodeType])
			list[text(a[attrName])] = Device{Index: uint32(n), GUID: guid, Type: uint8(typ)}
		}
	})
	if err != nil {
		return nil, err
	}
	for name, d := range list {
		var index [4]byte
		binary.NativeEndian.PutUint32(index[:], d.Index)
		q := append(attr(attrIndex, index[:]), attr(attrChardevType, []byte("uverbs\x00"))...)
		_ = ask(cmdGetChardev, 0, q, func(a map[uint16][]byte) { // an older kernel does not answer
			n, _ := number(a[attrDriver])
			d.Driver = uint32(n)
			d.File.Name = text(a[attrChardevName])
			d.File.Number, _ = number(a[attrChardev])
			d.File.ABI, _ = number(a[attrChardevABI])
		})
		list[name] = d
	}
	return list, nil
}

// answers reads answers to the message seq: many until the last, else one.
func answers(seq uint32, many bool, read func() ([]byte, error), do func(map[uint16][]byte)) error {
	for {
		b, err := read()
		if err != nil {
			return err
		}
		for len(b) > 0 {
			typ, to, body, rest, err := message(b)
			if err != nil {
				return err
			}
			b = rest
			switch {
			case to != seq:
			case typ == typeDone:
				return nil
			case typ == typeError:
				if len(body) < 4 {
					return errShort
				}
				if e := int32(binary.NativeEndian.Uint32(body)); e != 0 {
					return syscall.Errno(-e)
				}
				return nil
			default:
				a, err := attrs(body)
				if err != nil {
					return err
				}
				if do(a); !many {
					return nil
				}
			}
		}
	}
}
