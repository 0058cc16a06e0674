package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Syntax describes the argument of [Parse] to people.
const Syntax = `NAME[,KEY=VALUE]...
  of the device: model=cx5|cx5ex|cx6|cx6dx|cx6lx|cx7|bf2|bf3 ports=N guid=GUID fw=VERSION board=PSID
                 pci=DDDD:BB:DD.F numa=N desc=TEXT cqe_version=0|1 dmabuf=memfd min_inline=0|18 devx=on|off lag=2
                 abi=write|ioctl|invoke|sandbox
                 and every limit: max_qp=64
  of its ports:  link=eth|ib state=up|down mtu=BYTES max_mtu=BYTES width=4X speed=NDR netdev=NAME mac=MAC
                 lid=N sm_lid=N lmc=N grh=required gid=ADDRESS[/v1|/v2][@VLAN] vlan=ID pkey=0xffff gid_table_len=N
  port=N         the keys that follow are those of port N alone
gid, vlan and pkey may be repeated. gid replaces the default table, gid=:: leaves an entry empty; an address
without type is entered for RoCE v1 and v2. vlan adds the link-local address of a VLAN netdev (default 100),
vlan=0 adds none.`

type setting struct {
	port       int // 0 = all
	key, value string
}

// portKeys set the value of a key in a port.
var portKeys = map[string]func(p *Port, v string) error{
	"link":  func(*Port, string) error { return nil }, // done when the port was made
	"state": setState,
	"mtu":   func(p *Port, v string) error { return parse(mtuNames, &p.ActiveMTU, v) },
	"max_mtu": func(p *Port, v string) error {
		err := parse(mtuNames, &p.MaxMTU, v)
		p.ActiveMTU = min(p.ActiveMTU, p.MaxMTU)
		return err
	},
	"width":         func(p *Port, v string) error { return parse(widthNames, &p.Width, v) },
	"speed":         func(p *Port, v string) error { return parse(speedNames, &p.Speed, v) },
	"netdev":        func(p *Port, v string) error { p.Netdev = v; return nil },
	"mac":           func(p *Port, v string) (err error) { p.MAC, err = ParseMAC(v); return err },
	"lid":           func(p *Port, v string) error { return number(v, &p.LID) },
	"sm_lid":        func(p *Port, v string) error { return number(v, &p.SMLID) },
	"lmc":           func(p *Port, v string) error { return number(v, &p.LMC) },
	"gid_table_len": func(p *Port, v string) error { return number(v, &p.GIDTableLen) },
	"grh": func(p *Port, v string) error {
		if p.NeedsGRH = v == "required"; !p.NeedsGRH {
			return errors.New("want required: no address without a GID, as on a VF")
		}
		return nil
	},
}

var deviceKeys = map[string]func(d *Device, v string) error{
	"model": func(d *Device, v string) (err error) {
		d.Model, err = ModelByName(v)
		d.FirmwareVersion, d.BoardID = d.Model.Firmware, d.Model.PSID
		return err
	},
	"guid":  func(d *Device, v string) (err error) { d.NodeGUID, err = ParseGUID(v); return err },
	"fw":    func(d *Device, v string) error { d.FirmwareVersion = v; return nil },
	"board": func(d *Device, v string) error { d.BoardID = v; return nil },
	"desc":  func(d *Device, v string) error { d.NodeDesc = v; return nil },
	"pci":   func(d *Device, v string) error { d.PCI = strings.ToLower(v); return nil },
	"numa":  func(d *Device, v string) error { return number(v, &d.NUMANode) },
	"dmabuf": func(d *Device, v string) error {
		if d.MemfdDmabuf = v == "memfd"; !d.MemfdDmabuf {
			return errors.New("want memfd: a memfd is then a dma-buf, too")
		}
		return nil
	},
	"devx": func(d *Device, v string) error {
		if d.NoDevX = v == "off"; !d.NoDevX && v != "on" {
			return errors.New("want on or off")
		}
		return nil
	},
	"abi": func(d *Device, v string) error { return parse(abiNames, &d.ABI, v) },
	"lag": func(d *Device, v string) error {
		if err := number(v, &d.LAGPorts); err != nil || d.LAGPorts != 2 {
			return errors.New("want 2: two ports that are one")
		}
		return nil
	},
	"min_inline":  func(d *Device, v string) error { return number(v, &d.MinInline) },
	"cqe_version": func(d *Device, v string) error { return number(v, &d.CQEVersion) },
	"ports": func(d *Device, v string) error {
		var n int
		if err := number(v, &n); err != nil || n < 1 || n > MaxPorts {
			return fmt.Errorf("want 1 to %d ports", MaxPorts)
		}
		d.Ports = make([]Port, n)
		return nil
	},
}

