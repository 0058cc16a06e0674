package nics

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/hostfacts"
)

// Words that stand for several NICs.
const (
	All = "all" // each port of each device
	GPU = "gpu" // the nearest one of each GPU
)

// Most bounds the NICs of a host.
const Most = 64

// NIC is a port of a device.
type NIC struct {
	Device string
	Port   uint8
	Link   string // layer; empty if it is not known
	Rate   int64  // of the link, in bits per second; 0 if it is not known
	Down   string // why it carries nothing; empty: it does, or nobody knows
}

// Name is that of the device, with the port if it is not the first.
func (n NIC) Name() string {
	if n.Port == 1 {
		return n.Device
	}
	return fmt.Sprintf("%s:%d", n.Device, n.Port)
}

// Parse reads a list of names with commas between. port is that of names without one.
func Parse(text string, port uint8) ([]NIC, error) {
	var list []NIC
	for name := range strings.SplitSeq(text, ",") {
		n := NIC{Device: name, Port: port}
		if at := strings.LastIndexByte(name, ':'); at >= 0 {
			p, err := strconv.ParseUint(name[at+1:], 10, 8)
			if err != nil || p == 0 {
				return nil, fmt.Errorf("device (-d) %.100q: after the colon comes the number of a port", name)
			}
			n.Device, n.Port = name[:at], uint8(p)
		}
		switch {
		case n.Device == "":
			return nil, fmt.Errorf("devices (-d) %.100q: number %d has no name", text, len(list)+1)
		case n.Device == All || n.Device == GPU:
			return nil, fmt.Errorf("devices (-d) %.100q: %s is not a part of a list", text, n.Device)
		case slices.Contains(list, n):
			return nil, fmt.Errorf("devices (-d) %.100q: %.100q is there twice", text, n.Name())
		}
		if list = append(list, n); len(list) > Most {
			return nil, fmt.Errorf("more than %d devices (-d)", Most)
		}
	}
	return list, nil
}

// UnknownError is a device that is not there.
type UnknownError struct {
	Device string
	Have   []string
	None   string // why there is no device at all
}

// Error returns one line.
func (e *UnknownError) Error() string {
	if len(e.Have) == 0 {
		return fmt.Sprintf("device (-d) %.100q is not there: %s", e.Device, e.None)
	}
	return fmt.Sprintf("device (-d) %.100q is not there; there are: %s", e.Device, strings.Join(e.Have, ", "))
}

// Find returns the NICs of a host that a text stands for: a list as for Parse, or a word. Those of a word are in the
// order of their names: where hosts are alike, it is the same on all of them. only is a port, 0: all.
func Find(host hostfacts.Host, text string, only uint8) ([]NIC, error) {
	word := text == All || text == GPU
	var listed []NIC
	var err error
	if !word {
		if listed, err = Parse(text, max(only, 1)); err != nil {
			return nil, err
		}
	}
	devices, err := host.Devices()
	if len(devices) == 0 {
		if err == nil || !word {
			err = &UnknownError{text, nil, host.NoDevice()}
		}
		return nil, err
	}
	if !word {
		for i := range listed {
			if err := listed[i].look(devices); err != nil {
				return nil, err
			}
		}
		return listed, nil
	}
	var list []NIC
	for i := range devices {
		for _, p := range devices[i].Ports {
			if only == 0 || int(only) == p.Number {
				n := NIC{Device: devices[i].Name, Port: uint8(p.Number)}
				n.state(p)
				list = append(list, n)
			}
		}
	}
	if text == GPU {
		if list, err = nearest(host, devices, list); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list, func(a, b NIC) int {
		return cmp.Or(hostfacts.CompareNames(a.Device, b.Device), cmp.Compare(a.Port, b.Port))
	})
	switch {
	case len(list) == 0:
		return nil, fmt.Errorf("no device here has a port %d (-i)", only)
	case len(list) > Most:
		return nil, fmt.Errorf("%d ports of devices; at most %d can be measured: list them with -d", len(list), Most)
	}
	return list, nil
}

// look completes a NIC that was named.
func (n *NIC) look(devices []hostfacts.Device) error {
	var have []string
	for i := range devices {
		d := &devices[i]
		have = append(have, d.Name)
		if d.Name != n.Device {
			continue
		}
		for _, p := range d.Ports {
			if p.Number == int(n.Port) {
				n.state(p)
				return nil
			}
		}
		return fmt.Errorf("device (-d) %s has no port %d, but %d", n.Device, n.Port, len(d.Ports))
	}
	return &UnknownError{Device: n.Device, Have: have}
}

func (n *NIC) state(p hostfacts.Port) {
	n.Link, n.Rate = string(p.LinkLayer), p.RateBits
	if !p.Active() {
		n.Down = fmt.Sprintf("%s port %d is %s, not active", n.Device, n.Port,
			cmp.Or(p.StateName, "in an unknown state"))
	}
}

var errNoGPU = errors.New("-d gpu: no GPU is on the PCI bus of this host")
