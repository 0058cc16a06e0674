package sysfstest

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// World is a host that is built of parts, in a tree of sysfs.
type World struct {
	*Tree
	Addrs []string               // of the interfaces, for Addresses
	MTUs  map[string]map[int]int // what the ports' interfaces have, by device and port
	nics  int
}

// Part adds something to a host, or changes it.
type Part func(*World)

// NewWorld adds parts to a tree.
func NewWorld(tr *Tree) *World {
	tr.Mkdir("class/infiniband_verbs")
	return &World{Tree: tr, MTUs: map[string]map[int]int{}}
}

// enough is an MTU that is no limit.
const enough = 1 << 16

// Long is an address as the kernel writes a GID.
func Long(address string) string {
	return netip.AddrFrom16(netip.MustParseAddr(address).As16()).StringExpanded()
}

// ByMAC is the link-local address of a MAC.
func ByMAC(mac string) string {
	w := strings.Split(mac, ":")
	return netip.MustParseAddr(fmt.Sprintf("fe80::%s%s:%sff:fe%s:%s%s", "0e", w[1], w[2], w[3], w[4], w[5])).String()
}

// kind is a kind of adapter: PCI vendor and device, driver, link layers, and the PCIe link that it can have.
type kind struct {
	vendor, device, driver string
	speed                  float64
	width                  int
}

// Kinds are the kinds of adapters.
var Kinds = map[string]kind{
	"cx3":    {"15b3", "1003", "mlx4_core", 8, 8},
	"cib":    {"15b3", "1011", "mlx5_core", 8, 16},
	"cx4":    {"15b3", "1013", "mlx5_core", 8, 16},
	"cx4lx":  {"15b3", "1015", "mlx5_core", 8, 8},
	"cx5":    {"15b3", "1017", "mlx5_core", 8, 16},
	"cx5ex":  {"15b3", "1019", "mlx5_core", 16, 16},
	"cx6":    {"15b3", "101b", "mlx5_core", 16, 16},
	"cx6dx":  {"15b3", "101d", "mlx5_core", 16, 16},
	"vf":     {"15b3", "101e", "mlx5_core", 0, 0},
	"cx6lx":  {"15b3", "101f", "mlx5_core", 16, 8},
	"cx7":    {"15b3", "1021", "mlx5_core", 32, 16},
	"cx8":    {"15b3", "1023", "mlx5_core", 64, 16},
	"bf2":    {"15b3", "a2d6", "mlx5_core", 16, 16},
	"bf3":    {"15b3", "a2dc", "mlx5_core", 32, 16},
	"x722":   {"8086", "37d0", "i40e", 0, 0}, // in the chipset
	"e810":   {"8086", "1592", "ice", 16, 16},
	"e810xx": {"8086", "159b", "ice", 8, 8},
	"bcm574": {"14e4", "16d7", "bnxt_en", 8, 8},
	"bcm575": {"14e4", "1750", "bnxt_en", 16, 16},
	"bcm576": {"14e4", "1760", "bnxt_en", 32, 16},
	"efa":    {"1d0f", "efa2", "efa", 2.5, 1}, // the hypervisor's
	"hns":    {"19e5", "a222", "hns3", 0, 0},  // in the processor
	"ionic":  {"1dd8", "1002", "ionic", 32, 16},
	"mana":   {"1414", "00ba", "mana", 0, 0},
	"erdma":  {"1ded", "107f", "erdma", 2.5, 1},
	"opa":    {"8086", "24f0", "hfi1", 8, 16},
	"chelsi": {"1425", "6401", "cxgb4", 8, 16},
	"qede":   {"1077", "8070", "qede", 8, 8},
	"soft":   {},
}

// adapter is one function of an adapter, which is one RDMA device.
type adapter struct {
	kind
	name, slot, function, board, guid, image string
	node                                     string // its type
	speedNow                                 float64
	widthNow, numa                           int
	ports                                    []*wire
}

// wire is a port.
type wire struct {
	layer, rate, state, phys, address string
	mtu, smLID                        int
	pkeys                             []string
	counters                          map[string]int
	v6                                string // mac: the link-local address is that of the MAC; stable; off
	types                             []string
	above                             string // the kind of an interface above, which has the address
	empty                             bool
	index                             int // of the address' first GID
}

// Option changes an adapter.
type Option func(*adapter)

