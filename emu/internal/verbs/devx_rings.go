//go:build linux

package verbs

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// CQs and QPs that commands make. Rings and doorbell records are in umems; the rest is as if a verb had made them.

// Fields of a CQ's context, which stands at one place in create_cq and in query_cq's answer. C: struct
// mlx5_ifc_cqc_bits.
const cqContext = 0x80

func cqField(at, n int) uapi.Bits { return uapi.Bits{At: cqContext + at, Len: n} }

var (
	cqcRecordUmem = cqField(0x06, 1) // the record is in a umem
	cqcEntrySize  = cqField(0x08, 3)
	cqcIgnore     = cqField(0x0e, 1)
	cqcRecordID   = cqField(0x20, 32)
	cqcLogSize    = cqField(0x63, 5)
	cqcUAR        = cqField(0x68, 24)
	cqcPeriod     = cqField(0x84, 12)
	cqcCount      = cqField(0x90, 16)
	cqcEQN        = cqField(0xa0, 32)
	cqcProducer   = cqField(0x168, 24)
	cqcRecord     = cqField(0x1c0, 64)

	cqUmemOffset = uapi.Bits{At: 0x280, Len: 64}
	cqUmem       = uapi.Bits{At: 0x2c0, Len: 32}
	cqUmemValid  = uapi.Bits{At: 0x2e0, Len: 1}

	qpcUAR        = qpField(0x68, 24)
	qpcRecordUmem = qpField(0x683, 1)
	qpcRecordID   = qpField(0x720, 32)
	qpUmemOffset  = uapi.Bits{At: 0x800, Len: 64}
	qpUmem        = uapi.Bits{At: 0x840, Len: 32}
	qpUmemValid   = uapi.Bits{At: 0x860, Len: 1}

	pathMACHigh = qpField(qpPath+0x130, 16)
	pathMACLow  = qpField(qpPath+0x140, 32)
)

// inUmem returns the address of n bytes at an offset of a umem, and has the object being made keep it.
func (d *command) inUmem(o *hca.DevxObject, valid, id, offset uapi.Bits, n uint64) (uint64, uapi.Status) {
	u := hca.UmemNumbered(d.ctx, uint32(id.Get(d.in)))
	off := offset.Get(d.in)
	switch {
	case valid.Get(d.in) == 0, u == nil:
		return 0, uapi.StatusBadResource
	case u.Mem != d.ctx.Mem, off > u.Len, n > u.Len-off:
		return 0, uapi.StatusBadParam
	}
	o.Use(u)
	return u.Addr + off, uapi.StatusOK
}

const recordSize = 8

func devxCreateCQ(d *command) (*hca.DevxObject, uapi.Status) {
	log, size := cqcLogSize.Get(d.in), uint32(64)<<cqcEntrySize.Get(d.in)
	if log == 0 || log > 22 || size > 128 || cqcEQN.Get(d.in) >= compVectors {
		return nil, uapi.StatusBadParam
	}
	o := &hca.DevxObject{Name: "DevX CQ"}
	buf, s := d.inUmem(o, cqUmemValid, cqUmem, cqUmemOffset, uint64(size)<<log)
	if s != uapi.StatusOK {
		return nil, s
	}
	db, s := d.inUmem(o, cqcRecordUmem, cqcRecordID, cqcRecord, recordSize)
	if s != uapi.StatusOK {
		return nil, s
	}
	page := int(cqcUAR.Get(d.in))
	if !d.hasUAR(page) {
		return nil, uapi.StatusBadResource
	}
	cq, e := hca.CreateCQ(d.ctx, &hca.CQInit{Entries: 1<<log - 1, Flags: uint32(cqcIgnore.Get(d.in)) << 1, Buf: buf,
		DB: db, CQESize: size, UAR: page})
	if e != 0 {
		return nil, statusOf(e)
	}
	o.Num, o.Inner = cq.Num, cq.Handle
	return o, uapi.StatusOK
}