// Parse reads one device a string, in the form of [Syntax], and checks the whole. No string gives no device. Errors are
// [*ValueError], several joined.
func Parse(spec []string) (*Config, error) {
	c := &Config{}
	var errs []error
	netdevs := 0
	for i, s := range spec {
		d, err := parseDevice(s, i, &netdevs)
		errs = append(errs, err)
		c.Devices = append(c.Devices, d)
	}
	err := errors.Join(errs...)
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

func parseDevice(spec string, index int, netdevs *int) (Device, error) {
	d := newDevice(index)
	d.Ports = make([]Port, 1)
	var errs []error
	bad := func(s setting, err error) {
		if err != nil {
			errs = append(errs, &ValueError{Device: d.Name, Key: s.key, Value: s.value, Err: err})
		}
	}
	var settings []setting
	port := 0
	for i, item := range strings.Split(spec, ",") {
		key, value, ok := strings.Cut(item, "=")
		s := setting{port, key, value}
		switch {
		case i == 0 && !ok:
			d.Name = item
		case !ok:
			bad(s, errors.New("want KEY=VALUE"))
		case key == "port":
			bad(s, number(value, &port))
		case strings.HasPrefix(key, "max_") && key != "max_mtu":
			bad(s, d.Limits.Set(key, value))
		case deviceKeys[key] != nil:
			bad(s, deviceKeys[key](&d, value))
		case portKeys[key] != nil || slices.Contains(tableKeys, key):
			settings = append(settings, s)
		default:
			bad(s, errors.New("no such key"))
		}
	}
	for _, s := range settings {
		if s.port < 0 || s.port > len(d.Ports) {
			bad(setting{0, "port", strconv.Itoa(s.port)},
				fmt.Errorf("the device has %d ports: say ports=%d", len(d.Ports), s.port))
		}
	}
	for i := range d.Ports {
		d.parsePort(settings, index, i+1, netdevs, bad)
	}
	return d, errors.Join(errs...)
}

// tableKeys fill tables that depend on the other keys of the port.
var tableKeys = []string{"gid", "vlan", "pkey"}

func (d *Device) parsePort(all []setting, device, number int, netdevs *int, bad func(setting, error)) {
	link := Ethernet
	var own []setting
	for _, s := range all {
		if s.port != 0 && s.port != number {
			continue
		}
		own = append(own, s)
		if s.key == "link" {
			switch fold(s.value) {
			case "ib":
				link = InfiniBand
			case "eth":
				link = Ethernet
			default:
				bad(s, parse(linkNames, &link, s.value))
			}
		}
	}
	p := &d.Ports[number-1]
	*p = newPort(d, device, number, link)
	if link == Ethernet {
		p.Netdev = fmt.Sprintf("emu%d", *netdevs)
		*netdevs++
	}
	for _, s := range own {
		if set := portKeys[s.key]; set != nil {
			bad(s, set(p, s.value))
		}
	}
	vlans, pkeys := []int{100}, 0
	for _, s := range own {
		switch s.key {
		case "gid":
			bad(s, p.parseGID(s.value))
		case "pkey":
			if pkeys == len(p.PKeys) {
				p.PKeys = append(p.PKeys, 0)
			}
			bad(s, number16(s.value, &p.PKeys[pkeys]))
			pkeys++
		}
	}
	if p.GIDs == nil {
		p.defaultGIDs(d, device, number)
	} else {
		vlans = nil
	}
	said := false
	for _, s := range own {
		if s.key == "vlan" {
			var id int
			if err := number16(s.value, &id); err != nil || id > MaxVLAN {
				bad(s, fmt.Errorf("want 1 to %d, or 0 for none", MaxVLAN))
			}
			if !said {
				vlans, said = nil, true
			}
			vlans = append(vlans, id)
		}
	}
	for _, id := range vlans {
		if id != 0 && link == Ethernet {
			p.addGID(p.MAC.LinkLocal(), "", id)
		}
	}
}

// parseGID reads ADDRESS[/v1|/v2][@VLAN].
func (p *Port) parseGID(v string) error {
	v, vlan, tagged := strings.Cut(v, "@")
	addr, typ, _ := strings.Cut(v, "/")
	id := 0
	if tagged {
		if err := number16(vlan, &id); err != nil || id < 1 || id > MaxVLAN {
			return fmt.Errorf("vlan %q: want 1 to %d", clip(vlan), MaxVLAN)
		}
	}
	a, err := ParseAddr(addr)
	switch {
	case err != nil:
		return err
	case p.LinkLayer == InfiniBand && (tagged || typ != "" && typ != "ib"):
		return errors.New("a port with link=ib has GIDs without type and VLAN")
	case p.LinkLayer == Ethernet && typ != "" && typ != "v1" && typ != "v2":
		return fmt.Errorf("type %q is neither v1 nor v2", clip(typ))
	}
	p.addGID(a, typ, id)
	return nil
}

func setState(p *Port, v string) error {
	switch s := fold(v); s {
	case "up", "down":
		p.State, p.PhysState = PortStates(s == "up")
	default:
		if parse(stateNames, &p.State, v) != nil {
			return errors.New("want up, down, init, armed or active")
		}
	}
	return nil
}

// Set changes a limit by its name, as in max_qp=64.
func (l *Limits) Set(key, value string) error {
	v := reflect.ValueOf(l).Elem()
	var names []string
	for i := range v.NumField() {
		n := v.Type().Field(i).Tag.Get("limit")
		if n != key {
			names = append(names, n)
			continue
		}
		return setLimit(v.Field(i), value)
	}
	return fmt.Errorf("limit %q is none of %s", clip(key), strings.Join(names, ", "))
}

func setLimit(f reflect.Value, value string) error {
	u, err := strconv.ParseUint(value, 0, 64)
	if f.CanInt() && err == nil && u <= 1<<31 {
		f.SetInt(int64(u))
	} else if f.CanUint() && err == nil && !f.OverflowUint(u) {
		f.SetUint(u)
	} else {
		return fmt.Errorf("%q is not a number that fits", clip(value))
	}
	return nil
}

// SetLimit changes a limit of all devices, or of one: max_qp=64, mlx5_1:max_qp=64.
func (c *Config) SetLimit(s string) error {
	key, value, ok := strings.Cut(s, "=")
	dev, name, one := strings.Cut(key, ":")
	if !one {
		dev, name = "", key
	}
	err := errors.New("want NAME=NUMBER")
	if ok {
		err = fmt.Errorf("there is no device %s", clip(dev))
		for i := range c.Devices {
			if d := &c.Devices[i]; dev == "" || d.Name == dev {
				if err = d.Limits.Set(name, value); err != nil {
					break
				}
			}
		}
	}
	if err != nil {
		return &ValueError{Device: dev, Key: name, Value: value, Err: err}
	}
	return c.Validate()
}

type integer interface {
	~int | ~uint8 | ~uint16
}

// number reads a decimal, 0x or negative number that fits.
func number[T integer](s string, v *T) error {
	n, err := strconv.ParseInt(s, 0, 32)
	if err != nil || int64(T(n)) != n {
		return fmt.Errorf("%q is not a number that fits", clip(s))
	}
	*v = T(n)
	return nil
}

func number16[T integer](s string, v *T) error {
	n, err := strconv.ParseUint(s, 0, 16)
	if err != nil {
		return fmt.Errorf("%q is not a number from 0 to 0xffff", clip(s))
	}
	*v = T(n)
	return nil
}
