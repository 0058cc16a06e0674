//go:build linux

package sysfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
)

// Device numbers of the kernel: uverbsN is 231:192+N, rdma_cm a misc device.
const (
	UverbsMajor = 231
	UverbsMinor = 192
	MiscMajor   = 10
)

// Tree is the folder and the table of paths that lead there. It is safe for concurrent use, but Close.
type Tree struct {
	// OnCounters, where set, is called before a path to the counters of a port is answered, so that they can be brought
	// up to date. OnPorts is called before any path to a port or to an interface is.
	OnCounters func(device, port int)
	OnPorts    func()

	root    string
	lock    *os.File // held while the folder is in use
	config  *config.Config
	exact   string            // a path that leads to the tree, without what is below it
	claims  []string          // canonical paths that lead to the tree, with all below them
	nodes   map[string]Target // device files, by canonical path
	devices []string          // /sys/devices/... of each device's PCI function
	netdevs []config.Netdev
	rdmacm  uint32 // minor
	devfs   unix.Stat_t
	dev     uint64 // of the folder's file system

	mu    sync.Mutex // guards what follows, and all changes of files
	gone  []bool
	built bool              // from now on files are replaced at once
	made  map[string]bool   // folders that are there
	last  map[string]uint64 // counters, by path
	err   error             // the first one while the tree is built
}

// New makes the folder. The configuration must be valid and not change afterwards.
func New(c *config.Config) (*Tree, error) {
	dir, lock, err := "", (*os.File)(nil), errors.ErrUnsupported
	if os.Getenv("TMPDIR") == "" {
		dir, lock, err = makeFolder("/dev/shm") // in memory it takes a tenth of the time
	}
	if err != nil {
		dir, lock, err = makeFolder(os.TempDir())
	}
	if err != nil {
		return nil, fmt.Errorf("make a folder for sysfs: %w: set TMPDIR to one that can be written", err)
	}
	t := &Tree{root: dir, lock: lock, config: c, netdevs: c.Netdevs(), gone: make([]bool, len(c.Devices))}
	t.nodes, t.made, t.last = map[string]Target{}, map[string]bool{}, map[string]uint64{}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		t.root = real // what /proc/PID/fd shows of it
	}
	var st unix.Stat_t
	_ = unix.Stat(t.root, &st)
	t.dev = st.Dev
	_ = unix.Stat("/dev", &t.devfs) // where there is none, its numbers are zero
	t.build()
	t.built = true
	if t.err != nil {
		return nil, errors.Join(fmt.Errorf("build sysfs: %w", t.err), t.Close())
	}
	return t, nil
}

// Root returns the folder.
func (t *Tree) Root() string { return t.root }

// Close removes the folder.
func (t *Tree) Close() error {
	defer t.lock.Close()
	return os.RemoveAll(t.root)
}

func (t *Tree) build() {
	t.dir("/scratch")
	t.rdmacm = 58
	for exists(fmt.Sprintf("/sys/dev/char/%d:%d", MiscMajor, t.rdmacm)) && t.rdmacm > 1 {
		t.rdmacm--
	}
	const cm = "/sys/devices/virtual/misc/rdma_cm"
	t.file(cm+"/abi_version", "4")
	t.node("misc", MiscMajor, t.rdmacm, cm, "\nDEVMODE=0666", Target{Kind: RDMACM})
	t.files("/sys/class/infiniband_verbs", "abi_version", "6")
	t.files("/sys/class/infiniband_mad", "abi_version", "5")
	t.dir("/sys/class/infiniband")
	t.dir("/sys/bus/pci/drivers/mlx5_core")
	// A name without slash at its end claims all that begins so: infiniband_verbs, infiniband_mad.
	t.claims = append(t.claims, "/sys/class/infiniband", "/sys/class/misc/rdma_cm/", cm+"/", "/dev/infiniband/",
		fmt.Sprintf("/dev/char/%d:", UverbsMajor), fmt.Sprintf("/sys/dev/char/%d:", UverbsMajor),
		fmt.Sprintf("/dev/char/%d:%d/", MiscMajor, t.rdmacm), fmt.Sprintf("/sys/dev/char/%d:%d/", MiscMajor, t.rdmacm))
	t.pci()
	if !exists("/sys/bus/pci/drivers/mlx5_core") {
		t.claims = append(t.claims, "/sys/bus/pci/drivers/mlx5_core/")
	}
	t.devices = make([]string, len(t.config.Devices))
	for i := len(t.devices) - 1; i >= 0; i-- { // tmpfs lists the newest entry first, and programs take the first device
		t.device(i, &t.config.Devices[i])
	}
	if !t.config.Host {
		t.loopback()
	}
	for _, n := range t.netdevs {
		t.netdev(n)
	}
}

const loopback = "/sys/devices/virtual/net/lo"

