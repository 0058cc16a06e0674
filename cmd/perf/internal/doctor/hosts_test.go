package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/hostfacts"
	"github.com/pureverbs/pureverbs/internal/sysfs"
	"github.com/pureverbs/pureverbs/internal/sysfs/sysfstest"
)

// world is a machine that is built of parts.
type world struct {
	*bed
	nics      int
	addresses []string
	active    map[string]map[int]int // MTU by device and port
}

// part adds something to a machine, or changes it.
type part func(*world)

func newWorld(t *testing.T, parts []part) *world {
	w := &world{bed: newBare(t), active: map[string]map[int]int{}}
	w.tree.Mkdir("class/infiniband_verbs")
	w.MTUs = func(dev string) (map[int]int, error) { return w.active[dev], w.open }
	for _, p := range parts {
		p(w)
	}
	w.tree.Addresses(append(w.addresses, "lo 127.0.0.1/8")...)
	return w
}

// kind is a kind of adapter: PCI vendor and device, driver, link layers, and the PCIe link that it can have.
type kind struct {
	vendor, device, driver string
	speed                  float64
	width                  int
}

var kinds = map[string]kind{
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

type option func(*adapter)

// nic is an adapter of a kind, in a slot of its own unless an option puts it elsewhere.
func nic(of string, options ...option) part {
	return func(w *world) {
		k, ok := kinds[of]
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

func (w *world) plug(a *adapter, n int) {
	tr := w.tree
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
	w.active[a.name] = map[int]int{}
	for i, p := range a.ports {
		w.connect(a, i+1, p, where)
	}
}

// function writes what PCI knows.
func (w *world) function(a *adapter, where string) {
	tr, dir := w.tree, "devices/pci0000:00/"+a.slot+"/"
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

func (w *world) there(name string) bool {
	_, err := w.sysfs().Link(strings.Split(name, "/")...)
	return err == nil
}

// connect writes a port, its GIDs, its interfaces and their addresses.
func (w *world) connect(a *adapter, number int, p *wire, where string) {
	tr := w.tree
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
	w.active[a.name][number] = min(4096, largestMTU(p.mtu))
	if p.empty {
		return
	}
	if p.layer != sysfs.LinkEthernet || a.node != "1: CA" {
		w.active[a.name][number] = 4096
		tr.GID(a.name, number, 0, "fe80:0000:0000:0000:"+a.guid, sysfstest.V1, "")
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
			tr.GID(a.name, number, at, long(address), typ, netdev)
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
		gid(own, byMAC(mac))
		if p.v6 == "stable" {
			gid(own, "fe80::9f2c:1a3b:77aa:5d21")
		}
		w.has(own, mac, p.v6)
	}
	if p.above != "" {
		gid(top, byMAC(mac))
		w.has(top, mac, p.v6)
	}
	if at = max(at, p.index); p.address != "" {
		address, _, _ := strings.Cut(p.address, "/")
		gid(top, address)
		w.addresses = append(w.addresses, top+" "+p.address)
	}
}

// has gives an interface its link-local address.
func (w *world) has(netdev, mac, v6 string) {
	switch v6 {
	case "mac":
		w.addresses = append(w.addresses, netdev+" "+byMAC(mac)+"/64")
	case "stable":
		w.addresses = append(w.addresses, netdev+" fe80::9f2c:1a3b:77aa:5d21/64")
	}
}

func (w *world) netdev(name, mac, kind string, mtu int) {
	w.tree.Netdev(name, "up", "0x1003", 10+w.nics, mtu, kind)
	w.tree.Write("class/net/"+name+"/address", mac)
}

// port is an option that adds a port.
func port(p wire, changes []func(*wire)) option {
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

// ib is a port of InfiniBand.
func ib(rate string, changes ...func(*wire)) option {
	return port(wire{layer: sysfs.LinkInfiniBand, rate: rate, smLID: 1, pkeys: []string{"0xffff"}}, changes)
}

// roce is a port of RoCE, whose interface has an address: "10.0.0.1/24".
func roce(rate, address string, changes ...func(*wire)) option {
	return port(wire{layer: sysfs.LinkEthernet, rate: rate, address: address, mtu: 9000, v6: "mac",
		types: []string{sysfstest.V1, sysfstest.V2}}, changes)
}

// Options of adapters.
var (
	isVF = func(a *adapter) { a.function = "VF" }
	isSF = func(a *adapter) { a.function = "SF" }
)

func in(slot string) option     { return func(a *adapter) { a.slot = slot } }
func board(id string) option    { return func(a *adapter) { a.board = id } }
func imageGUID(g string) option { return func(a *adapter) { a.image = g } }
func nodeGUID(g string) option  { return func(a *adapter) { a.guid = g } }
func nodeType(n string) option  { return func(a *adapter) { a.node = n } }
func onNUMA(n int) option       { return func(a *adapter) { a.numa = n } }
func slow(gt float64, width int) option {
	return func(a *adapter) { a.speedNow, a.widthNow = gt, width }
}

// Changes of ports.
var (
	off6   = func(p *wire) { p.v6 = "off" }
	stable = func(p *wire) { p.v6 = "stable" }
	noGIDs = func(p *wire) { p.empty = true }
	onlyV2 = func(p *wire) { p.types = []string{sysfstest.V2} }
	onlyV1 = func(p *wire) { p.types = []string{sysfstest.V1} }
	unplug = func(p *wire) { p.state, p.phys = "1: DOWN", "2: Polling" }
	waits  = func(p *wire) { p.state = "2: INIT" }
)

func below(kind string) func(*wire)     { return func(p *wire) { p.above = kind } }
func frame(mtu int) func(*wire)         { return func(p *wire) { p.mtu = mtu } }
func subnet(smLID int) func(*wire)      { return func(p *wire) { p.smLID = smLID } }
func keys(k ...string) func(*wire)      { return func(p *wire) { p.pkeys = k } }
func count(c string, n int) func(*wire) { return func(p *wire) { p.counters[c] = n } }
func from(index int) func(*wire)        { return func(p *wire) { p.index = index } }

// Parts of machines.

// writes writes files of sysfs: path, text, path, text.
func writes(files ...string) part {
	return func(w *world) {
		for i := 0; i < len(files); i += 2 {
			w.tree.Write(files[i], files[i+1])
		}
	}
}

// proc writes files of procfs.
func proc(files ...string) part {
	return func(w *world) {
		for i := 0; i < len(files); i += 2 {
			w.bed.proc(files[i], files[i+1])
		}
	}
}

// foreign adds a GID of another network namespace at the end of the first device's table.
func foreign(address, netdev string) part {
	return func(w *world) { w.tree.GID("mlx5_0", 1, 90, long(address), sysfstest.V2, netdev) }
}

// given makes the machine a container that has these device files of its devices'.
func given(files ...string) part {
	return func(w *world) {
		w.Container = "/.dockerenv"
		w.Access = func(file string) error {
			for _, f := range append(files, "rdma_cm") {
				if path.Base(file) == f {
					return nil
				}
			}
			return &fs.PathError{Op: "open", Path: file, Err: fs.ErrNotExist}
		}
	}
}

// nodes are NUMA nodes.
func nodes(n int) part {
	return func(w *world) {
		for i := range n {
			w.tree.Mkdir(fmt.Sprintf("devices/system/node/node%d", i))
		}
	}
}

// without removes a file of sysfs.
func without(name string) part { return func(w *world) { w.tree.Remove(name) } }

// also changes anything.
func also(change func(*bed)) part { return func(w *world) { change(w.bed) } }

// each repeats a part.
func each(n int, of func(i int) part) part {
	return func(w *world) {
		for i := range n {
			of(i)(w)
		}
	}
}

// TestParts: a part that is added changes what it says, so that no test passes because of a part that does nothing.
func TestParts(t *testing.T) {
	w := newWorld(t, []part{nic("cx6dx", roce("100 Gb/sec (2X HDR)", "10.0.0.1/24", off6, below("vlan")), slow(8, 8)),
		nic("vf", isVF, ib("100 Gb/sec (4X EDR)", keys("0x7fff")), nodeGUID(noGUID))})
	r := Examine(w.Host, "perf")
	if len(r.Devices) != 2 {
		t.Fatalf("%+v", r.Devices)
	}
	a, b := r.Devices[0], r.Devices[1]
	if a.Model != "ConnectX-6 Dx" || a.Function != "PF" || a.PCI.Link.Width != 8 || a.PCI.Link.MaxWidth != 16 ||
		a.Links[0].Netdev != "eth3.vlan" || a.Links[0].Address != "10.0.0.1" || a.Links[0].MTU != 4096 ||
		a.Ports[0].RateBits != 100e9 {
		t.Errorf("%+v %+v", a, a.PCI.Link)
	}
	if b.Function != "VF" || b.NodeGUID != noGUID || b.Ports[0].LinkLayer != hostfacts.InfiniBand ||
		b.PCI.Link.Width != 0 {
		t.Errorf("%+v", b)
	}
}