// NIC is an adapter of a kind, in a slot of its own unless an option puts it elsewhere.
func NIC(of string, options ...Option) Part {
	return func(w *World) {
		k, ok := Kinds[of]
		if !ok {
			panic(of)
		}
		n := w.nics
		w.nics++
		a := &adapter{kind: k, name: fmt.Sprintf("mlx5_%d", n), slot: fmt.Sprintf("0000:%02x:00.0", 0x10+n),
			board: "MT_1", guid: fmt.Sprintf("0c42:a103:0000:%04x", n+1), node: "1: CA", speedNow: k.speed,
			widthNow: k.width}
		for _, o := range options {
			o(a)
		}
		w.plug(a, n)
	}
}

func (w *World) plug(a *adapter, n int) {
	tr := w.Tree
	where := ""
	if a.driver != "" {
		where = "pci0000:00/" + a.slot
		if a.function == "SF" {
			where += fmt.Sprintf("/mlx5_core.sf.%d", n)
			a.driver += ".sf"
		}
	}
	tr.Device(a.name, where, a.driver, a.guid)
	class := "class/infiniband/" + a.name + "/"
	tr.Write(class+"node_type", a.node)
	tr.Write(class+"board_id", a.board)
	if a.image != "" {
		tr.Write(class+"sys_image_guid", a.image)
	}
	tr.Write(fmt.Sprintf("class/infiniband_verbs/uverbs%d/ibdev", n), a.name)
	if a.driver != "" {
		w.function(a, where)
	}
	w.MTUs[a.name] = map[int]int{}
	for i, p := range a.ports {
		w.connect(a, i+1, p, where)
	}
}

// function writes what PCI knows.
func (w *World) function(a *adapter, where string) {
	tr, dir := w.Tree, "devices/pci0000:00/"+a.slot+"/"
	link := func(gt float64, width int) (string, string) {
		if gt == 0 {
			return "Unknown", "0"
		}
		return fmt.Sprintf("%.1f GT/s PCIe", gt), fmt.Sprint(width)
	}
	speed, width := link(a.speedNow, a.widthNow)
	most, wide := link(a.speed, a.width)
	for name, text := range map[string]string{"vendor": "0x" + a.vendor, "device": "0x" + a.device, "class": "0x020000",
		"current_link_speed": speed, "current_link_width": width, "max_link_speed": most, "max_link_width": wide,
		"numa_node": fmt.Sprint(a.numa)} {
		tr.Write(dir+name, text)
	}
	if a.function != "SF" || !w.there("bus/pci/devices/"+a.slot) {
		tr.Symlink("../../../devices/pci0000:00/"+a.slot, "bus/pci/devices/"+a.slot)
	}
	if a.function == "VF" {
		tr.Symlink("../0000:01:00.0", dir+"physfn")
	}
}

func (w *World) there(name string) bool {
	_, err := os.Lstat(filepath.Join(w.Root, name))
	return err == nil
}

// connect writes a port, its GIDs, its interfaces and their addresses.
func (w *World) connect(a *adapter, number int, p *wire, where string) {
	tr := w.Tree
	tr.Port(a.name, number, p.state, p.layer, p.rate, 0)
	dir := fmt.Sprintf("class/infiniband/%s/ports/%d/", a.name, number)
	tr.Mkdir(dir + "gids")
	tr.Write(dir+"phys_state", p.phys)
	tr.Write(dir+"sm_lid", fmt.Sprintf("0x%x", p.smLID))
	for i, k := range p.pkeys {
		tr.Write(fmt.Sprintf("%spkeys/%d", dir, i), k)
	}
	for c, v := range p.counters {
		tr.Write(dir+"counters/"+c, fmt.Sprint(v))
	}
	w.MTUs[a.name][number] = p.mtu
	if p.empty {
		return
	}
	if p.layer != "Ethernet" || a.node != "1: CA" {
		w.MTUs[a.name][number] = enough
		tr.GID(a.name, number, 0, "fe80:0000:0000:0000:"+a.guid, V1, "")
		return
	}
	mac := fmt.Sprintf("0c:42:a1:%02x:%02x:01", w.nics, number)
	own := fmt.Sprintf("eth%d", 2*w.nics+number)
	if where != "" {
		tr.Mkdir("devices/" + where + "/net/" + own)
	}
	w.netdev(own, mac, "", p.mtu)
	at := 0
	gid := func(netdev, address string) {
		for _, typ := range p.types {
			tr.GID(a.name, number, at, Long(address), typ, netdev)
			at++
		}
	}
	top := own
	if p.above != "" {
		if top = own + "." + p.above; p.above == "bond" {
			top = "bond" + own // the entries are the bond's, and none is the slave's
		}
		w.netdev(top, mac, p.above, p.mtu)
	}
	if p.above != "bond" {
		gid(own, ByMAC(mac))
		if p.v6 == "stable" {
			gid(own, "fe80::9f2c:1a3b:77aa:5d21")
		}
		w.has(own, mac, p.v6)
	}
	if p.above != "" {
		gid(top, ByMAC(mac))
		w.has(top, mac, p.v6)
	}
	if at = max(at, p.index); p.address != "" {
		address, _, _ := strings.Cut(p.address, "/")
		gid(top, address)
		w.Addrs = append(w.Addrs, top+" "+p.address)
	}
}

