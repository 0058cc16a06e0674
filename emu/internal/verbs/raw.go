//go:build linux

package verbs

import (
	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// rawCaps is what a device says of frames.
type rawCaps struct {
	device           uint64 // device_cap_flags_ex
	packet           uint32 // raw_packet_caps
	maxTSO, tsoTypes uint32
}

func rawCapsOf(d *hca.Device) rawCaps {
	if d.Ports[0].Config.LinkLayer != config.Ethernet {
		return rawCaps{}
	}
	const (
		rawIPCsum, flowSteering, scatterFCS = 1 << 26, 1 << 29, 1 << 34
		vlanStrip, packetFCS, packetCsum    = 1 << 0, 1 << 1, 1 << 2
	)
	return rawCaps{
		device: rawIPCsum | flowSteering | scatterFCS, packet: vlanStrip | packetFCS | packetCsum,
		maxTSO: hca.MaxTSO, tsoTypes: 1 << hca.RawPacket,
	}
}
