package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Link layers of a port, as the kernel writes them.
const (
	LinkInfiniBand = "InfiniBand"
	LinkEthernet   = "Ethernet"
)

// StateActive is the name of the state in which a port carries traffic.
const StateActive = "ACTIVE"

// Device is an RDMA device as described by sysfs. Texts that the kernel does not provide are empty.
// A Device is a value and holds no open file.
type Device struct {
	Name            string
	NodeType        int // C: enum ibv_node_type, -1 unknown
	NodeTypeName    string
	NodeGUID        string // 0011:2233:4455:6677
	SystemImageGUID string
	NodeDescription string
	FirmwareVersion string
	HCAType         string
	BoardID         string
	Driver          string
	PCIAddress      string // 0000:3b:00.0
	NUMANode        int    // -1 unknown
	Uverbs          string // name in /dev/infiniband
	Ports           []Port

	// Unread has what could not be read, or does not have the kernel's form. What a kernel, a driver or a device does
	// not have is not in it.
	Unread []*fs.PathError
}

// Emulated reports whether the device is one of the emulator, whose figures say nothing about a NIC.
func (d *Device) Emulated() bool { return d.NodeDescription == "emulated" }

// Port is one port of a [Device].
type Port struct {
	Number        int
	State         int    // C: enum ibv_port_state, -1 unknown
	StateName     string // ACTIVE, DOWN, ...
	PhysState     int
	PhysStateName string // LinkUp, Disabled, ...
	LinkLayer     string // InfiniBand, Ethernet
	Rate          string // 100 Gb/sec (4X EDR)
	RateBits      int64
	LID           uint16
	SMLID         uint16
	GIDTableLen   int
}

// DeviceNames returns the names of the RDMA devices in numeric order: mlx5_2 before mlx5_10. The
// error is fs.ErrNotExist if the kernel has no RDMA support.
func (r Root) DeviceNames() ([]string, error) {
	d, err := openDir(r.ClassDir())
	if err != nil {
		return nil, err
	}
	defer d.close()
	names, err := d.names()
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(s string) bool { return !validName(s) || s[0] == '.' })
	slices.SortFunc(names, NaturalCompare)
	return names, nil
}

// Devices reads all devices, in numeric order. A device that vanishes while it is read is omitted.
// One that cannot be read for another reason is an error; the others are returned with it, unless
// descriptors or memory are short. Other errors are those of [Root.DeviceNames].
func (r Root) Devices() ([]Device, error) {
	names, err := r.DeviceNames()
	if err != nil {
		return nil, err
	}
	uverbs, unread, err := r.uverbs()
	if err != nil {
		return nil, err
	}
	out := make([]Device, 0, len(names))
	var errs []error
	for _, name := range names {
		dev, err := r.device(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
			continue
		} else if Exhausted(err) {
			return nil, err
		} else if err != nil {
			errs = append(errs, fmt.Errorf("RDMA device %s: %w", name, err))
			continue
		}
		dev.file(uverbs, unread)
		out = append(out, dev)
	}
	return out, errors.Join(errs...)
}

// Device reads one device. The error is fs.ErrNotExist if there is none of that name.
func (r Root) Device(name string) (Device, error) {
	dev, err := r.device(name)
	if err != nil {
		return Device{}, err
	}
	uverbs, unread, err := r.uverbs()
	if err != nil {
		return Device{}, err
	}
	dev.file(uverbs, unread)
	return dev, nil
}

// file fills in the character device of the device. One whose device cannot be read may be that of any.
func (d *Device) file(uverbs map[string]string, unread []*fs.PathError) {
	if d.Uverbs = uverbs[d.Name]; d.Uverbs == "" {
		d.Unread = append(d.Unread, unread...)
	}
}

func (r Root) device(name string) (Device, error) {
	if !validName(name) {
		return Device{}, badName("device", name)
	}
	d, err := openDir(r.path("class", "infiniband", name))
	if err != nil {
		return Device{}, err
	}
	defer d.close()
	var unread []*fs.PathError
	d.unread = &unread
	dev := Device{
		Name:            name,
		NodeGUID:        d.guid("node_guid"),
		SystemImageGUID: d.guid("sys_image_guid"),
		NodeDescription: strings.TrimSpace(d.optional("node_desc")),
		FirmwareVersion: strings.TrimSpace(d.optional("fw_ver")),
		HCAType:         strings.TrimSpace(d.optional("hca_type")),
		BoardID:         strings.TrimSpace(d.optional("board_id")),
		NUMANode:        -1,
		Ports:           []Port{},
	}
	dev.NodeType, dev.NodeTypeName = d.named("node_type")
	d.bus(&dev)

	if d.failed != nil {
		return Device{}, d.failed
	}
	ports, err := d.sub("ports")
	if errors.Is(err, fs.ErrNotExist) {
		dev.Unread = unread
		return dev, nil
	} else if err != nil {
		return Device{}, err
	}
	defer ports.close()
	nums, err := ports.indices()
	if err != nil {
		return Device{}, err
	}
	for _, n := range nums {
		p, err := ports.sub(strconv.Itoa(n))
		if err == nil {
			var port Port
			port, err = p.port(n)
			dev.Ports = append(dev.Ports, port)
			p.close()
		}
		if Exhausted(err) {
			return Device{}, err
		} else if !Absent(err) {
			ports.note(err)
		}
	}
	dev.Unread = unread
	return dev, nil
}

