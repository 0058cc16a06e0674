package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strconv"
)

// Limits of the formats and of the kernel's interfaces.
const (
	MaxDevices = 32 // as many as the fixed minors of uverbs
	MaxPorts   = 4
	MaxGIDs    = 1024
	MaxPKeys   = 1024
	MaxVLAN    = 4094
	maxName    = 63 // IB_DEVICE_NAME_MAX with its zero
	maxNetdev  = 15
)

// Validate reports everything that is wrong, each as a [*ValueError].
func (c *Config) Validate() error {
	var v checker
	v.check(len(c.Devices) <= MaxDevices, "devices", len(c.Devices), "at most %d", MaxDevices)
	names, guids, pcis, nets := map[string]bool{}, map[GUID]bool{}, map[string]bool{}, map[string]bool{}
	for i := range c.Devices {
		d := &c.Devices[i]
		v.device = d.Name
		v.check(validName(d.Name, maxName), "name", d.Name, "want up to %d letters, digits, '_', '-' or '.'", maxName)
		v.check(!names[d.Name], "name", d.Name, "another device has it")
		v.check(d.NodeGUID != 0 && !guids[d.NodeGUID], "guid", d.NodeGUID, "zero, or another device has it")
		v.check(validPCI(d.PCI) && !pcis[d.PCI], "pci", d.PCI, "want DDDD:BB:DD.F in hex that no other device has")
		v.check(d.NUMANode >= -1 && d.NUMANode < 1024, "numa", d.NUMANode, "want -1 to 1023")
		v.check(d.MinInline == 0 || d.MinInline == 18, "min_inline", d.MinInline, "want 0 or 18")
		v.check(d.CQEVersion == 0 || d.CQEVersion == 1, "cqe_version", d.CQEVersion, "want 0 or 1")
		v.check(len(d.Ports) >= 1 && len(d.Ports) <= MaxPorts, "ports", len(d.Ports), "want 1 to %d", MaxPorts)
		_, known := ModelByPCI(d.Model.PCI)
		v.check(known, "model", fmt.Sprintf("%#x", d.Model.PCI), "libmlx5 has no such PCI device")
		for _, f := range [][2]string{{"fw", d.FirmwareVersion}, {"board", d.BoardID}, {"desc", d.NodeDesc}} {
			v.check(printable(f[1]), f[0], f[1], "want up to 63 printable characters")
		}
		names[d.Name], guids[d.NodeGUID], pcis[d.PCI] = true, true, true
		v.limits(&d.Limits)
		for j := range d.Ports {
			v.port(&d.Ports[j], nets)
		}
	}
	return errors.Join(v.errs...)
}

type checker struct {
	device string
	errs   []error
}

func (v *checker) check(ok bool, key string, value any, format string, args ...any) {
	if !ok {
		v.errs = append(v.errs, &ValueError{Device: v.device, Key: key, Value: fmt.Sprint(value),
			Err: fmt.Errorf(format, args...)})
	}
}

func (v *checker) limits(l *Limits) {
	s := reflect.ValueOf(*l)
	for i := range s.NumField() {
		var n uint64
		if f := s.Field(i); f.CanInt() {
			n = uint64(f.Int())
		} else {
			n = f.Uint()
		}
		tag := s.Type().Field(i).Tag
		key := tag.Get("limit")
		least, _ := strconv.ParseUint(cmp.Or(tag.Get("least"), "1"), 0, 64)
		hard, _ := strconv.ParseUint(cmp.Or(tag.Get("most"), "0xffffffffffffffff"), 0, 64)
		v.check(n >= least && n <= hard, key, n, "want %d to %d", least, hard)
	}
	v.check(l.MaxAtomic <= 0 || l.MaxAtomic >= 8, "max_atomic", l.MaxAtomic, "want 0 for none, or at least 8 bytes")
}

