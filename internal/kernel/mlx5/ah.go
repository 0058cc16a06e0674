package mlx5

import (
	"encoding/binary"
	"math/rand/v2"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// The address vector: struct mlx5_wqe_av.
const (
	avSize     = 48
	avRateSL   = 12
	avPathBits = 13
	avLID      = 14 // or the UDP source port
	avMAC      = 20
	avClass    = 26
	avHops     = 27
	avFlow     = 28 // whether there is a GRH, the index of the source GID and the flow label
	avGID      = 32

	flowMask = 1<<20 - 1
)

// rates are the device's numbers of enum ibv_rate. C: ib_to_mlx5_rate_table.
var rates = [...]byte{2: 7, 8, 9, 10, 11, 12, 13, 14, 15, 11, 13, 15, 15: 9, 15, 19: 9, 13}

func rate(r uint8) byte {
	if int(r) < len(rates) {
		return rates[r]
	}
	return 0
}

// sourcePort returns the UDP source port of a flow.
func sourcePort(flow uint32) uint16 {
	const least = 0xc000
	if flow &= flowMask; flow == 0 {
		return least + uint16(rand.Uint32N(0x10000-least))
	}
	return least | uint16(flow&0x3fff^flow>>14)
}

// CreateAH makes an address handle. RoCE needs the kernel, which knows the peer's MAC address.
func (p *pd) CreateAH(a *abi.AHAttr) (handle, error) {
	c, ask := p.c, queries{p.c}
	if a.PortNum < 1 || uint16(a.PortNum) > c.info.NumPorts {
		return 0, syscall.EINVAL
	}
	var port abi.PortAttr
	if err := ask.QueryPort(a.PortNum, &port); err != nil {
		return 0, err
	}
	const grhRequired = 1 << 0 // C: IBV_QPF_GRH_REQUIRED
	roce := port.LinkLayer == abi.IBV_LINK_LAYER_ETHERNET
	if a.IsGlobal == 0 && (roce || port.Flags&grhRequired != 0) {
		return 0, syscall.EINVAL
	}
	n := &ah{object: object{c: c}, av: make([]byte, avSize), global: a.IsGlobal != 0}
	grh := uint32(1)
	if roce {
		grh = 0 // it always has one
		typ, err := ask.gidType(a.PortNum, a.GRH.SGIDIndex)
		if err != nil {
			return 0, err
		}
		if typ == abi.IBV_GID_TYPE_ROCE_V2 {
			binary.BigEndian.PutUint16(n.av[avLID:], sourcePort(a.GRH.FlowLabel))
		}
		n.av[avRateSL] = rate(a.StaticRate)<<4 | a.SL&7<<1
	} else {
		n.av[avRateSL], n.av[avPathBits] = rate(a.StaticRate)<<4|a.SL&0xf, a.SrcPathBits&0x7f
		binary.BigEndian.PutUint16(n.av[avLID:], a.DLID)
	}
	if a.IsGlobal != 0 {
		n.av[avClass], n.av[avHops] = a.GRH.TrafficClass, a.GRH.HopLimit
		binary.BigEndian.PutUint32(n.av[avFlow:], grh<<30|uint32(a.GRH.SGIDIndex)<<20|a.GRH.FlowLabel&flowMask)
		copy(n.av[avGID:], a.GRH.DGID[:])
	}
	n.handle = p.c.v.table.add(n)
	if roce {
		if err := n.resolve(p.number, a); err != nil {
			p.c.v.table.remove(n.handle)
			return 0, err
		}
	}
	return n.handle, nil
}

// resolve asks the kernel for the peer's MAC address.
func (n *ah) resolve(pd uint32, a *abi.AHAttr) error {
	if n.c.info.CmdsSuppUhw&abi.MLX5_USER_CMDS_SUPP_UHW_CREATE_AH == 0 { // before Linux 4.10
		return syscall.EOPNOTSUPP
	}
	resp := new(abi.MLX5IBCreateAHResp)
	var err error
	if n.kernel, err = n.c.file.CreateAH(uint64(n.handle), pd, a, uverbs.Driver{Out: uverbs.Bytes(resp)}); err != nil {
		return err
	}
	n.inUse = true
	copy(n.av[avMAC:], resp.Dmac[:])
	return nil
}

// ResolveEthL2FromGID returns the MAC address of a peer, and the VLAN of the port's GID, 0xffff if it has none.
func (c queries) ResolveEthL2FromGID(a *abi.AHAttr) (mac [6]byte, vid uint16, err error) {
	pd, err := c.file.AllocPD(uverbs.Driver{Out: make([]byte, 4)})
	if err != nil {
		return mac, 0, err
	}
	n := &ah{object: object{c: c.context}, av: make([]byte, avSize)}
	if err = n.resolve(pd, a); err == nil {
		copy(mac[:], n.av[avMAC:])
		err = c.file.DestroyAH(n.kernel)
	}
	return mac, c.vlan(a.PortNum, a.GRH.SGIDIndex), c.undo(err, c.file.DeallocPD(pd))
}

// DestroyAH ends an address handle.
func (n *ah) DestroyAH() error {
	if n.inUse {
		if err := n.c.destroyed(n.c.file.DestroyAH(n.kernel)); err != nil {
			return err
		}
	}
	n.c.v.table.remove(n.handle)
	if n.mapping != nil {
		return n.mapping.end()
	}
	return nil
}

// InitAH returns the address of the address vector, which lasts as long as the handle.
func (n *ah) InitAH() (av uintptr, err error) { return cmem.SliceAddr(n.av), nil }
