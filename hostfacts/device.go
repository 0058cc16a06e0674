package hostfacts

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// Device is an RDMA device. Texts that the kernel does not provide are empty. A Device is a value, and holds no open
// file.
type Device struct {
	Name            string   `json:"name"` // mlx5_0
	NodeType        NodeType `json:"node_type_code"`
	NodeTypeName    string   `json:"node_type"` // as the kernel writes it
	NodeGUID        string   `json:"node_guid"` // 0011:2233:4455:6677
	SystemImageGUID string   `json:"system_image_guid"`
	NodeDescription string   `json:"node_description"`
	FirmwareVersion string   `json:"firmware_version"`
	HCAType         string   `json:"hca_type"`
	BoardID         string   `json:"board_id"`    // the PSID of a Mellanox card
	Driver          string   `json:"driver"`      // of the PCI function; empty for software
	PCIAddress      string   `json:"pci_address"` // 0000:3b:00.0; empty for software
	NUMANode        int      `json:"numa_node"`   // Unknown if the host does not report it
	Uverbs          string   `json:"uverbs"`      // name in /dev/infiniband; empty if ib_uverbs is not loaded
	Ports           []Port   `json:"ports"`

	Missing []Missing `json:"missing,omitempty"` // what could not be read
}

// Emulated reports whether the device is one of this module's emulator, whose figures say nothing about a NIC.
func (d *Device) Emulated() bool {
	return (&sysfs.Device{NodeDescription: d.NodeDescription}).Emulated()
}

// Port returns the port of that number, nil if the device has none.
func (d *Device) Port(number int) *Port {
	for i := range d.Ports {
		if d.Ports[i].Number == number {
			return &d.Ports[i]
		}
	}
	return nil
}

// Port is one port of a [Device].
type Port struct {
	Number        int       `json:"port"` // from 1
	State         PortState `json:"state_code"`
	StateName     string    `json:"state"` // as the kernel writes it: ACTIVE, DOWN
	PhysState     PhysState `json:"phys_state_code"`
	PhysStateName string    `json:"phys_state"` // as the kernel writes it: LinkUp, Disabled
	LinkLayer     LinkLayer `json:"link_layer"`
	Rate          string    `json:"rate"`                 // 100 Gb/sec (4X EDR)
	RateBits      int64     `json:"rate_bits_per_second"` // 0 if it is not known
	LID           uint16    `json:"lid"`
	SMLID         uint16    `json:"sm_lid"` // of the subnet manager
	GIDTableLen   int       `json:"gid_table_length"`
}

// Active reports whether the port carries traffic.
func (p *Port) Active() bool { return p.StateName == sysfs.StateActive }

// Lanes returns the lanes of the port's rate and the name of their speed: 2 and HDR of "100 Gb/sec (2X HDR)". Old
// kernels write no name for SDR. On Ethernet drivers make both up from the rate, so they mean nothing.
func (p *Port) Lanes() (n int, speed string) {
	_, rest, _ := strings.Cut(p.Rate, "(")
	count, speed, _ := strings.Cut(strings.TrimSuffix(rest, ")"), "X")
	n, _ = strconv.Atoi(count)
	return n, cmp.Or(strings.TrimSpace(speed), "SDR")
}

// DataBits returns the bits of data that the port carries in a second. The InfiniBand speeds up to QDR lose a fifth of
// their rate to their coding.
func (p *Port) DataBits() int64 {
	if _, speed := p.Lanes(); p.LinkLayer == InfiniBand && len(speed) == 3 && strings.Contains("SDR DDR QDR", speed) {
		return p.RateBits / 5 * 4
	}
	return p.RateBits
}

// A NotFoundError is a device or a port that the host does not have. It matches [fs.ErrNotExist].
type NotFoundError struct {
	Device string
	Port   int      // 0: there is no such device
	Have   []string // the devices, or the ports of the device
	Reason string   // why there is no device at all
}

// Error returns one line.
func (e *NotFoundError) Error() string {
	what, have := fmt.Sprintf("no RDMA device %.64q", e.Device), "devices: "
	if e.Port != 0 {
		what, have = fmt.Sprintf("RDMA device %.64q has no port %d", e.Device, e.Port), "ports: "
	}
	switch {
	case e.Reason != "":
		return what + ": " + e.Reason
	case len(e.Have) == 0:
		return what
	}
	return what + "; " + have + strings.Join(e.Have, ", ")
}

// Unwrap returns [fs.ErrNotExist].
func (e *NotFoundError) Unwrap() error { return fs.ErrNotExist }

// noPort returns the error of a port that the device does not have.
func (d *Device) noPort(port int) error {
	e := &NotFoundError{Device: d.Name, Port: port}
	for i := range d.Ports {
		e.Have = append(e.Have, strconv.Itoa(d.Ports[i].Number))
	}
	return e
}

// Devices reads all devices, in numeric order: mlx5_2 before mlx5_10. A device that vanishes while it is read is
// omitted. A device whose directory cannot be read is an error, and the others are returned with it, unless
// descriptors or memory are short. The error is [fs.ErrNotExist] if the kernel has no RDMA support; [Host.NoDevice] has
// the reason.
func (h Host) Devices() ([]Device, error) {
	list, err := h.sys().Devices()
	var out []Device
	for i := range list {
		out = append(out, deviceOf(&list[i]))
	}
	return out, err
}

// Device reads one device. The error is a [*NotFoundError] if there is none of that name.
func (h Host) Device(name string) (Device, error) {
	d, err := h.sys().Device(name)
	if errors.Is(err, fs.ErrNotExist) {
		have, _ := h.sys().DeviceNames()
		missing := &NotFoundError{Device: name, Have: have}
		if len(have) == 0 {
			missing.Reason = h.NoDevice()
		}
		return Device{}, missing
	}
	if err != nil {
		return Device{}, err
	}
	return deviceOf(&d), nil
}

// NoDevice returns why the kernel shows no RDMA device, and the way out.
func (h Host) NoDevice() string { return h.sys().NoDevice() }

// Exclusive reports whether the RDMA subsystem shows a device in one network namespace only.
func (h Host) Exclusive() bool { return h.sys().Exclusive() }

// CompareNames orders names with runs of digits by value, so mlx5_2 comes before mlx5_10.
func CompareNames(a, b string) int { return sysfs.NaturalCompare(a, b) }

func deviceOf(d *sysfs.Device) Device {
	out := Device{Name: d.Name, NodeType: NodeType(d.NodeType), NodeTypeName: d.NodeTypeName, NodeGUID: d.NodeGUID,
		SystemImageGUID: d.SystemImageGUID, NodeDescription: d.NodeDescription, FirmwareVersion: d.FirmwareVersion,
		HCAType: d.HCAType, BoardID: d.BoardID, Driver: d.Driver, PCIAddress: d.PCIAddress, NUMANode: d.NUMANode,
		Uverbs: d.Uverbs, Ports: make([]Port, 0, len(d.Ports)), Missing: missing(d.Unread)}
	for _, p := range d.Ports {
		out.Ports = append(out.Ports, Port{Number: p.Number, State: PortState(p.State), StateName: p.StateName,
			PhysState: PhysState(p.PhysState), PhysStateName: p.PhysStateName, LinkLayer: LinkLayer(p.LinkLayer),
			Rate: p.Rate, RateBits: p.RateBits, LID: p.LID, SMLID: p.SMLID, GIDTableLen: p.GIDTableLen})
	}
	return out
}