func (v *checker) port(p *Port, nets map[string]bool) {
	_, link := linkNames[p.LinkLayer]
	_, state := stateNames[p.State]
	_, phys := physNames[p.PhysState]
	v.check(link, "link", p.LinkLayer, "want eth or ib")
	v.check(state, "state", p.State, "want up or down")
	v.check(phys, "phys_state", p.PhysState, "want one of %s", list(physNames))
	v.check(p.MaxMTU.Bytes() > 0, "max_mtu", p.MaxMTU, "want one of %s", list(mtuNames))
	v.check(p.ActiveMTU.Bytes() > 0 && p.ActiveMTU <= p.MaxMTU, "mtu", p.ActiveMTU, "want one of %s, at most %v",
		list(mtuNames), p.MaxMTU)
	v.check(p.Width.Lanes() > 0, "width", p.Width, "want one of %s", list(widthNames))
	v.check(p.Speed.LaneRate() > 0, "speed", p.Speed, "want one of %s", list(speedNames))
	v.check(p.GIDTableLen >= 1 && p.GIDTableLen <= MaxGIDs, "gid_table_len", p.GIDTableLen, "want 1 to %d", MaxGIDs)
	v.check(len(p.GIDs) <= p.GIDTableLen, "gids", len(p.GIDs), "the table has %d entries: say gid_table_len=%d",
		p.GIDTableLen, len(p.GIDs))
	v.check(len(p.PKeys) >= 1 && len(p.PKeys) <= MaxPKeys, "pkeys", len(p.PKeys), "want 1 to %d", MaxPKeys)
	v.check(p.LMC <= 7, "lmc", p.LMC, "want 0 to 7")
	v.check(p.LID < 0xc000, "lid", p.LID, "want a unicast LID, below 0xc000")
	if p.LinkLayer == InfiniBand {
		v.check(p.State != PortActive || p.LID != 0, "lid", p.LID, "an active InfiniBand port has one")
		v.check(p.Netdev == "", "netdev", p.Netdev, "an InfiniBand port has none")
	} else {
		v.check(!p.NeedsGRH, "grh", "required", "for link=ib: an address on Ethernet always has a GID")
		v.check(validName(p.Netdev, maxNetdev), "netdev", p.Netdev, "want up to %d letters, digits, '_', '-' or '.'",
			maxNetdev)
		v.check(!nets[p.Netdev], "netdev", p.Netdev, "another port has it")
		nets[p.Netdev] = true
	}
	for i, g := range p.GIDs {
		key := "gid " + strconv.Itoa(i)
		if g.GID.IsZero() {
			continue
		}
		v.check((g.Type == GIDTypeIB) == (p.LinkLayer == InfiniBand) && g.Type <= GIDTypeRoCEv2, key, g.Type,
			"the link layer is %v", p.LinkLayer)
		v.check(g.VLAN >= 0 && g.VLAN <= MaxVLAN, key, g.VLAN, "want a VLAN from 1 to %d, 0 for none", MaxVLAN)
		if p.LinkLayer == Ethernet {
			v.check(validName(g.Netdev, maxNetdev), key, g.Netdev,
				"want up to %d characters: give the port a shorter netdev", maxNetdev)
			v.check((g.Netdev == p.Netdev) == (g.VLAN == 0), key, g.Netdev, "a VLAN has a netdev of its own")
		}
	}
}

// validName refuses whatever could lead out of a folder or is not a name in sysfs.
func validName(s string, limit int) bool {
	if s == "" || len(s) > limit || s[0] == '.' {
		return false
	}
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.') {
			return false
		}
	}
	return true
}

func validPCI(s string) bool {
	const form = "xxxx:xx:xx.x"
	if len(s) != len(form) {
		return false
	}
	for i := range len(form) {
		hex := s[i] >= '0' && s[i] <= '9' || s[i] >= 'a' && s[i] <= 'f'
		if hex != (form[i] == 'x') || !hex && s[i] != form[i] {
			return false
		}
	}
	return s[11] < '8' && (s[8] == '0' || s[8] == '1')
}

func printable(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return len(s) <= 63
}
