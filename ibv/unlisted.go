package ibv

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/internal/printable"
	"github.com/pureverbs/pureverbs/internal/provider"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// UnlistedDevice is a device that the kernel has and the control path does not list.
type UnlistedDevice struct {
	Name   string
	Driver string // the kernel's driver, "mlx5_core"; empty for a software device
	Reason string // as far as it is known
}

// UnlistedError explains why libibverbs does not list devices that the kernel has: it silently
// leaves out a device that none of its drivers accepts. It matches ErrNoDevice.
type UnlistedError struct {
	Library string // path of libibverbs, "" on the native control path
	Devices []UnlistedDevice
}

func (e *UnlistedError) Error() string {
	var b strings.Builder
	by := "libibverbs (" + e.Library + ")"
	if e.Library == "" {
		by = "the native control path"
	}
	b.WriteString(by + " does not list what /sys/class/infiniband has")
	var said []string
	for _, d := range e.Devices {
		if slices.Contains(said, d.Reason) {
			continue
		}
		said = append(said, d.Reason)
		// Devices of one kind have the same reason: name it once.
		var names []string
		for _, o := range e.Devices {
			if o.Reason != d.Reason {
				continue
			}
			name := printable.Name(o.Name)
			if o.Driver != "" {
				name += " (driver " + printable.Name(o.Driver) + ")"
			}
			names = append(names, name)
		}
		fmt.Fprintf(&b, "; %s: %s", strings.Join(names, ", "), d.Reason)
	}
	return b.String()
}

// Is reports whether target is ErrNoDevice.
func (e *UnlistedError) Is(target error) bool { return target == ErrNoDevice }

// Unlisted returns an *UnlistedError if the kernel has devices that Devices does not list,
// because the library has no driver for them. It returns nil if all are listed, and another
// error if that cannot be determined.
func Unlisted() error {
	var names []string
	err := eachDevice(func(_ *verbs, d DeviceInfo, _ uintptr) (bool, error) {
		names = append(names, d.Name)
		return true, nil
	})
	if err != nil {
		return err
	}
	return unlisted(names)
}

// unlisted is Unlisted for a known list of devices.
func unlisted(listed []string) error {
	v, err := firstPath()
	if err != nil {
		return err
	}
	root := sysfs.DefaultRoot()
	devices, err := root.Devices()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the kernel has no RDMA
	}
	if err != nil {
		return &OpError{Op: "read " + root.ClassDir(), Err: explainDescriptors(err)}
	}
	devices = slices.DeleteFunc(devices, func(d sysfs.Device) bool { return slices.Contains(listed, d.Name) })
	if len(devices) == 0 {
		return nil
	}
	var set *provider.Set
	e := new(UnlistedError)
	if !v.native {
		set = provider.Scan(v.Path())
		e.Library = set.Library
	}
	for _, d := range devices {
		u := UnlistedDevice{Name: d.Name, Driver: d.Driver}
		switch {
		case !v.native:
			u.Reason = set.Why(root, deviceDir, d)
		case d.Driver == driverMLX5:
			u.Reason = provider.NoFile(root, deviceDir, d)
		default:
			u.Reason = "the native control path drives mlx5 devices only; others need libibverbs"
		}
		e.Devices = append(e.Devices, u)
	}
	return e
}

// noDevice returns the error for opening a device that is not listed. name is the requested
// name, "" if the device was not requested by name; missing is the message for no match.
func noDevice(op, name, missing string, listed []string) error {
	err := unlisted(listed)
	var u *UnlistedError
	switch {
	case errors.As(err, &u):
		is := func(d UnlistedDevice) bool { return d.Name == name }
		if i := slices.IndexFunc(u.Devices, is); i >= 0 {
			u.Devices = u.Devices[i : i+1]
			return &OpError{Op: op, Object: printable.Name(name), Err: u}
		} else if name != "" && len(listed) > 0 {
			break // the kernel has no device of that name either
		}
		there := "it lists no device"
		if len(listed) > 0 {
			there = have(listed)
		}
		return &OpError{Op: op, Err: u, Detail: missing + "; " + there}
	case err != nil:
		return &OpError{Op: op, Err: errors.Join(ErrNoDevice, err), Detail: missing + "; " + have(listed)}
	}
	return &OpError{Op: op, Err: ErrNoDevice, Detail: missing + "; " + have(listed)}
}