func devxQueryCQ(d *command, o any) uapi.Status {
	cq := within[hca.CQ](d, o)
	if cq == nil {
		return uapi.StatusBadResource
	}
	cqcEntrySize.Put(d.out, uint64(cq.CQESize/128))
	cqcIgnore.Put(d.out, uint64(bit(cq.IgnoreOverrun)))
	cqcLogSize.Put(d.out, logOf(cq.Entries))
	cqcPeriod.Put(d.out, uint64(cq.ModPeriod))
	cqcCount.Put(d.out, uint64(cq.ModCount))
	cqcEQN.Put(d.out, uint64(cq.Vector))
	cqcProducer.Put(d.out, uint64(cq.Run.PI))
	if cq.UAR != nil {
		cqcUAR.Put(d.out, uint64(cq.UAR.Index))
	}
	return uapi.StatusOK
}

func devxCreateQP(d *command) (*hca.DevxObject, uapi.Status) {
	i := &hca.QPInit{UIdx: uint32(qpcUser.Get(d.in)), UARPage: int(qpcUAR.Get(d.in)), Register: -1}
	switch qpcType.Get(d.in) {
	case qpcTypes[hca.RC]:
		i.Type = hca.RC
	case qpcTypes[hca.UC]:
		i.Type = hca.UC
	default:
		return nil, uapi.StatusBadParam
	}
	const leastRecv, block = 4, 64
	if qpcNoSQ.Get(d.in) == 0 {
		i.SQCount = 1 << qpcLogSQ.Get(d.in)
		i.Cap.SendWR = i.SQCount
	}
	switch qpcRQType.Get(d.in) {
	case srqRQ:
		srq := hca.Lookup(d.ctx, func(s *hca.SRQ) bool { return uint64(s.Num) == qpcSRQ.Get(d.in) })
		if srq == nil {
			return nil, uapi.StatusBadResource
		}
		i.SRQ = srq.Handle
	case 0:
		i.RQShift = uint32(qpcStride.Get(d.in)) + leastRecv
		i.RQCount = 1 << qpcLogRQ.Get(d.in)
		i.Cap.RecvWR = i.RQCount
	}
	pd := hca.Lookup(d.ctx, func(pd *hca.PD) bool { return uint64(pd.Num) == qpcPD.Get(d.in) })
	send := hca.Lookup(d.ctx, func(cq *hca.CQ) bool { return uint64(cq.Num) == qpcSendCQ.Get(d.in) })
	recv := hca.Lookup(d.ctx, func(cq *hca.CQ) bool { return uint64(cq.Num) == qpcRecvCQ.Get(d.in) })
	if pd == nil || send == nil || recv == nil || !d.hasUAR(i.UARPage) {
		return nil, uapi.StatusBadResource
	}
	i.PD, i.SendCQ, i.RecvCQ = pd.Handle, send.Handle, recv.Handle
	o := &hca.DevxObject{Name: "DevX QP"}
	var s uapi.Status
	size := uint64(i.SQCount)*block + uint64(i.RQCount)<<i.RQShift
	if i.Buf, s = d.inUmem(o, qpUmemValid, qpUmem, qpUmemOffset, size); s != uapi.StatusOK {
		return nil, s
	}
	if i.DB, s = d.inUmem(o, qpcRecordUmem, qpcRecordID, qpcRecord, recordSize); s != uapi.StatusOK {
		return nil, s
	}
	qp, e := hca.CreateQP(d.ctx, i)
	if e != 0 {
		return nil, statusOf(e)
	}
	o.Num, o.Inner = qp.Num, qp.Handle
	return o, uapi.StatusOK
}

// step is a change of a QP's state: where it may begin, where it leads, what it sets.
type step struct {
	from, to hca.QPState
	rc, uc   hca.AttrMask
}

