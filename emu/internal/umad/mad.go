//go:build linux

package umad

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// Fields of a datagram.
const (
	offClass  = 1
	offMethod = 3
	offStatus = 4
	offHop    = 6 // pointer and count of a directed route
	offAttr   = 16
	offMod    = 20
	offData   = 64 // of subnet management and of counters
	dataSize  = 64

	methodGet    = 1
	methodSet    = 2
	answered     = 0x80
	directed     = 0x8000 // of the status: on its way back
	permissive   = 0xffff // the LID of whoever is at the end of the cable
	noMethod     = 0x0008
	noAttribute  = 0x000c
	classCounter = 0x04
)

// agentOf has the addressed port's agent answer a datagram from port, and returns the sender's LID; nil without an
// answer. No cable leads from a port to another by a directed route: only the own port is at its beginning.
func (s *Server) agentOf(port *hca.Port, qp uint8, lid uint16, mad []byte) (answer []byte, from uint16) {
	class, method := mad[offClass], mad[offMethod]
	if method&answered != 0 || mad[0] != 1 || port.Config.LinkLayer != config.InfiniBand {
		return nil, 0
	}
	to, from := port, uint16(permissive)
	switch {
	case class == classDirected && qp == 0 && mad[offHop+1] == 0:
	case class == classDirected && qp == 0:
		return nil, 0
	case class == classLID && qp == 0, class == classCounter && qp == 1:
		if lid != permissive {
			if to, from = s.f.PortByLID(lid), lid; to == nil || !to.Active || to != port && !port.Active {
				return nil, 0
			}
		}
	default:
		return nil, 0
	}
	answer = make([]byte, madSize)
	copy(answer, mad)
	answer[offMethod] = answered | methodGet
	status := uint16(0)
	attr, mod := binary.BigEndian.Uint16(mad[offAttr:]), binary.BigEndian.Uint32(mad[offMod:])
	data := answer[offData : offData+dataSize]
	clear(data)
	switch {
	case method == methodGet && class == classCounter:
		status = countersOf(to, attr, mad[offData:], answer[offData:])
	case method == methodGet:
		status = subnetAttribute(to, attr, mod, data)
	case method == methodSet:
		status = noAttribute // nobody manages this subnet
		copy(data, mad[offData:])
	default:
		status = noMethod
	}
	if class == classDirected {
		status |= directed
		answer[offHop] = 0
	}
	binary.BigEndian.PutUint16(answer[offStatus:], status)
	return answer, from
}

// subnetAttribute fills in an attribute of a port's subnet management agent.
func subnetAttribute(p *hca.Port, attr uint16, mod uint32, b []byte) (status uint16) {
	d := p.Device
	switch {
	case attr == 0x10: // NodeDescription
		copy(b, d.Config.NodeDesc)
	case attr == 0x11: // NodeInfo
		b[0], b[1], b[2], b[3] = 1, 1, 1, byte(len(d.Ports))
		binary.BigEndian.PutUint64(b[4:], uint64(d.Config.NodeGUID))
		binary.BigEndian.PutUint64(b[12:], uint64(d.Config.NodeGUID))
		copy(b[20:28], gid(p, 0)[8:])
		binary.BigEndian.PutUint16(b[28:], uint16(len(p.Config.PKeys)))
		binary.BigEndian.PutUint16(b[30:], d.Config.Model.PCI)
		binary.BigEndian.PutUint32(b[32:], uint32(d.Config.Model.HWVer))
		binary.BigEndian.PutUint32(b[36:], uint32(p.Number)<<24|0x0002c9)
	case attr == 0x14 && int64(mod)*8 < int64(max(p.Config.GIDTableLen, 1)): // GUIDInfo
		for i := range 8 {
			copy(b[8*i:8*i+8], gid(p, int(mod)*8+i)[8:])
		}
	case attr == 0x15 && mod <= uint32(len(d.Ports)): // PortInfo
		of := p
		if mod != 0 {
			of = d.Ports[mod-1]
		}
		portInfo(of, byte(p.Number), b)
	case attr == 0x16 && int64(mod&0xffff)*32 < int64(len(p.Config.PKeys)): // P_KeyTable
		for i := range 32 {
			binary.BigEndian.PutUint16(b[2*i:], p.PKey(int(mod&0xffff)*32+i))
		}
	default:
		return noAttribute
	}
	return 0
}

// gid returns an entry of the port's table, zeros if it is empty.
func gid(p *hca.Port, i int) []byte {
	b := make([]byte, 16)
	if g := p.GID(i); g != nil {
		copy(b, g.GID[:])
	}
	return b
}

func portInfo(p *hca.Port, local byte, b []byte) {
	c := p.Config
	g := gid(p, 0)
	copy(b[8:16], g)
	binary.BigEndian.PutUint16(b[16:], c.LID)
	binary.BigEndian.PutUint16(b[18:], c.SMLID)
	binary.BigEndian.PutUint32(b[20:], c.CapFlags)
	b[28] = local
	widths := byte(c.Width | config.Width1X)
	b[29], b[30], b[31] = widths, widths, byte(c.Width)
	state, phys := config.PortStates(p.Active)
	// What is faster than FDR10 is in the extended fields, and shows as QDR in these.
	speed, ext := byte(c.Speed)&7, byte(c.Speed>>4)
	if speed == 0 {
		speed = 7
	}
	active := min(speed, 4)
	b[32] = speed<<4 | byte(state)
	b[33] = byte(phys)<<4 | 2 // polls by default
	b[34] = c.LMC
	b[35] = active<<4 | speed
	b[36] = byte(c.ActiveMTU)<<4 | c.SMSL
	b[37] = 4 << 4 // VL0 to VL7
	b[41] = byte(c.MaxMTU)
	b[43] = 1 << 4 // VL0
	b[50] = byte(min(c.GIDTableLen, 255))
	b[51] = 18
	b[52] = 16
	b[62] = ext<<4&0xf0 | ext&0xf
	b[63] = ext & 0x1f
}

// countersOf fills in an attribute of a port's performance management agent; the port is selected by the request.
func countersOf(p *hca.Port, attr uint16, request, b []byte) (status uint16) {
	const selectAll = 255
	sel := request[1]
	at := p
	if sel != selectAll && attr != 1 {
		if sel < 1 || int(sel) > len(p.Device.Ports) {
			return noAttribute
		}
		at = p.Device.Ports[sel-1]
	}
	n := &at.Count
	clear(b)
	switch attr {
	case 0x01: // ClassPortInfo
		b[0], b[1] = 1, 1
		binary.BigEndian.PutUint16(b[2:], 1<<9) // extended widths
		b[7] = 16
	case 0x12: // PortCounters, which stay at their end
		b[1] = sel
		for i, c := range []hca.Counter{hca.XmitData, hca.RcvData, hca.XmitPackets, hca.RcvPackets} {
			binary.BigEndian.PutUint32(b[24+4*i:], uint32(min(n[c], 1<<32-1)))
		}
	case 0x1d: // PortCountersExtended
		b[1] = sel
		for i, c := range []hca.Counter{hca.XmitData, hca.RcvData, hca.XmitPackets, hca.RcvPackets, hca.XmitPackets,
			hca.RcvPackets} { // those of unicast are the last two
			binary.BigEndian.PutUint64(b[8+8*i:], n[c])
		}
	default:
		return noAttribute
	}
	return 0
}