// bus fills in the device's place on a bus. A software device has none.
func (d *dir) bus(dev *Device) {
	// A subfunction hangs below its PCI function: look upwards from the end.
	if path, err := filepath.EvalSymlinks(d.path + "/device"); err == nil {
		for ; len(path) > 1; path = filepath.Dir(path) {
			if base := filepath.Base(path); isPCI(base) {
				dev.PCIAddress = base
				break
			}
		}
	}
	b, err := d.sub("device")
	if err != nil {
		if Exhausted(err) {
			d.failed = err
		}
		return
	}
	defer b.close()
	if link, err := b.readlink("driver"); err == nil {
		dev.Driver = filepath.Base(link)
	}
	text, known := b.known("numa_node")
	n, ok := parseNumber(text)
	if !ok && known {
		b.malformed("numa_node", text, "a number")
	}
	if ok && n >= 0 && n <= math.MaxInt32 {
		dev.NUMANode = int(n)
	}
	if b.failed != nil {
		d.failed = b.failed
	}
}

// NUMANode returns the NUMA node that a device is attached to; ok is false if that is unknown.
func (r Root) NUMANode(dev string) (node int, ok bool) {
	n, ok := r.Number("class", "infiniband", dev, "device", "numa_node")
	if !ok || n < 0 || n > math.MaxInt32 {
		return 0, false
	}
	return int(n), true
}

// OnNetdev reports whether a device is software on top of a netdev. Newer kernels do not report it: the result is false
// then.
func (r Root) OnNetdev(dev string) bool {
	_, err := r.Attr("class", "infiniband", dev, "parent")
	return err == nil
}

func (d *dir) port(n int) (Port, error) {
	p := Port{
		Number:    n,
		LinkLayer: d.text("link_layer"),
		Rate:      d.text("rate"),
		LID:       d.lid("lid"),
		SMLID:     d.lid("sm_lid"),
	}
	p.State, p.StateName = d.named("state")
	p.PhysState, p.PhysStateName = d.named("phys_state")
	if p.RateBits = parseRate(p.Rate); p.RateBits == 0 {
		d.malformed("rate", p.Rate, `a rate as "100 Gb/sec (4X EDR)"`)
	}
	g, err := d.sub("gids")
	if err == nil {
		var idx []int
		idx, err = g.indices()
		p.GIDTableLen = len(idx)
		g.close()
	}
	if !Absent(err) {
		d.note(err)
	}
	return p, d.failed
}

// named reads a number with its name, as "4: ACTIVE". The number is -1 if it is not known.
func (d *dir) named(name string) (int, string) {
	text := d.text(name)
	n, s := cut(text)
	if n < 0 {
		d.malformed(name, text, `a number and its name, as "4: ACTIVE"`)
	}
	return n, s
}

// guid reads a GUID.
func (d *dir) guid(name string) string {
	text := d.text(name)
	g := guid(text)
	if g == "" {
		d.malformed(name, text, "a GUID, as 0011:2233:4455:6677")
	}
	return g
}

// lid reads a LID; those of extended LIDs do not fit and give 0.
func (d *dir) lid(name string) uint16 {
	v, ok := d.number(name)
	if ok && v >= 0 && v <= math.MaxUint16 {
		return uint16(v)
	}
	if !ok {
		d.malformed(name, "", "a number")
	}
	return 0
}

// uverbs returns the names of the character devices by device. The map is empty if the kernel
// module ib_uverbs is not loaded. unread has those whose device cannot be read.
func (r Root) uverbs() (out map[string]string, unread []*fs.PathError, _ error) {
	out = map[string]string{}
	d, err := openDir(r.VerbsDir())
	if err != nil {
		if Exhausted(err) {
			return nil, nil, err
		}
		return out, unreadDir(err), nil
	}
	defer d.close()
	names, err := d.names()
	if err != nil {
		return nil, nil, err
	}
	d.unread = &unread
	for _, name := range names {
		if n, ok := strings.CutPrefix(name, "uverbs"); !ok {
			continue
		} else if _, ok := parseIndex(n); !ok {
			continue // it becomes a path in /dev
		}
		if dev := d.optional(name + "/ibdev"); dev != "" {
			out[dev] = name
		}
	}
	return out, unread, d.failed
}

// PCIID returns the vendor and device ID of an RDMA device on PCI, "15b3:1021", and "" for others.
func (r Root) PCIID(name string) string {
	vendor, ok1 := r.Number("class", "infiniband", name, "device", "vendor")
	device, ok2 := r.Number("class", "infiniband", name, "device", "device")
	if !ok1 || !ok2 || vendor < 0 || vendor > math.MaxUint16 || device < 0 || device > math.MaxUint16 {
		return ""
	}
	return fmt.Sprintf("%04x:%04x", vendor, device)
}

// VerbsABI returns the version of the ABI between the kernel driver and its provider, "abi_version
// 1"; "" if the kernel does not report it.
func (r Root) VerbsABI(uverbs string) string {
	if n, ok := r.Number("class", "infiniband_verbs", uverbs, "abi_version"); ok {
		return fmt.Sprintf("abi_version %d", n)
	}
	return ""
}

// VerbsDev returns the major and minor number of a character device; ok is false if the kernel does
// not report them.
func (r Root) VerbsDev(uverbs string) (major, minor uint32, ok bool) {
	text, _ := r.Attr("class", "infiniband_verbs", uverbs, "dev")
	a, b, _ := strings.Cut(strings.TrimSpace(text), ":")
	x, err1 := strconv.ParseUint(a, 10, 32)
	y, err2 := strconv.ParseUint(b, 10, 32)
	return uint32(x), uint32(y), err1 == nil && err2 == nil
}
