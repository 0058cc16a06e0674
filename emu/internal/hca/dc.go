//go:build linux

package hca

import "golang.org/x/sys/unix"

// DC is what a QP of the dynamically connected transport has beyond others. A DCI sends to any DCT, named by each work
// request; a DCT receives from any DCI that knows its key, into its SRQ.
type DC struct {
	AccessKey uint64 // DCT
	// DCI: log2 of its streams, and of how many of them may be in error before the QP is.
	Streams, ErroredStreams uint8
	HasStreams              bool
}

// checkDC checks what DC QPs are made of. C: check_qp_attr of mlx5_ib.
func (qp *QP) checkDC() unix.Errno {
	switch {
	case qp.Type == DCT && (qp.SRQ == nil || qp.RecvCQ == nil), qp.Type == DCI && (qp.Cap.RecvWR|qp.Cap.RecvSGE) != 0:
		return unix.EINVAL
	}
	return 0
}

// dcTransitions has all that these types can do besides a DCI's way to RESET and to ERR: mlx5_ib checks them itself. A
// DCT becomes real, with a number, when it goes to RTR, and changes no more.
// C: modify_dci_qp_is_ok, mlx5_ib_modify_dct.
var dcTransitions = map[QPType]map[transition]masks{
	DCI: {
		{Reset, Init}:  {AttrPKeyIndex | AttrPort, 0},
		{Init, Init}:   {0, AttrPKeyIndex | AttrPort},
		{Init, RTR}:    {AttrPathMTU, AttrPKeyIndex | AttrAV},
		{RTR, RTS}:     {AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrMaxRdAtomic | AttrSQPSN, AttrMinRNRTimer},
		{RTS, RTS}:     {0, AttrMinRNRTimer},
		{Reset, Reset}: {}, {Init, Reset}: {}, {RTR, Reset}: {}, {RTS, Reset}: {}, {Err, Reset}: {},
		{Init, Err}: {}, {RTR, Err}: {}, {RTS, Err}: {}, {Err, Err}: {},
	},
	DCT: {
		{Reset, Init}: {AttrPKeyIndex | AttrPort | AttrAccess, 0},
		{Init, RTR}:   {AttrMinRNRTimer | AttrAV | AttrPathMTU, 0},
	},
}

func dcLegal(rows map[transition]masks, from, to QPState, mask AttrMask) bool {
	m, ok := rows[transition{from, to}]
	return ok && mask&AttrState != 0 && mask&m.need == m.need && mask&^(m.need|m.may|AttrState) == 0
}
