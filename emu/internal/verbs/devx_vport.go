//go:build linux

package verbs

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// What an adapter says of its own ports.

// Fields of commands about a port.
var (
	vportOther = uapi.Bits{At: 0x40, Len: 1} // of another function: there is none
	vportPort  = uapi.Bits{At: 0x4c, Len: 4} // C: query_hca_vport_context_in.port_num
	roceIndex  = uapi.Bits{At: 0x40, Len: 16}
	rocePort   = uapi.Bits{At: 0x5c, Len: 4} // C: query_roce_address_in.vhca_port_num
)

// portOf returns the port that a field of a command names, 0 for the first one.
func (d *command) portOf(f uapi.Bits, link config.LinkLayer) *hca.Port {
	n := max(f.Get(d.in), 1)
	if ports := d.ctx.Device.Ports; n <= uint64(len(ports)) && ports[n-1].Config.LinkLayer == link {
		return ports[n-1]
	}
	return nil
}

// entry is a field of an answer, and its value.
type entry struct {
	bits  uapi.Bits
	value uint64
}

// put writes fields of a context that begins at bit at.
func (d *command) put(at int, fields ...entry) uapi.Status {
	for _, f := range fields {
		f.bits.In(at).Put(d.out, f.value)
	}
	return uapi.StatusOK
}

// answerAt is where contexts begin in answers.
const answerAt = 0x80

// queryNICVport is about the first port, of Ethernet. C: struct mlx5_ifc_nic_vport_context_bits.
func queryNICVport(d *command) uapi.Status {
	p := d.portOf(uapi.Bits{}, config.Ethernet)
	if p == nil {
		return uapi.StatusBadParam
	}
	const header = 22 // of a frame, with a VLAN tag and its check sequence
	guid := uint64(d.ctx.Device.Config.NodeGUID)
	return d.put(answerAt, entry{flag(0x1f), 1}, // RoCE
		entry{field(0x130, 16), uint64(p.MTU + header)},
		entry{field(0x140, 64), guid}, // the system's, the port's, the node's
		entry{field(0x180, 64), guid}, entry{field(0x1c0, 64), guid})
}

// queryHCAVport is about a port of InfiniBand. C: struct mlx5_ifc_hca_vport_context_bits.
func queryHCAVport(d *command) uapi.Status {
	p := d.portOf(vportPort, config.InfiniBand)
	if p == nil || vportOther.Get(d.in) != 0 {
		return uapi.StatusBadParam
	}
	a, guid := portAttr(p), uint64(d.ctx.Device.Config.NodeGUID)
	r := &a.LegacyResp
	return d.put(answerAt, entry{field(0x110, 4), uint64(r.PhysState)},
		entry{field(0x118, 4), uint64(r.State)}, entry{field(0x11c, 4), uint64(r.State)}, // the port, the function
		entry{field(0x140, 64), guid}, entry{field(0x180, 64), guid + uint64(p.Number-1)},
		entry{field(0x1c0, 64), guid},
		entry{field(0x200, 32), uint64(r.PortCapFlags)}, entry{field(0x300, 16), uint64(r.LID)},
		entry{field(0x318, 3), uint64(r.LMC)}, entry{field(0x31b, 5), uint64(r.SubnetTimeout)},
		entry{field(0x320, 16), uint64(r.SmLID)}, entry{field(0x330, 4), uint64(r.SmSl)})
}

// queryVportState says whether the first port of Ethernet is up. C: struct mlx5_ifc_query_vport_state_out_bits.
func queryVportState(d *command) uapi.Status {
	p := d.portOf(uapi.Bits{}, config.Ethernet)
	const function = 0 // the program's own
	if p == nil || uapi.CmdOpMod.Get(d.in) != function || vportOther.Get(d.in) != 0 {
		return uapi.StatusBadParam
	}
	return d.put(0, entry{field(0x78, 4), uint64(bit(p.Up))}, entry{field(0x7c, 4), uint64(bit(p.Active))})
}

// queryRoceAddress reads an entry of a GID table. C: struct mlx5_ifc_roce_addr_layout_bits.
func queryRoceAddress(d *command) uapi.Status {
	p, i := d.portOf(rocePort, config.Ethernet), int(roceIndex.Get(d.in))
	if p == nil || i >= p.Config.GIDTableLen {
		return uapi.StatusBadParam
	}
	g := p.GID(i)
	if g == nil {
		return uapi.StatusOK // zeros
	}
	mac := append([]byte{0, 0}, p.Config.MAC[:]...)
	version, ipv6 := uint64(0), uint64(0)
	if g.Type == config.GIDTypeRoCEv2 {
		version, ipv6 = 2, uint64(bit(!g.GID.IP().Is4()))
	}
	return d.put(answerAt, entry{field(0x00, 64), binary.BigEndian.Uint64(g.GID[:])},
		entry{field(0x40, 64), binary.BigEndian.Uint64(g.GID[8:])}, entry{flag(0x83), uint64(bit(g.VLAN != 0))},
		entry{field(0x84, 12), uint64(g.VLAN)}, entry{field(0x90, 48), binary.BigEndian.Uint64(mac)},
		entry{field(0xd4, 4), ipv6}, entry{field(0xd8, 8), version})
}
