package config

import (
	"fmt"
	"strconv"
)

// LinkLayer is the protocol below a port. C: IBV_LINK_LAYER_*.
type LinkLayer uint8

// The link layers.
const (
	InfiniBand LinkLayer = 1
	Ethernet   LinkLayer = 2
)

// PortState is the logical state of a port. C: enum ibv_port_state.
type PortState uint8

// The states of a port.
const (
	PortDown   PortState = 1
	PortInit   PortState = 2
	PortArmed  PortState = 3
	PortActive PortState = 4
)

// PhysState is the state of the link itself, with the values of the kernel's
// enum ib_port_phys_state.
type PhysState uint8

// The states of a link.
const (
	PhysPolling  PhysState = 2
	PhysDisabled PhysState = 3
	PhysLinkUp   PhysState = 5
)

// PortStates returns the states of a port that is up, or was taken down, and of its link.
func PortStates(up bool) (PortState, PhysState) {
	if up {
		return PortActive, PhysLinkUp
	}
	return PortDown, PhysDisabled
}

// MTU is a path MTU by its code. C: enum ibv_mtu.
type MTU uint8

// The path MTUs.
const (
	MTU256  MTU = 1
	MTU512  MTU = 2
	MTU1024 MTU = 3
	MTU2048 MTU = 4
	MTU4096 MTU = 5
)

// Bytes returns the size that the code stands for, or 0.
func (m MTU) Bytes() int {
	if m < MTU256 || m > MTU4096 {
		return 0
	}
	return 128 << m
}

// Width is the number of lanes by its code. C: ibv_port_attr.active_width.
type Width uint8

// The widths.
const (
	Width1X  Width = 1
	Width4X  Width = 2
	Width8X  Width = 4
	Width12X Width = 8
	Width2X  Width = 16
)

// Lanes returns the number that the code stands for, or 0.
func (w Width) Lanes() int { return widthLanes[w] }

var widthLanes = map[Width]int{Width1X: 1, Width4X: 4, Width8X: 8, Width12X: 12, Width2X: 2}

// Speed is the signalling rate of one lane by its code. C: ibv_port_attr.active_speed
// and active_speed_ex, which codes above 0xff need.
type Speed uint16

// The speeds.
const (
	SpeedSDR   Speed = 1
	SpeedDDR   Speed = 2
	SpeedQDR   Speed = 4
	SpeedFDR10 Speed = 8
	SpeedFDR   Speed = 16
	SpeedEDR   Speed = 32
	SpeedHDR   Speed = 64
	SpeedNDR   Speed = 128
	SpeedXDR   Speed = 256
)

// LaneRate returns the rate of one lane in 100 Mb/s, 0 for an unknown speed.
func (s Speed) LaneRate() int { return laneRates[s] }

var laneRates = map[Speed]int{SpeedSDR: 25, SpeedDDR: 50, SpeedQDR: 100, SpeedFDR10: 100,
	SpeedFDR: 140, SpeedEDR: 250, SpeedHDR: 500, SpeedNDR: 1000, SpeedXDR: 2000}

// GIDType is the protocol of a GID. C: enum ibv_gid_type.
type GIDType uint8

// The types of GIDs.
const (
	GIDTypeIB     GIDType = 0
	GIDTypeRoCEv1 GIDType = 1
	GIDTypeRoCEv2 GIDType = 2
)

// ABI says in which forms a kernel takes the commands of verbs: write() or the ioctl.
type ABI uint8

// The ABIs.
const (
	ABIBoth    ABI = iota
	ABIWrite       // no ioctl, as before Linux 4.14, and nothing that came with it: DevX, registers by name
	ABIIoctl       // a write is refused
	ABIInvoke      // the same, and of the methods those whose command has no other form
	ABISandbox     // a write is refused, and of the ioctl what gVisor does not pass to the kernel
)

// Names as the kernel prints them where it does, which is also how flags spell them.
var (
	linkNames  = map[LinkLayer]string{InfiniBand: "InfiniBand", Ethernet: "Ethernet"}
	stateNames = map[PortState]string{PortDown: "DOWN", PortInit: "INIT", PortArmed: "ARMED", PortActive: "ACTIVE"}
	physNames  = map[PhysState]string{PhysPolling: "Polling", PhysDisabled: "Disabled", PhysLinkUp: "LinkUp"}
	mtuNames   = map[MTU]string{MTU256: "256", MTU512: "512", MTU1024: "1024", MTU2048: "2048", MTU4096: "4096"}
	widthNames = map[Width]string{Width1X: "1X", Width4X: "4X", Width8X: "8X", Width12X: "12X", Width2X: "2X"}
	speedNames = map[Speed]string{SpeedSDR: "SDR", SpeedDDR: "DDR", SpeedQDR: "QDR", SpeedFDR10: "FDR10",
		SpeedFDR: "FDR",
		SpeedEDR: "EDR", SpeedHDR: "HDR", SpeedNDR: "NDR", SpeedXDR: "XDR"}
	abiNames = map[ABI]string{ABIBoth: "both", ABIWrite: "write", ABIIoctl: "ioctl", ABIInvoke: "invoke",
		ABISandbox: "sandbox"}
	typeNames = map[GIDType]string{GIDTypeIB: "IB", GIDTypeRoCEv1: "RoCEv1", GIDTypeRoCEv2: "RoCEv2"}
)

// String returns InfiniBand or Ethernet.
func (l LinkLayer) String() string { return Name("LinkLayer", linkNames, l) }

// String returns the kernel's name: ACTIVE, DOWN.
func (s PortState) String() string { return Name("PortState", stateNames, s) }

// String returns the kernel's name: LinkUp, Disabled.
func (s PhysState) String() string { return Name("PhysState", physNames, s) }

// String returns the number of bytes.
func (m MTU) String() string { return Name("MTU", mtuNames, m) }

// String returns the number of lanes: 4X.
func (w Width) String() string { return Name("Width", widthNames, w) }

// String returns the short name: NDR.
func (s Speed) String() string { return Name("Speed", speedNames, s) }

// String returns both, write, ioctl, invoke or sandbox.
func (a ABI) String() string { return Name("ABI", abiNames, a) }

// String returns IB, RoCEv1 or RoCEv2.
func (t GIDType) String() string { return Name("GIDType", typeNames, t) }

type enum interface{ ~uint8 | ~uint16 }

// Name returns the name of a value, and "Type(17)" for one without a name.
func Name[E enum](typ string, names map[E]string, v E) string {
	if s, ok := names[v]; ok {
		return s
	}
	return typ + "(" + strconv.Itoa(int(v)) + ")"
}

// parse finds the value of a name, whatever its case.
func parse[E enum](names map[E]string, v *E, s string) error {
	for val, n := range names {
		if fold(n) == fold(s) {
			*v = val
			return nil
		}
	}
	return fmt.Errorf("want one of %s", list(names))
}
