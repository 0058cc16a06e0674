package config

import (
	"fmt"
	"reflect"
	"strconv"
)

// Port capability flags that mlx5 reports. C: enum ibv_port_cap_flags.
const (
	capEthernet   = 0x04010000 // IP_BASED_GIDS, CM_SUP
	capInfiniBand = 0xa751e848
)

// Default returns one ConnectX-7 with one active Ethernet port.
func Default() *Config {
	c, err := Parse([]string{"mlx5_0"})
	if err != nil {
		return &Config{} // no device at all: a test shows that this cannot be
	}
	return c
}

// DefaultLimits returns what a ConnectX-7 reports.
func DefaultLimits() (l Limits) {
	v := reflect.ValueOf(&l).Elem()
	for i := range v.NumField() {
		_ = setLimit(v.Field(i), v.Type().Field(i).Tag.Get("default")) // a test shows that they fit
	}
	return l
}

func newDevice(index int) Device {
	m, _ := ModelByPCI(0x1021)
	return Device{
		Name: fmt.Sprintf("mlx5_%d", index), Model: m, FirmwareVersion: m.Firmware, BoardID: m.PSID,
		NodeDesc: "emulated", NodeGUID: GUID(0xe41d2d0300e00000 + 0x10*uint64(index)), Limits: DefaultLimits(),
		NUMANode: -1, CQEVersion: 1,
		// A domain that real machines do not use: the machine's own devices stay visible.
		PCI: fmt.Sprintf("00e0:%02x:00.0", index+1),
	}
}

// newPort returns an active port of a device, without netdev and GIDs; number counts from 1.
func newPort(d *Device, device, number int, link LinkLayer) Port {
	p := Port{LinkLayer: link, State: PortActive, PhysState: PhysLinkUp, MaxMTU: MTU4096, ActiveMTU: MTU1024,
		Width: d.Model.Width,
		Speed: d.Model.Speed, PKeys: []uint16{0xffff}, GIDTableLen: 256, CapFlags: capEthernet}
	if link == InfiniBand {
		p.ActiveMTU, p.GIDTableLen, p.CapFlags = MTU4096, 8, capInfiniBand
		p.LID, p.SMLID = uint16(2*device+number), 1
		p.PKeys = append(p.PKeys, make([]uint16, 127)...)
		return p
	}
	p.MAC = d.NodeGUID.MAC(number)
	return p
}

// defaultGIDs fills an Ethernet port's table as the kernel does for a netdev with an IPv4 and an IPv6 address, and an
// InfiniBand port's with its own GUID.
func (p *Port) defaultGIDs(d *Device, device, number int) {
	if p.LinkLayer == InfiniBand {
		a := Addr{0: 0xfe, 1: 0x80}
		b := (d.NodeGUID + GUID(number-1)).Bytes()
		copy(a[8:], b[:])
		p.GIDs = []GID{{GID: a, Type: GIDTypeIB}}
		return
	}
	p.addGID(p.MAC.LinkLocal(), "", 0)
	p.addGID(Addr{10: 0xff, 11: 0xff, 12: 10, 13: 88, 14: byte(device), 15: byte(number)}, "", 0)
	p.addGID(Addr{0: 0xfd, 3: 0x88, 14: byte(device), 15: byte(number)}, "", 0)
}

// addGID appends an entry. An Ethernet port gets one for RoCE v1 and one for v2 where typ is "".
func (p *Port) addGID(a Addr, typ string, vlan int) {
	g := GID{GID: a, Netdev: p.vlanNetdev(vlan), VLAN: vlan}
	switch {
	case a.IsZero():
		g = GID{}
	case p.LinkLayer == InfiniBand:
		g = GID{GID: a, Type: GIDTypeIB}
	case typ == "":
		g.Type = GIDTypeRoCEv1
		p.GIDs = append(p.GIDs, g)
		g.Type = GIDTypeRoCEv2
	case typ == "v1":
		g.Type = GIDTypeRoCEv1
	case typ == "v2":
		g.Type = GIDTypeRoCEv2
	}
	p.GIDs = append(p.GIDs, g)
}

func (p *Port) vlanNetdev(vlan int) string {
	if vlan == 0 {
		return p.Netdev
	}
	return p.Netdev + "." + strconv.Itoa(vlan)
}
