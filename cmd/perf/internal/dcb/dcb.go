// Package dcb reads what a network interface does with priorities (data center bridging): which of them have flow
// control, which priority packets get, and whether this host or the adapter decides on that. The kernel reports it over
// netlink to everybody; the layout is that of include/uapi/linux/dcbnl.h.
//
// Virtual interfaces, and drivers without DCB, answer EOPNOTSUPP.
package dcb

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/internal/netlink"
)

// Selectors of an [App] whose protocol is no port and no EtherType.
const (
	SelDSCP = 5
	SelPCP  = 255
)

// App is an entry of the table that gives packets a priority.
type App struct {
	Selector uint8
	Priority uint8
	Protocol uint16
}

// PFC is priority flow control.
type PFC struct {
	Enabled uint8 // a bit for each priority
}

// On reports whether a priority has flow control.
func (p *PFC) On(priority uint8) bool { return priority < 8 && p.Enabled>>priority&1 == 1 }

// Mode is who negotiates with the switch (DCBX).
type Mode uint8

// The bits of a Mode.
const (
	Host    Mode = 1  // a program of this host, such as lldpad
	Adapter Mode = 2  // the adapter's firmware
	Static  Mode = 16 // nobody: the firmware's own configuration
)

// Port is the state of an interface. What its driver does not report is nil.
type Port struct {
	PFC   *PFC
	Class *[8]uint8 // traffic class by priority
	Apps  []App
	Trust []uint8 // selectors by which packets get a priority, the first one first; since Linux 6.2, and few drivers
	Mode  *Mode
}

// DSCP returns the priority by DSCP, nil if the table has no entry of that kind. Of several the highest counts.
func (p *Port) DSCP() map[uint8]uint8 {
	var m map[uint8]uint8
	for _, a := range p.Apps {
		if a.Selector != SelDSCP || a.Protocol > 63 || a.Priority > 7 {
			continue
		}
		if m == nil {
			m = map[uint8]uint8{}
		}
		m[uint8(a.Protocol)] = max(m[uint8(a.Protocol)], a.Priority)
	}
	return m
}

// Numbers of dcbnl.h.
const (
	cmdIEEEGet = 21

	attrIfName = 1
	attrIEEE   = 13
	attrDCBX   = 14

	ieeeETS   = 1
	ieeePFC   = 2
	ieeeApps  = 3
	ieeeTrust = 11

	appIEEE = 1
	appDCB  = 2

	sizeMsg = 4 // struct dcbmsg
	sizeETS = 3 + 7*8
	sizePFC = 8 + 2*8*8
	sizeApp = 4
)

var errShort = errors.New("attribute of netlink is cut off")

// attributes calls f for each attribute of netlink in b.
func attributes(b []byte, f func(typ uint16, value []byte) error) error {
	for len(b) >= 4 {
		n, typ := int(binary.NativeEndian.Uint16(b)), binary.NativeEndian.Uint16(b[2:])&0x3fff
		if n < 4 || n > len(b) {
			return errShort
		}
		if err := f(typ, b[4:n]); err != nil {
			return err
		}
		b = b[min((n+3)&^3, len(b)):]
	}
	if len(b) > 0 {
		return errShort
	}
	return nil
}

// parse reads the kernel's reply to DCB_CMD_IEEE_GET: struct dcbmsg and attributes.
func parse(b []byte) (*Port, error) {
	if len(b) < sizeMsg || b[1] != cmdIEEEGet {
		return nil, fmt.Errorf("reply of %d bytes is not the requested one", len(b))
	}
	p := &Port{}
	err := attributes(b[sizeMsg:], func(typ uint16, v []byte) error {
		switch typ {
		case attrIEEE:
			return attributes(v, p.ieee)
		case attrDCBX:
			if len(v) < 1 {
				return errShort
			}
			m := Mode(v[0])
			p.Mode = &m
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// ieee reads an attribute of DCB_ATTR_IEEE.
func (p *Port) ieee(typ uint16, v []byte) error {
	switch typ {
	case ieeeETS:
		if len(v) < sizeETS {
			return errShort
		}
		class := [8]uint8(v[27:])
		p.Class = &class
	case ieeePFC:
		if len(v) < sizePFC {
			return errShort
		}
		p.PFC = &PFC{Enabled: v[1]}
	case ieeeApps:
		return attributes(v, func(typ uint16, v []byte) error {
			if typ != appIEEE && typ != appDCB {
				return nil
			}
			if len(v) < sizeApp {
				return errShort
			}
			p.Apps = append(p.Apps, App{Selector: v[0], Priority: v[1], Protocol: binary.NativeEndian.Uint16(v[2:])})
			return nil
		})
	case ieeeTrust:
		p.Trust = []uint8{}
		return attributes(v, func(_ uint16, v []byte) error {
			if len(v) < 1 {
				return errShort
			}
			p.Trust = append(p.Trust, v[0])
			return nil
		})
	}
	return nil
}

// request is RTM_GETDCB with DCB_CMD_IEEE_GET, without the header of netlink.
func request(netdev string) []byte {
	return append([]byte{0, cmdIEEEGet, 0, 0}, netlink.Attr(attrIfName, append([]byte(netdev), 0))...)
}