// loopback makes what every network has, and takes the lists of interfaces over: those of the machine are in another
// network.
func (t *Tree) loopback() {
	t.files(loopback, "address", "00:00:00:00:00:00", "mtu", "65536", "ifindex", "1", "iflink", "1", "addr_len", "6",
		"type", "772", "flags", "0x9", "dev_id", "0x0", "dev_port", "0", "operstate", "unknown", "carrier", "1",
		"uevent", "INTERFACE=lo\nIFINDEX=1")
	t.class("net", loopback)
	t.claims = append(t.claims, "/sys/class/net/", filepath.Dir(loopback)+"/")
}

func (t *Tree) device(i int, d *config.Device) {
	bus := "/sys/devices/pci" + d.PCI[:7] // a root bus of the device's own: no bridge of the machine comes into play
	base := bus + "/" + d.PCI
	t.devices[i] = base
	if exists("/sys/bus/pci/devices/"+d.PCI) || exists(base) {
		t.fail(fmt.Errorf("device %s: the machine has a PCI device %s: give the emulated one another address with pci=",
			d.Name, d.PCI))
		return
	}
	if exists(bus) {
		bus = base
	}
	t.claims = append(t.claims, bus+"/")
	t.link("/sys/bus/pci/devices/"+d.PCI, base)
	t.link("/sys/bus/pci/drivers/mlx5_core/"+d.PCI, base)
	t.link(base+"/driver", "/sys/bus/pci/drivers/mlx5_core")
	t.link(base+"/subsystem", "/sys/bus/pci")

	class, interf := "020000", "bc02sc00i00"
	if d.Ports[0].LinkLayer == config.InfiniBand {
		class, interf = "020700", "bc02sc07i00"
	}
	id := d.Model.PCI
	alias := fmt.Sprintf("pci:v%08Xd%08Xsv%08Xsd%08X%s", config.PCIVendor, id, config.PCIVendor, subsystem, interf)
	mask, list := cpus(d.NUMANode)
	t.files(base, "vendor", hex(config.PCIVendor), "device", hex(int(id)), "subsystem_vendor", hex(config.PCIVendor),
		"subsystem_device", hex(subsystem), "class", "0x"+class, "revision", "0x00", "modalias", alias, "numa_node",
		strconv.Itoa(d.NUMANode), "local_cpus", mask, "local_cpulist", list, "enable", "1", "irq", "0",
		"current_link_speed", "32.0 GT/s PCIe", "max_link_speed", "32.0 GT/s PCIe", "current_link_width", "16",
		"max_link_width", "16", "resource",
		strings.TrimSuffix(strings.Repeat("0x0000000000000000 0x0000000000000000 0x0000000000000000\n", 13), "\n"),
		"uevent", fmt.Sprintf("DRIVER=mlx5_core\nPCI_CLASS=%s\nPCI_ID=15B3:%04X\nPCI_SUBSYS_ID=15B3:%04X\n"+
			"PCI_SLOT_NAME=%s\nMODALIAS=%s",
			strings.ToUpper(strings.TrimPrefix(class, "0")), id, subsystem, d.PCI, alias))

	t.raw(base+"/config", pciHeader(id, class))

	uverbs := base + "/infiniband_verbs/uverbs" + strconv.Itoa(i)
	minor := uint32(UverbsMinor + i)
	t.files(uverbs, "ibdev", d.Name, "abi_version", "1")
	t.link(uverbs+"/device", base)
	t.node("infiniband_verbs", UverbsMajor, minor, uverbs, "\nDEVMODE=0666", Target{Kind: Uverbs, Device: i})

	ib := base + "/infiniband/" + d.Name
	t.files(ib, "node_type", "1: CA", "node_guid", d.NodeGUID.String(), "sys_image_guid", d.NodeGUID.String(), "fw_ver",
		d.FirmwareVersion, "hca_type", fmt.Sprintf("MT%d", id), "hw_rev", fmt.Sprintf("%x", d.Model.HWVer),
		"board_id", d.BoardID, "node_desc", d.NodeDesc,
		"uevent", "NAME="+d.Name)
	t.link(ib+"/device", base)
	t.class("infiniband", ib)
	for j := range d.Ports {
		t.umad(i, j)
		t.port(fmt.Sprintf("%s/ports/%d", ib, j+1), &d.Ports[j])
	}
}

// pci is the list of all PCI devices: the machine's own stay in it, and a program that sees no /sys, in a chroot, finds
// one.
func (t *Tree) pci() {
	const list = "/sys/bus/pci/devices"
	t.dir(list)
	t.exact = "/sys/bus/pci"
	t.claims = append(t.claims, list+"/")
	own, _ := os.ReadDir(machine + list) // none: there is nothing to keep
	for _, e := range own {
		t.outside(list+"/"+e.Name(), list+"/"+e.Name())
	}
}

