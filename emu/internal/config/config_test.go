package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDefault(t *testing.T) {
	c := Default()
	if err := c.Validate(); err != nil || len(c.Devices) != 1 {
		t.Fatalf("%d devices, %v", len(c.Devices), err)
	}
	d := c.Devices[0]
	if d.Name != "mlx5_0" || d.Model.Name != "ConnectX-7" || d.Model.PCI != 0x1021 || d.Limits != DefaultLimits() ||
		d.NUMANode != -1 {
		t.Errorf("%+v", d)
	}
	p := d.Ports[0]
	if p.LinkLayer != Ethernet || p.State != PortActive || p.PhysState != PhysLinkUp ||
		p.MAC.String() != "e4:1d:2d:e0:00:00" || p.RateText() != "400 Gb/sec (4X NDR)" {
		t.Errorf("%+v", p)
	}
	var got []string
	for _, g := range p.GIDs {
		got = append(got, fmt.Sprintf("%v %v %s %d", g.GID.IP(), g.Type, g.Netdev, g.VLAN))
	}
	want := []string{"fe80::e61d:2dff:fee0:0 RoCEv1 emu0 0", "fe80::e61d:2dff:fee0:0 RoCEv2 emu0 0",
		"10.88.0.1 RoCEv1 emu0 0", "10.88.0.1 RoCEv2 emu0 0", "fd00:88::1 RoCEv1 emu0 0", "fd00:88::1 RoCEv2 emu0 0",
		"fe80::e61d:2dff:fee0:0 RoCEv1 emu0.100 100",
		"fe80::e61d:2dff:fee0:0 RoCEv2 emu0.100 100"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParse(t *testing.T) {
	c, err := Parse([]string{
		"mlx5_0,model=ConnectX-6 Dx,guid=0x0001020304050607,fw=22.1.1,board=X,desc=left,pci=00E0:0A:1f.7," +
			"numa=1,max_qp=64,max_msg_size=0x10000,ports=2,mtu=4096,port=1,netdev=eth5,port=2,link=ib,lid=7," +
			"sm_lid=0x9,lmc=1,state=down,width=1X,speed=hdr,pkey=0xffff,pkey=0x8001",
		"rocep1s0,model=bf3,gid=fe80::1/v2,gid=::,gid=10.1.2.3,gid=2001:db8::1/v1@200,vlan=7," +
			"mac=02:00:00:00:00:01,gid_table_len=16,max_mtu=512,netdev=eth6",
	})
	if err != nil {
		t.Fatal(err)
	}
	a, b := &c.Devices[0], &c.Devices[1]
	if a.Model.PCI != 0x101d || a.NodeGUID != 0x0001020304050607 || a.FirmwareVersion != "22.1.1" || a.BoardID != "X" ||
		a.NodeDesc != "left" || a.PCI != "00e0:0a:1f.7" ||
		a.NUMANode != 1 || a.Limits.MaxQP != 64 || a.Limits.MaxMsgSize != 1<<16 ||
		a.Limits.MaxCQ != DefaultLimits().MaxCQ {
		t.Errorf("%+v", a)
	}
	if p := a.Ports[0]; p.ActiveMTU != MTU4096 || p.Netdev != "eth5" || p.NetdevMTU() != 9000 ||
		p.MAC != (MAC{0, 1, 2, 5, 6, 7}) || p.Speed != SpeedEDR {
		t.Errorf("%+v", p)
	}
	if p := a.Ports[1]; p.LinkLayer != InfiniBand || p.LID != 7 || p.SMLID != 9 || p.LMC != 1 || p.State != PortDown ||
		p.PhysState != PhysDisabled || p.RateText() != "50 Gb/sec (1X HDR)" ||
		p.PKeys[0] != 0xffff || p.PKeys[1] != 0x8001 || len(p.PKeys) != 128 ||
		p.GIDs[0].GID.String() != "fe80:0000:0000:0000:0001:0203:0405:0608" || p.GIDs[0].Type != GIDTypeIB {
		t.Errorf("%+v", p)
	}
	var got []string
	for _, g := range b.Ports[0].GIDs {
		got = append(got, fmt.Sprintf("%v %v %s", g.GID, g.Type, g.Netdev))
	}
	want := []string{
		"fe80:0000:0000:0000:0000:0000:0000:0001 RoCEv2 eth6", "0000:0000:0000:0000:0000:0000:0000:0000 IB ",
		"0000:0000:0000:0000:0000:ffff:0a01:0203 RoCEv1 eth6", "0000:0000:0000:0000:0000:ffff:0a01:0203 RoCEv2 eth6",
		"2001:0db8:0000:0000:0000:0000:0000:0001 RoCEv1 eth6.200",
		"fe80:0000:0000:0000:0000:00ff:fe00:0001 RoCEv1 eth6.7",
		"fe80:0000:0000:0000:0000:00ff:fe00:0001 RoCEv2 eth6.7"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if b.Ports[0].ActiveMTU != MTU512 || b.Ports[0].GIDTableLen != 16 || b.FirmwareVersion != "32.39.1002" {
		t.Errorf("%+v", b)
	}
}

// Each mistake is refused by an error that names the device, the key, the value and what would be right.
func TestParse_Errors(t *testing.T) {
	for spec, want := range map[string]string{
		"mlx5_0,model=cx3":                       "device mlx5_0: model=cx3: ",
		"mlx5_0,color=red":                       "color=red: no such key",
		"mlx5_0,link":                            "want KEY=VALUE",
		"mlx5_0,link=wifi":                       "link=wifi: want one of InfiniBand, Ethernet",
		"mlx5_0,ports=9":                         "ports=9: want 1 to 4 ports",
		"mlx5_0,port=2,lid=1":                    "port=2: the device has 1 ports: say ports=2",
		"mlx5_0,port=-1,lid=1":                   "port=-1: ",
		"mlx5_0,mtu=1500":                        "mtu=1500: want one of 256, 512, 1024, 2048, 4096",
		"mlx5_0,speed=fast":                      "want one of SDR, DDR",
		"mlx5_0,width=3X":                        "want one of 1X",
		"mlx5_0,state=sideways":                  "want up, down",
		"mlx5_0,gid=x":                           "gid=x: ",
		"mlx5_0,gid=fe80::1%eth0":                "neither an IPv6 nor an IPv4 address",
		"mlx5_0,gid=fe80::1/v3":                  `type "v3" is neither v1 nor v2`,
		"mlx5_0,gid=fe80::1@5000":                "want 1 to 4094",
		"mlx5_0,vlan=4095":                       "vlan=4095: want 1 to 4094",
		"mlx5_0,link=ib,gid=fe80::1/v2":          "GIDs without type and VLAN",
		"mlx5_0,guid=zz":                         "guid=zz: ",
		"mlx5_0,guid=0":                          "zero, or another device has it",
		"mlx5_0,mac=1:2":                         "six pairs",
		"mlx5_0,pci=01:00.0":                     "want DDDD:BB:DD.F",
		"mlx5_0,pci=0000:01:20.0":                "want DDDD:BB:DD.F",
		"mlx5_0,max_qp=0":                        "max_qp=0: want 1 to",
		"mlx5_0,max_qp_wr=65536":                 "want 1 to 32768",
		"mlx5_0,max_qp=many":                     "not a number that fits",
		"mlx5_0,max_luck=1":                      `limit "max_luck" is none of max_qp, `,
		"mlx5_0,max_msg_size=0x100000000":        "not a number that fits",
		"mlx5_0,numa=5000":                       "want -1 to 1023",
		"mlx5_0,cqe_version=2":                   "want 0 or 1",
		"mlx5_0,lid=70000":                       "not a number that fits",
		"mlx5_0,lid=0xffff":                      "unicast LID",
		"mlx5_0,link=ib,netdev=ib0":              "an InfiniBand port has none",
		"mlx5_0,link=ib,lid=0":                   "an active InfiniBand port has one",
		"mlx5_0,lmc=8":                           "want 0 to 7",
		"mlx5_0,pkey=0x10000":                    "pkey=0x10000: ",
		"mlx5_0,gid_table_len=4":                 "say gid_table_len=8",
		"mlx5_0,netdev=verylongnetdev12":         "up to 15",
		"mlx5_0,netdev=verylongnetd1":            "give the port a shorter netdev",
		"mlx5_0,ports=2,netdev=eth0":             "another port has it",
		"../../etc":                              "letters, digits",
		"":                                       "letters, digits",
		"mlx5_0,fw=1\n2":                         "printable",
		"mlx5_0,desc=" + strings.Repeat("x", 64): "printable",
	} {
		_, err := Parse([]string{spec})
		var ve *ValueError
		if !errors.As(err, &ve) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", spec, err, want)
		}
	}
	if _, err := Parse([]string{"a", "a"}); err == nil || !strings.Contains(err.Error(), "another device has it") {
		t.Errorf("two devices of one name: %v", err)
	}
	if _, err := Parse(make([]string, 33)); err == nil || !strings.Contains(err.Error(), "at most 32") {
		t.Errorf("too many devices: %v", err)
	}
}

func TestSetLimit(t *testing.T) {
	c, err := Parse([]string{"mlx5_0", "mlx5_1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"max_qp=64", "mlx5_1:max_cqe=0x10", "max_mr_size=4096"} {
		if err := c.SetLimit(s); err != nil {
			t.Error(err)
		}
	}
	a, b := c.Devices[0].Limits, c.Devices[1].Limits
	if a.MaxQP != 64 || b.MaxQP != 64 || a.MaxCQE != DefaultLimits().MaxCQE || b.MaxCQE != 16 || a.MaxMRSize != 4096 {
		t.Errorf("%+v\n%+v", a, b)
	}
	for _, s := range []string{"max_srq=0", "max_srq_wr=0"} { // of a device without SRQs
		if err := c.SetLimit(s); err != nil {
			t.Error(err)
		}
	}
	for s, want := range map[string]string{"max_qp=0": "want 1 to", "max_qp": "want NAME=NUMBER",
		"mlx5_9:max_qp=1": "no device mlx5_9",
		"max_x=1":         "none of", "max_sge=1000": "want 1 to 60"} {
		if err := c.SetLimit(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", s, err, want)
		}
	}
}

func TestNetdevs(t *testing.T) {
	c, err := Parse([]string{"mlx5_0,ports=2,netdev=lo,port=2,link=ib,netdev=", "mlx5_1,ports=2"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	seen := map[int]bool{}
	for _, n := range c.Netdevs() {
		got = append(got, fmt.Sprintf("%s parent=%s vlan=%d real=%v %d/%d", n.Name, n.Parent, n.VLAN, n.Real, n.Device,
			n.Port))
		if n.IfIndex <= 0 || seen[n.IfIndex] {
			t.Errorf("%s has index %d", n.Name, n.IfIndex)
		}
		seen[n.IfIndex] = true
	}
	want := []string{"lo parent= vlan=0 real=true 0/1", "lo.100 parent=lo vlan=100 real=false 0/1",
		"emu1 parent= vlan=0 real=false 1/1", "emu1.100 parent=emu1 vlan=100 real=false 1/1",
		"emu2 parent= vlan=0 real=false 1/2", "emu2.100 parent=emu2 vlan=100 real=false 1/2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestModels(t *testing.T) {
	for _, m := range models {
		for _, s := range []string{m.Name, m.Alias, strings.ToUpper(m.Name)} {
			if got, err := ModelByName(s); err != nil || got != m {
				t.Errorf("%s: %+v, %v", s, got, err)
			}
		}
		if got, ok := ModelByPCI(m.PCI); !ok || got != m {
			t.Errorf("%#x: %+v, %v", m.PCI, got, ok)
		}
		if _, err := Parse([]string{"mlx5_0,model=" + m.Alias}); err != nil {
			t.Error(err)
		}
	}
}

func TestStrings(t *testing.T) {
	for want, got := range map[string]fmt.Stringer{"InfiniBand": InfiniBand, "LinkLayer(9)": LinkLayer(9),
		"PortState(7)": PortState(7), "ARMED": PortArmed, "PhysState(0)": PhysState(0), "2048": MTU2048,
		"MTU(6)": MTU(6), "12X": Width12X, "Width(3)": Width(3), "XDR": SpeedXDR, "Speed(3)": Speed(3),
		"GIDType(3)": GIDType(3), "RoCEv2": GIDTypeRoCEv2} {
		if got.String() != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
	p := Port{Width: Width1X, Speed: SpeedSDR}
	if got := p.RateText(); got != "2.5 Gb/sec (1X SDR)" {
		t.Error(got)
	}
	s := Default().String()
	for _, want := range []string{"mlx5_0: ConnectX-7 (15b3:1021) at 00e0:01:00.0, uverbs0\n",
		"port 1: Ethernet ACTIVE LinkUp, 400 Gb/sec (4X NDR), mtu 1024 of 4096", "RoCEv2  emu0  10.88.0.1\n"} {
		if !strings.Contains(s, want) {
			t.Errorf("%q is not in\n%s", want, s)
		}
	}
}

// Whatever is said, it is parsed or refused; what is parsed is valid.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"mlx5_0", "mlx5_0,ports=2,port=2,link=ib", "x,gid=fe80::1/v2@5,vlan=3,pkey=1",
		"a,max_qp=0x10,mtu=4096,state=down"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := Parse([]string{s})
		if err == nil {
			err = c.Validate()
			_ = c.String()
		}
		var ve *ValueError
		if err != nil && !errors.As(err, &ve) {
			t.Errorf("%q: %v", s, err)
		}
	})
}