// has gives an interface its link-local address.
func (w *World) has(netdev, mac, v6 string) {
	switch v6 {
	case "mac":
		w.Addrs = append(w.Addrs, netdev+" "+ByMAC(mac)+"/64")
	case "stable":
		w.Addrs = append(w.Addrs, netdev+" fe80::9f2c:1a3b:77aa:5d21/64")
	}
}

func (w *World) netdev(name, mac, kind string, mtu int) {
	w.Tree.Netdev(name, "up", "0x1003", 10+w.nics, mtu, kind)
	w.Tree.Write("class/net/"+name+"/address", mac)
}

// Port is an Option that adds a port.
func Port(p wire, changes []func(*wire)) Option {
	return func(a *adapter) {
		p := p
		p.state, p.phys = "4: ACTIVE", "5: LinkUp"
		p.counters = map[string]int{"symbol_error": 0, "link_downed": 0}
		for _, c := range changes {
			c(&p)
		}
		a.ports = append(a.ports, &p)
	}
}

// IB is a port of InfiniBand.
func IB(rate string, changes ...func(*wire)) Option {
	return Port(wire{layer: "InfiniBand", rate: rate, smLID: 1, pkeys: []string{"0xffff"}}, changes)
}

// RoCE is a port of RoCE, whose interface has an address: "10.0.0.1/24".
func RoCE(rate, address string, changes ...func(*wire)) Option {
	return Port(wire{layer: "Ethernet", rate: rate, address: address, mtu: 9000, v6: "mac",
		types: []string{V1, V2}}, changes)
}

// Options of adapters.
var (
	IsVF = func(a *adapter) { a.function = "VF" }
	IsSF = func(a *adapter) { a.function = "SF" }
)

// In puts the adapter into a slot.
func In(slot string) Option { return func(a *adapter) { a.slot = slot } }

// Board is the board ID.
func Board(id string) Option { return func(a *adapter) { a.board = id } }

// ImageGUID is the system image GUID.
func ImageGUID(g string) Option { return func(a *adapter) { a.image = g } }

// NodeGUID is the node GUID.
func NodeGUID(g string) Option { return func(a *adapter) { a.guid = g } }

// NodeType is the type of the node, as the kernel writes it.
func NodeType(n string) Option { return func(a *adapter) { a.node = n } }

// OnNUMA is the NUMA node.
func OnNUMA(n int) Option { return func(a *adapter) { a.numa = n } }

// Slow is the PCIe link as it is.
func Slow(gt float64, width int) Option {
	return func(a *adapter) { a.speedNow, a.widthNow = gt, width }
}

// Changes of ports.
var (
	Off6   = func(p *wire) { p.v6 = "off" }
	Stable = func(p *wire) { p.v6 = "stable" }
	NoGIDs = func(p *wire) { p.empty = true }
	OnlyV2 = func(p *wire) { p.types = []string{V2} }
	OnlyV1 = func(p *wire) { p.types = []string{V1} }
	Unplug = func(p *wire) { p.state, p.phys = "1: DOWN", "2: Polling" }
	Waits  = func(p *wire) { p.state = "2: INIT" }
)

// Below has the address on an interface above the own one, of a kind.
func Below(kind string) func(*wire) { return func(p *wire) { p.above = kind } }

// Frame is the MTU of the interface.
func Frame(mtu int) func(*wire) { return func(p *wire) { p.mtu = mtu } }

// Subnet is the LID of the subnet manager.
func Subnet(smLID int) func(*wire) { return func(p *wire) { p.smLID = smLID } }

// Keys are the P_Keys.
func Keys(k ...string) func(*wire) { return func(p *wire) { p.pkeys = k } }

// Count is the value of a counter.
func Count(c string, n int) func(*wire) { return func(p *wire) { p.counters[c] = n } }

// From is the index of the first GID of the address.
func From(index int) func(*wire) { return func(p *wire) { p.index = index } }

