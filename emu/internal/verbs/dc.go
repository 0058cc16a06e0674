//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// maxStreams is log2 of how many streams a DCI may have, and of how many of them may be in error.
const maxStreams = 9

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
		if c.ctx.Device.Recent() && max(i.DC.Streams, i.DC.ErroredStreams) <= maxStreams {
			return dciFlags
		}
	case uapi.QPFlagDCT:
		i.Type, i.DC.AccessKey = hca.DCT, d.SqBufAddr
		return dctFlags
	}
	return 0
}

// queryDCT returns the attributes of a DCT that are asked for, as the driver does. A DCT has few, and only in RTR.
// C: mlx5_ib_dct_query_qp.
func queryDCT(qp *hca.QP, mask hca.AttrMask) (v uapi.QueryQPResp, _ unix.Errno) {
	a := &qp.Attr
	for _, f := range []struct {
		bit hca.AttrMask
		put func()
	}{
		{hca.AttrState, func() { v.QPState = uint8(qp.State) }},
		{hca.AttrAccess, func() { v.QPAccessFlags = uint32(qp.Rights()) }},
		{hca.AttrPort, func() { v.PortNum = a.Port }},
		{hca.AttrMinRNRTimer, func() { v.MinRnrTimer = a.MinRNRTimer }},
		{hca.AttrAV, func() {}}, // without its flag
		{hca.AttrPathMTU, func() { v.PathMTU = a.PathMTU }},
		{hca.AttrPKeyIndex, func() { v.PkeyIndex = a.PKeyIndex }},
	} {
		if mask&f.bit != 0 {
			f.put()
			mask &^= f.bit
		}
	}
	if mask != 0 || qp.State != hca.RTR {
		return uapi.QueryQPResp{}, unix.EINVAL
	}
	return v, 0
}