func (t *Tree) port(dir string, p *config.Port) {
	t.files(dir, "state", stateText(p.State), "phys_state", physText(p.PhysState), "rate", p.RateText(), "link_layer",
		p.LinkLayer.String(), "lid", fmt.Sprintf("0x%x", p.LID), "sm_lid", fmt.Sprintf("0x%x", p.SMLID), "sm_sl",
		strconv.Itoa(int(p.SMSL)),
		"lid_mask_count", strconv.Itoa(int(p.LMC)), "cap_mask", fmt.Sprintf("0x%08x", p.CapFlags))
	for _, d := range []string{"/gid_attrs/types", "/gid_attrs/ndevs"} {
		t.dir(dir + d)
	}
	for i, g := range p.GIDs {
		t.gid(dir, i, g)
	}
	for i := len(p.GIDs); i < p.GIDTableLen; i++ {
		t.same(dir+"/gids/"+strconv.Itoa(i), config.Addr{}.String())
	}
	for i, k := range p.PKeys {
		t.same(dir+"/pkeys/"+strconv.Itoa(i), fmt.Sprintf("0x%04x", k))
	}
	for _, name := range counters {
		t.same(dir+"/counters/"+name, "0")
	}
	for _, name := range hwCounters {
		t.same(dir+"/hw_counters/"+name, "0")
	}
	t.file(dir+"/hw_counters/lifespan", "10")
}

// gid writes one entry. An empty one has no attributes: the kernel refuses to read them.
func (t *Tree) gid(dir string, i int, g config.GID) {
	n := strconv.Itoa(i)
	t.file(dir+"/gids/"+n, g.GID.String())
	if g.GID.IsZero() {
		t.remove(dir + "/gid_attrs/types/" + n)
		t.remove(dir + "/gid_attrs/ndevs/" + n)
		return
	}
	typ := "IB/RoCE v1"
	if g.Type == config.GIDTypeRoCEv2 {
		typ = "RoCE v2"
	}
	t.file(dir+"/gid_attrs/types/"+n, typ)
	if g.Netdev != "" {
		t.file(dir+"/gid_attrs/ndevs/"+n, g.Netdev)
	}
}

func (t *Tree) netdev(n config.Netdev) {
	base := t.devices[n.Device]
	dir := t.netdevDir(&n)
	switch {
	case n.Real && n.VLAN != 0:
		return
	case n.Real && t.config.Host: // the machine's own stays as it is
		t.outside(dir, "/sys/class/net/"+n.Name)
		return
	case n.Real:
		t.link(dir, loopback)
		return
	}
	p := &t.config.Devices[n.Device].Ports[n.Port-1]
	link, event := n.IfIndex, ""
	if n.VLAN != 0 {
		event = "DEVTYPE=vlan\n"
		for _, up := range t.netdevs {
			if up.Name == n.Parent {
				link = up.IfIndex
			}
		}
		if n.Parent != "lo" {
			t.link(dir+"/lower_"+n.Parent, base+"/net/"+n.Parent)
		}
	} else {
		t.link(dir+"/device", base)
	}
	t.files(dir, "address", n.MAC.String(), "mtu", strconv.Itoa(n.MTU), "ifindex", strconv.Itoa(n.IfIndex), "iflink",
		strconv.Itoa(link), "addr_len", "6", "type", "1", "flags", flags(true), "dev_id", "0x0", "dev_port",
		strconv.Itoa(n.Port-1), "duplex", "full", "speed", strconv.Itoa(p.Rate()*100), "operstate",
		operstate(p.State), "carrier", carrier(p.State),
		"uevent", fmt.Sprintf("%sINTERFACE=%s\nIFINDEX=%d", event, n.Name, n.IfIndex))
	t.class("net", dir)
}

// outside makes a link to what the machine has at a path.
func (t *Tree) outside(path, to string) {
	t.dir(filepath.Dir(path))
	real, err := filepath.EvalSymlinks(machine + to)
	if err != nil {
		return // it has just gone
	}
	t.fail(os.Symlink(real, t.root+path))
}

// class enters a device into its class.
func (t *Tree) class(class, dir string) {
	t.link("/sys/class/"+class+"/"+filepath.Base(dir), dir)
	t.link(dir+"/subsystem", "/sys/class/"+class)
}

// node makes a device of a class with what stands for its file: an ordinary one, for readdir to list.
func (t *Tree) node(class string, major, minor uint32, sys, event string, target Target) {
	dev := fmt.Sprintf("%d:%d", major, minor)
	file, char := "/dev/infiniband/"+filepath.Base(sys), "/dev/char/"+dev
	t.files(sys, "dev", dev,
		"uevent", fmt.Sprintf("MAJOR=%d\nMINOR=%d\nDEVNAME=infiniband/%s%s", major, minor, filepath.Base(sys), event))
	t.class(class, sys)
	t.file(file, "")
	t.link(char, file)
	t.link("/sys"+char, sys)
	target.RealPath = t.root + file
	t.nodes[file] = target
	target.RealPath, target.Link = t.root+char, true
	t.nodes[char] = target
}

// dropNode shows that one of uverbs' or umad's devices is gone.
func (t *Tree) dropNode(class, name string, minor int) {
	char := fmt.Sprintf("/dev/char/%d:%d", UverbsMajor, minor)
	for _, path := range []string{"/sys/class/" + class + "/" + name, "/dev/infiniband/" + name, char, "/sys" + char} {
		t.remove(path)
	}
}