// Rates are the texts of a port's rate that adapters show, and the Kinds that do. Sources: names and lanes are those of
// Linux' core/sysfs.c; what InfiniBand cards have is in the user manuals of the ConnectX, BlueField and Omni-Path
// generations; on Ethernet mlx5/main.c (translate_eth_…_proto_oper), core/verbs.c (ib_get_eth_speed, for irdma,
// bnxt_re, hns, ionic, mana, rxe), qedr/verbs.c and efa_verbs.c make them from the interface's rate.
var Rates = []struct{ Layer, Rate, Kinds string }{
	{"ib", "10 Gb/sec (4X SDR)", "cx3"},
	{"ib", "10 Gb/sec (4X)", "cx3"}, // before Linux 4.2
	{"ib", "20 Gb/sec (4X DDR)", "cx3"},
	{"ib", "40 Gb/sec (4X QDR)", "cx3 cib cx4 cx5"},
	{"ib", "40 Gb/sec (4X FDR10)", "cx3 cib cx4"},
	{"ib", "56 Gb/sec (4X FDR)", "cx3 cib cx4 cx5 cx6"},
	{"ib", "100 Gb/sec (4X EDR)", "cx4 cx5 cx5ex cx6 cx7 bf2 opa"},
	{"ib", "100 Gb/sec (2X HDR)", "cx6 cx7 bf2 bf3"},
	{"ib", "200 Gb/sec (4X HDR)", "cx6 cx7 bf2 bf3"},
	{"ib", "200 Gb/sec (2X NDR)", "cx7 cx8 bf3"},
	{"ib", "400 Gb/sec (4X NDR)", "cx7 cx8 bf3"},
	{"ib", "400 Gb/sec (2X XDR)", "cx8"},
	{"ib", "800 Gb/sec (8X NDR)", "cx8"},
	{"ib", "800 Gb/sec (4X XDR)", "cx8"},
	{"roce", "2.5 Gb/sec (1X SDR)", "x722 soft"}, // 1 Gb/s, or not known
	{"roce", "10 Gb/sec (1X QDR)", "cx4lx cx5 cx6dx cx6lx cx7 bf2"},
	{"roce", "10 Gb/sec (1X FDR10)", "x722 bcm574 soft"},
	{"roce", "25 Gb/sec (1X EDR)", "cx4lx cx5 cx6dx cx6lx cx7 bf2 bf3 e810xx bcm574 hns ionic qede"},
	{"roce", "40 Gb/sec (4X QDR)", "cx3 cx4lx cx5 qede"},
	{"roce", "40 Gb/sec (4X FDR10)", "bcm574"},
	{"roce", "50 Gb/sec (1X HDR)", "cx4lx cx6lx cx6dx cx7"},
	{"roce", "50 Gb/sec (2X EDR)", "cx5 cx6dx cx7 bcm574 bcm575"},
	{"roce", "56 Gb/sec (4X FDR)", "cx4"},
	{"roce", "100 Gb/sec (4X EDR)", "cx4 cx5 cx5ex cx6 cx6dx cx7 bf2 bf3 e810 bcm575 hns mana"},
	{"roce", "100 Gb/sec (2X HDR)", "cx6dx cx7 bf2 bcm575"},
	{"roce", "100 Gb/sec (1X NDR)", "cx7 bf3"},
	{"roce", "200 Gb/sec (4X HDR)", "cx6 cx6dx cx7 bf2 bf3 bcm575 bcm576 mana hns"},
	{"roce", "200 Gb/sec (2X NDR)", "cx7 cx8 bf3"},
	{"roce", "200 Gb/sec (1X XDR)", "cx8"},
	{"roce", "400 Gb/sec (4X NDR)", "cx7 cx8 bf3 bcm576 ionic"},
	{"roce", "400 Gb/sec (8X HDR)", "cx8"},
	{"roce", "400 Gb/sec (2X XDR)", "cx8"},
	{"roce", "800 Gb/sec (8X NDR)", "cx8"},
	{"roce", "800 Gb/sec (4X XDR)", "cx8"},
	{"efa", "100 Gb/sec (4X EDR)", "efa"},
	{"efa", "200 Gb/sec (4X HDR)", "efa"},
	{"efa", "400 Gb/sec (8X HDR)", "efa"},
	{"iwarp", "25 Gb/sec (1X EDR)", "e810xx erdma"},
	{"iwarp", "100 Gb/sec (4X EDR)", "e810 erdma chelsi"},
	{"iwarp", "2.5 Gb/sec (1X SDR)", "soft x722"},
}

// Plain returns an adapter with one port.
func Plain(layer, rate, of string) Part {
	switch layer {
	case "ib":
		return NIC(of, IB(rate))
	case "efa": // its link layer is not specified
		return NIC(of, Port(wire{layer: "Unknown", rate: rate}, nil), NodeType("8: unspecified"), OnNUMA(-1))
	case "iwarp":
		return NIC(of, RoCE(rate, ""), NodeType("4: RNIC"))
	}
	return NIC(of, RoCE(rate, "10.0.0.1/24"))
}
