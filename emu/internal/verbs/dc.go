//go:build linux

package verbs

import (
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// maxStreams is log2 of how many streams a DCI may have, and of how many of them may be in error.
const maxStreams = 9

// recent reports whether an adapter is a ConnectX-6 Dx or later.
func recent(d *hca.Device) bool { return d.Config.Model.PCI >= 0x101d }

// streams reports whether an adapter has DCI streams.
func streams(d *hca.Device) bool { return recent(d) }

// dcInit completes what a DRIVER QP is made of: the driver's flags say what it is. It returns the flags that such a QP
// may have, none if they name no type. A DCT has its key where others have the address of a send queue.
func dcInit(c *call, i *hca.QPInit, d *uapi.Mlx5CreateQP) (known uint32) {
	switch d.Flags & (uapi.QPFlagDCI | uapi.QPFlagDCT) {
	case uapi.QPFlagDCI:
		i.Type = hca.DCI
		if d.Flags&uapi.QPFlagDCIStream == 0 {
			return dciFlags
		}
		i.DC = hca.DC{Streams: d.DciStreams[0], ErroredStreams: d.DciStreams[1], HasStreams: true}
		if streams(c.ctx.Device) && max(i.DC.Streams, i.DC.ErroredStreams) <= maxStreams {
			return dciFlags
		}
	case uapi.QPFlagDCT:
		i.Type, i.DC.AccessKey = hca.DCT, d.SqBufAddr
		return dctFlags
	}
	return 0
}

// queryDCT reports whether the kernel answers a query of a DCT: it is there from RTR on, and has few attributes.
func queryDCT(qp *hca.QP, mask hca.AttrMask) bool {
	const has = hca.AttrState | hca.AttrAccess | hca.AttrPort | hca.AttrMinRNRTimer | hca.AttrAV | hca.AttrPathMTU |
		hca.AttrPKeyIndex
	return qp.State == hca.RTR && mask&^has == 0
}