// moves has the commands that change the state of a QP that a command made. From Err means from anywhere.
var moves = map[uint16]step{
	uapi.OpRst2InitQP: {hca.Reset, hca.Init, hca.AttrPKeyIndex | hca.AttrPort | hca.AttrAccess,
		hca.AttrPKeyIndex | hca.AttrPort | hca.AttrAccess},
	uapi.OpInit2RtrQP: {hca.Init, hca.RTR, hca.AttrAV | hca.AttrPathMTU | hca.AttrDestQPN | hca.AttrRQPSN |
		hca.AttrMaxDestRdAtomic | hca.AttrMinRNRTimer, hca.AttrAV | hca.AttrPathMTU | hca.AttrDestQPN | hca.AttrRQPSN},
	uapi.OpRtr2RtsQP: {hca.RTR, hca.RTS, hca.AttrTimeout | hca.AttrRetryCnt | hca.AttrRNRRetry | hca.AttrSQPSN |
		hca.AttrMaxRdAtomic, hca.AttrSQPSN},
	uapi.Op2ErrQP: {hca.Err, hca.Err, 0, 0},
	uapi.Op2RstQP: {hca.Err, hca.Reset, 0, 0},
}

// moveQP changes the state of a QP that a command made. One of verbs is for the kernel to change.
func moveQP(d *command, o any) uapi.Status {
	x, ok := o.(*hca.DevxObject)
	if !ok {
		return uapi.StatusBadResource
	}
	qp := within[hca.QP](d, x)
	if qp == nil {
		return uapi.StatusBadResource
	}
	m := moves[uint16(uapi.CmdOpcode.Get(d.in))]
	if m.from != hca.Err && qp.State != m.from {
		return uapi.StatusBadQPState
	}
	get := func(f uapi.Bits) uint8 { return uint8(f.Get(d.in)) }
	a := hca.QPAttr{PKeyIndex: uint16(pathPKey.Get(d.in)), Port: get(pathPort), PathMTU: get(qpcMTU),
		DestQPN: uint32(qpcRemote.Get(d.in)), RQPSN: uint32(qpcRecvPSN.Get(d.in)), SQPSN: uint32(qpcSendPSN.Get(d.in)),
		MaxDestRdAtomic: 1 << get(qpcRRAMax), MaxRdAtomic: 1 << get(qpcSRAMax), MinRNRTimer: get(qpcMinRNR),
		Timeout: get(pathTimeout), RetryCnt: get(qpcRetry), RNRRetry: get(qpcRNRRetry)}
	for f, right := range map[uapi.Bits]hca.Access{qpcRead: hca.AccessRemoteRead, qpcWrite: hca.AccessRemoteWrite,
		qpcAtomic: hca.AccessRemoteAtomic} {
		if f.Get(d.in) != 0 {
			a.Access |= right
		}
	}
	h := &a.AH
	*h = hca.AHAttr{FlowLabel: uint32(pathFlow.Get(d.in)), SGIDIndex: get(pathSGID), HopLimit: get(pathHops),
		TrafficClass: get(pathClass), DLID: uint16(pathLID.Get(d.in)), SL: get(pathSL),
		Global: ethernet(d.ctx.Device) || pathGlobal.Get(d.in) != 0, Port: qp.Attr.Port}
	binary.BigEndian.PutUint64(h.DGID[:], pathGIDHigh.Get(d.in))
	binary.BigEndian.PutUint64(h.DGID[8:], pathGIDLow.Get(d.in))
	binary.BigEndian.PutUint16(h.DMAC[:], uint16(pathMACHigh.Get(d.in)))
	binary.BigEndian.PutUint32(h.DMAC[2:], uint32(pathMACLow.Get(d.in)))
	mask := hca.AttrState | m.rc
	if qp.Type == hca.UC {
		mask = hca.AttrState | m.uc
	}
	return statusOf(qp.Modify(&a, mask, m.to))
}
